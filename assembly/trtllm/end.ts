// Ends a request: stores or frees its blocks and frees its pages and its slot.
import { moveAdapter } from "../adapters";
import { nextDetached, releaseDetached, releasePages } from "../arena";
import { Status } from "../layout";
import { removeRunningAt, removeWaiting, runningIndexOf, setDeferred } from "../queues";
import { releaseSlot, row, slotOf, stopPage } from "../slots";
import { closedAt, closedPending, forgetClosed } from "../vllm/end";
import { release as releaseBlocks } from "./kv";
import { line, noteActive } from "./line";
import { forgetRetention } from "./retention";
import { dropTokens } from "./tokens";

/**
 * Frees all that the request holds. Also removes a waiting request from its queue. The caller removes an active request
 * from the active list.
 */
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

/** Frees the requests that the front end has closed, in the order of closing. */
export function applyClosed(): void {
  for (let i = 0; i < closedPending(); i++) {
    const slot = slotOf(closedAt(i));
    if (slot < 0) continue;
    if (row(slot).status === Status.Running) removeRunningAt(runningIndexOf(slot));
    release(slot);
  }
  forgetClosed();
}
