// What of memory will be needed soon? In a large pool it is in none of the processor's caches. Places are noted while
// there is time and read in one tight loop: its loads wait side by side, where those of the code that needs them would
// wait one after the other.
import { column } from "./column";
import { maxNumSeqs } from "./config";

/** Addresses of 64-bit words, and a cell for what was read: a load without use would be no load. */
let places = changetype<StaticArray<i32>>(0);
let most: i32 = 0;
let count: i32 = 0;
const read: usize = memory.data(8);

export function takeFetch(): void {
  most = 4 * maxNumSeqs;
  places = column(most);
}

/** Notes a place; past the limit it is forgotten, and read when it is needed. */
export function soon(address: usize): void {
  if (count < most) places[count++] = <i32>address;
}

export function fetchSoon(): void {
  let at = changetype<usize>(places);
  const end = at + ((<usize>count) << 2);
  let all: u64 = 0;
  for (; at < end; at += 4) all |= load<u64>(load<u32>(at));
  store<u64>(read, all);
  count = 0;
}
