// Buffers KV cache events as records (`Event` in layout.ts describes their words). Off by default. The reader empties
// the buffer after each call. Records that do not fit are dropped and counted.
import { column } from "./column";
import { kvEvents, numGpuBlocks } from "./config";
import { setAddress, setWord, word } from "./header";
import { Event, Word } from "./layout";

let words = changetype<StaticArray<i32>>(0);
let capacity: i32 = 0;
let used: i32 = 0;

export function allocateEvents(): void {
  capacity = kvEvents ? 65536 + numGpuBlocks * 8 : 1;
  words = column(capacity);
}
export function publishEvents(): void {
  setAddress(Word.EventsAt, changetype<usize>(words));
}

export function clearEvents(): void {
  used = 0;
  setWord(Word.EventWords, 0);
}

/**
 * Writes the head of a STORED record. The caller must then call `storedHash` once per block. Returns false and writes
 * nothing if the record does not fit.
 */
export function eventStored(slot: i32, first: i32, blocks: i32, parent: u64): bool {
  if (!room(6 + 2 * blocks)) return false;
  push(Event.Stored);
  push(slot);
  push(first);
  push(blocks);
  storedHash(parent);
  return true;
}
export function storedHash(hash: u64): void {
  push(<i32>hash);
  push(<i32>(hash >> 32));
}

/**
 * Writes the head of a record of another kind. The caller must then call `eventWord` exactly `words` times. Returns
 * false and writes nothing if the record does not fit.
 */
export function eventOf(kind: i32, words: i32): bool {
  if (!room(1 + words)) return false;
  push(kind);
  return true;
}
export function eventWord(word: i32): void {
  push(word);
}

export function eventRemoved(block: i32, hash: u64): void {
  if (!room(4)) return;
  push(Event.Removed);
  push(block);
  storedHash(hash);
}

export function eventCleared(): void {
  if (room(1)) push(Event.Cleared);
}

function room(size: i32): bool {
  if (used + size <= capacity) return true;
  setWord(Word.EventsLost, word(Word.EventsLost) + 1);
  return false;
}

function push(value: i32): void {
  words[used++] = value;
  setWord(Word.EventWords, used);
}
