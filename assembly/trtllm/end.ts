// How does a request leave? Blocks to the cache or the free queue, its pages and its slot free.
import { moveAdapter } from "../adapters";
import { nextDetached, releaseDetached, releasePages } from "../arena";
import { column } from "../column";
import { Reason, SLOTS, Status } from "../layout";
import { removeRunningAt, removeWaiting, runningIndexOf, setDeferred } from "../queues";
import { closed, releaseSlot, row, slotOf, stopPage } from "../slots";
import { countEnd } from "../vllm/end";
import { release as releaseBlocks } from "./kv";
import { line, noteActive } from "./line";
import { forgetRetention } from "./retention";
import { dropTokens } from "./tokens";

/** Handles that the front has ended; they are freed at the next update. */
let closing = changetype<StaticArray<i32>>(0);
let closingCount: i32 = 0;

export function takeClosing(): void {
  closing = column(SLOTS);
}

/** Everything of it is free; the caller takes it off the active list, the waiting queue is done here. */
export function release(slot: i32): void {
  const l = line(slot);
  const isActive = row(slot).status === Status.Running;
  releaseBlocks(slot, l.isContext ? min(l.position, l.context - 1) : l.length - 1);
  if (isActive) {
    moveAdapter(slot, -1, 0);
    noteActive(slot, -1);
  } else {
    removeWaiting(slot);
    setDeferred(slot, 0);
    moveAdapter(slot, 0, -1);
  }
  for (let page = stopPage[slot]; page !== 0; ) {
    const next = nextDetached(page);
    releaseDetached(page);
    page = next;
  }
  dropTokens(slot);
  forgetRetention(slot);
  releasePages(slot);
  releaseSlot(slot);
}

/** The front ends a request: counted now with `tokens` output tokens, silent from now on, freed at the next update. */
export function close(handle: i32, reason: Reason, tokens: i32, now: f64): bool {
  const slot = slotOf(handle);
  if (slot < 0 || closed[slot] !== 0) return false;
  closed[slot] = 1;
  countEnd(slot, reason, tokens, now);
  closing[closingCount++] = handle;
  return true;
}

/** Frees what the front has closed, in order. */
export function applyClosed(): void {
  for (let i = 0; i < closingCount; i++) {
    const slot = slotOf(closing[i]);
    if (slot < 0) continue;
    if (row(slot).status === Status.Running) removeRunningAt(runningIndexOf(slot));
    release(slot);
  }
  closingCount = 0;
}
export function closedPending(): i32 {
  return closingCount;
}
