/**
 * Wakes the event loop punctually without spinning. This thread sleeps in `Atomics.wait` until shortly before the ordered time,
 * and then posts a message. The loop spins for the remaining time.
 */
import { DueTime } from "./due-time.ts";
import { shortenSlices } from "./short-slices.ts";

declare const self: Worker & { onmessage: ((event: MessageEvent<SharedArrayBuffer>) => void) | null };

/** Milliseconds by which the message is sent early, because a message takes about 0.05 ms to arrive. */
const AHEAD_MS = 0.2;

// With slices of normal length, another thread would finish its slice after this thread wakes, and the loop would be late by
// that time.
shortenSlices();

self.onmessage = ({ data }) => {
  const due = new DueTime(data);
  for (let seen = 0; ; ) {
    due.wait(seen);
    seen = due.turn;
    for (;;) {
      const leftMs = due.ms - performance.timeOrigin - performance.now() - AHEAD_MS;
      if (leftMs <= 0) break;
      // A newer order ends the wait early. Then compute the remaining time again.
      if (due.wait(seen, leftMs)) seen = due.turn;
    }
    postMessage(null);
  }
};
