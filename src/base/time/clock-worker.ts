/**
 * Wakes the loop punctually without spinning: this thread sleeps in `Atomics.wait` until shortly before the time asked
 * for and posts one message per order; the loop spins for the rest.
 */
import { DueTime } from "./due-time.ts";
import { shortenSlices } from "./short-slices.ts";

declare const self: Worker & { onmessage: ((event: MessageEvent<SharedArrayBuffer>) => void) | null };

/** Time by which the message leaves early, because it takes some 50 µs to arrive. */
const AHEAD_MS = 0.2;

// Otherwise another thread would first finish its time slice when this thread wakes, and the loop would be late by that time.
shortenSlices();

self.onmessage = ({ data }) => {
  const due = new DueTime(data);
  for (let seen = 0; ; ) {
    due.wait(seen);
    seen = due.turn;
    for (;;) {
      const leftMs = due.ms - performance.timeOrigin - performance.now() - AHEAD_MS;
      if (leftMs <= 0) break;
      // A newer order ends the wait early: the loop asks again for the new time.
      if (due.wait(seen, leftMs)) seen = due.turn;
    }
    postMessage(null);
  }
};
