/**
 * When is the loop due next? A page of memory that it shares with its alarm's thread, and with threads that make way for
 * it. Times are milliseconds since 1970.
 */
const AGAIN = 0;

export class DueTime {
  readonly shared: SharedArrayBuffer;
  /** Counts orders, so that whoever waits hears of each. */
  readonly #turn: Int32Array;
  readonly #ms: Float64Array;

  /** `shared`: another thread's. */
  constructor(shared: SharedArrayBuffer = new SharedArrayBuffer(16)) {
    this.shared = shared;
    this.#turn = new Int32Array(shared, 0, 2);
    this.#ms = new Float64Array(shared, 8, 1);
  }

  /** 0: it never was. */
  get ms(): number {
    return this.#ms[0]!;
  }

  /** Number of the last order. */
  get turn(): number {
    return Atomics.load(this.#turn, AGAIN);
  }

  order(ms: number): void {
    this.#ms[0] = ms;
    Atomics.add(this.#turn, AGAIN, 1);
    Atomics.notify(this.#turn, AGAIN);
  }

  /** Blocks until there is another order than number `seen`, or so long; whether there is. */
  wait(seen: number, ms = Number.POSITIVE_INFINITY): boolean {
    return Atomics.wait(this.#turn, AGAIN, seen, ms) !== "timed-out";
  }
}
