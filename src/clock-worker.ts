/**
 * How is the loop woken punctually without spinning? This thread sleeps in `Atomics.wait` until shortly before the time
 * asked for and posts one message; the loop spins the rest. Protocol: `turn` counts orders, `dueMs` holds the epoch time.
 */
declare const self: Worker & { onmessage: ((event: MessageEvent<SharedArrayBuffer>) => void) | null };

/** How long before the time the message leaves: it takes some 50 µs to arrive. */
const AHEAD_MS = 0.2;

self.onmessage = ({ data }) => {
  const turn = new Int32Array(data, 0, 2);
  const due = new Float64Array(data, 8, 1);
  for (let seen = 0; ; ) {
    Atomics.wait(turn, 0, seen);
    seen = Atomics.load(turn, 0);
    for (;;) {
      const leftMs = due[0]! - performance.timeOrigin - performance.now() - AHEAD_MS;
      if (leftMs <= 0) break;
      // A newer order ends the wait early: the loop asks again for the new time.
      if (Atomics.wait(turn, 0, seen, leftMs) !== "timed-out") seen = Atomics.load(turn, 0);
    }
    postMessage(null);
  }
};
