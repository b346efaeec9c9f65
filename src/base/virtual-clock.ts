/** Simulates time for tests and replays. The time of this clock moves only when its owner moves it. */
import type { Cancel, Clock } from "./clock.ts";
import { ClosedByUsing } from "./disposal.ts";

interface Entry {
  readonly dueUs: number;
  wake: (() => void) | null;
}

/** A clock of simulated time, which jumps from one callback to the next. */
export class VirtualClock extends ClosedByUsing implements Clock {
  readonly #pending: Entry[] = [];
  readonly #turns: (() => void)[] = [];
  #nowUs: number;
  /** Time at which the running call of `until` ends; -Infinity if no call runs. */
  #limitUs = Number.NEGATIVE_INFINITY;

  constructor(startUs = 0) {
    super();
    this.#nowUs = startUs;
  }

  now(): number {
    return this.#nowUs;
  }

  at(dueUs: number, wake: () => void): Cancel {
    const entry: Entry = { dueUs: Math.max(dueUs, this.#nowUs), wake };
    let at = this.#pending.length;
    while (at > 0 && this.#pending[at - 1]!.dueUs > entry.dueUs) at--;
    this.#pending.splice(at, 0, entry);
    return () => {
      entry.wake = null;
    };
  }

  nextUs(): number {
    return this.#pending[0]?.dueUs ?? Number.POSITIVE_INFINITY;
  }

  freeUntil(): number {
    return this.#turns.length > 0 ? Number.NEGATIVE_INFINITY : Math.min(this.#limitUs, this.nextUs());
  }

  skip(us: number): void {
    this.#nowUs = us;
  }

  turn(run: () => void): void {
    this.#turns.push(run);
  }

  soon(run: () => void): void {
    this.#turns.unshift(run);
  }

  /**
   * Runs all callbacks that are due up to `untilUs`, and sets the time to `untilUs`. Throws a RangeError for a time in the
   * past.
   */
  advanceTo(untilUs: number): void {
    if (!(untilUs >= this.#nowUs))
      throw new RangeError(`advanceTo: must be at least ${this.#nowUs} us, not ${untilUs}`);
    while (this.#turns.length > 0 || this.nextUs() <= untilUs) if (!this.next()) break;
    if (untilUs < Number.POSITIVE_INFINITY) this.#nowUs = untilUs;
  }

  /** Advances the time by `us` microseconds and runs the callbacks that are due. Throws a RangeError for negative values. */
  advanceBy(us: number): void {
    if (!(us >= 0)) throw new RangeError(`advanceBy: must be at least 0 microseconds, not ${us}`);
    this.advanceTo(this.#nowUs + us);
  }

  /** Runs the callbacks that are due before `us`, but not those due at `us`. Then sets the time to `us` if `us` is finite. */
  until(us: number): void {
    this.#limitUs = us;
    while (this.#turns.length > 0 || this.nextUs() < us) this.next();
    this.#limitUs = Number.NEGATIVE_INFINITY;
    if (us < Number.POSITIVE_INFINITY) this.#nowUs = Math.max(this.#nowUs, us);
  }

  /** Runs the next callback. Returns false if no callback is pending. */
  next(): boolean {
    const run = this.#turns.shift();
    if (run) {
      run();
      return true;
    }
    const next = this.#pending.shift();
    if (!next) return false;
    if (next.wake === null) return true;
    this.#nowUs = next.dueUs;
    next.wake();
    return true;
  }

  /**
   * Runs callbacks until none is pending. Throws an Error after `limit` callbacks, because callbacks may add new ones for ever.
   */
  drain(limit = 10_000_000): void {
    for (let i = 0; this.next(); i++) {
      if (i >= limit) throw new Error(`the virtual clock did not come to rest within ${limit} wake-ups`);
    }
  }

  close(): void {
    this.#pending.length = 0;
    this.#turns.length = 0;
  }
}
