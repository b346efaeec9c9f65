// Which LoRA adapters run? Requests per adapter, running and waiting; at most `max_loras` adapters may run at once.

import { column } from "./column";
import { maxLoras } from "./config";
import { setAddress } from "./header";
import { ADAPTERS, Word } from "./layout";
import { lora } from "./slots";

let runningOf = changetype<StaticArray<i32>>(0);
let waitingOf = changetype<StaticArray<i32>>(0);
/** Adapters with a running request; the largest number that came. */
let active: i32 = 0;
let largest: i32 = 0;
/** `active` has changed since it was asked for. */
let moved = false;

export function takeAdapters(): void {
  runningOf = column(ADAPTERS);
  waitingOf = column(ADAPTERS);
}
export function publishAdapters(): void {
  setAddress(Word.AdapterRunningAt, changetype<usize>(runningOf));
  setAddress(Word.AdapterWaitingAt, changetype<usize>(waitingOf));
}

/** Whether the request's adapter does not run, and no other may start to. */
export function lacksAdapter(slot: i32): bool {
  const adapter = lora[slot];
  return adapter !== 0 && maxLoras > 0 && active >= maxLoras && runningOf[adapter] === 0;
}

/** One more or less of those that run with the slot's adapter, and of those that wait with it. */
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

/** Others may lack their adapter now than when this was last noted. */
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
