/**
 * Holds the time at which the event loop is due next, in memory that the loop shares with the alarm thread and with threads
 * that pause for the loop. Times are milliseconds since 1970.
 */
import { epochMs } from "../clock.ts";

const AGAIN = 0;

export class DueTime {
  /** Number of orders so far. Each order changes it, so that a waiting thread notices the order. */
  readonly #turn: Int32Array;
  readonly #ms: Float64Array;

  /** `shared`: the memory of another thread's `DueTime`. */
  constructor(readonly shared: SharedArrayBuffer = new SharedArrayBuffer(16)) {
    this.#turn = new Int32Array(shared, 0, 2);
    this.#ms = new Float64Array(shared, 8, 1);
  }

  /** Due time of the last order. 0 before the first order. */
  get ms(): number {
    return this.#ms[0]!;
  }

  /** Number of orders so far. */
  get turn(): number {
    return Atomics.load(this.#turn, AGAIN);
  }

  order(ms: number): void {
    this.#ms[0] = ms;
    Atomics.add(this.#turn, AGAIN, 1);
    Atomics.notify(this.#turn, AGAIN);
  }

  /**
   * Blocks until an order newer than number `seen` exists, for at most `ms` milliseconds. Returns false if the time ran out
   * first. A late `notify` of order `seen` itself does not end the wait: the loop may lose its core between `add` and `notify`.
   */
  wait(seen: number, ms = Number.POSITIVE_INFINITY): boolean {
    const endMs = epochMs() + ms;
    for (let leftMs = ms; this.turn === seen; leftMs = endMs - epochMs())
      if (Atomics.wait(this.#turn, AGAIN, seen, Math.max(0, leftMs)) === "timed-out") return this.turn !== seen;
    return true;
  }
}
