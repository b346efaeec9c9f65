// Counts running and waiting requests per LoRA adapter. At most `max_loras` adapters may run at once.

import { column } from "./column";
import { maxLoras } from "./config";
import { setAddress } from "./header";
import { ADAPTERS, Word } from "./layout";
import { lora } from "./slots";

let runningOf = changetype<StaticArray<i32>>(0);
let waitingOf = changetype<StaticArray<i32>>(0);
/** Number of adapters with a running request, and the largest adapter number that a request had. */
let active: i32 = 0;
let largest: i32 = 0;
/** True if `active` has changed since `noteAdapters`. */
let moved = false;

export function allocateAdapters(): void {
  runningOf = column(ADAPTERS);
  waitingOf = column(ADAPTERS);
}
export function publishAdapters(): void {
  setAddress(Word.AdapterRunningAt, changetype<usize>(runningOf));
  setAddress(Word.AdapterWaitingAt, changetype<usize>(waitingOf));
}

/** Returns true if the request must wait for its adapter: the adapter does not run, and no further adapter may start. */
export function lacksAdapter(slot: i32): bool {
  const adapter = lora[slot];
  return adapter !== 0 && maxLoras > 0 && active >= maxLoras && runningOf[adapter] === 0;
}

/** Adds `running` and `waiting` (1, 0 or -1) to the counts of the adapter of this slot's request. */
export function moveAdapter(slot: i32, running: i32, waiting: i32): void {
  const adapter = lora[slot];
  if (adapter === 0) return;
  const before = runningOf[adapter];
  runningOf[adapter] = before + running;
  waitingOf[adapter] = waitingOf[adapter] + waiting;
  if (before === 0 && running > 0) {
    active++;
    moved = true;
  }
  if (before === 1 && running < 0) {
    active--;
    moved = true;
  }
  largest = max(largest, adapter);
}

/**
 * Returns true if the set of running adapters has changed since `noteAdapters`, so that a request which had to wait for
 * its adapter may now be admitted.
 */
export function adaptersMoved(): bool {
  return moved;
}
export function noteAdapters(): void {
  moved = false;
}

export function largestAdapter(): i32 {
  return largest;
}

export function adapterRunning(adapter: i32): i32 {
  return runningOf[adapter];
}
export function adapterWaiting(adapter: i32): i32 {
  return waitingOf[adapter];
}
