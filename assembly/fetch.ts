// Prefetches memory that will be needed soon. The memory of a large block pool is in no processor cache. Callers
// register addresses in advance, and one tight loop reads them all. The processor overlaps these reads, while the code
// that needs the memory would wait for them one by one.
import { column } from "./column";
import { maxNumSeqs } from "./config";

/** Addresses of 64-bit words, and a cell that receives the loaded values, because the compiler would remove an unused load. */
let places = changetype<StaticArray<i32>>(0);
let most: i32 = 0;
let count: i32 = 0;
const read: usize = memory.data(8);

export function allocateFetch(): void {
  most = 4 * maxNumSeqs;
  places = column(most);
}

/** Registers an address. Addresses beyond the limit are ignored; their memory is then read when it is needed. */
export function prefetchLater(address: usize): void {
  if (count < most) places[count++] = <i32>address;
}

export function runPrefetches(): void {
  let at = changetype<usize>(places);
  const end = at + ((<usize>count) << 2);
  let all: u64 = 0;
  for (; at < end; at += 4) all |= load<u64>(load<u32>(at));
  store<u64>(read, all);
  count = 0;
}
