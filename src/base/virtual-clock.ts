/** A clock whose time moves only when its owner moves it, for tests and replays. */
import type { Cancel, Clock } from "./clock.ts";
import { ClosedByUsing } from "./disposal.ts";

interface Entry {
  readonly dueUs: number;
  wake: (() => void) | null;
}

/** Time that moves only when asked: the next wake-up is the next moment. For tests and replay. */
export class VirtualClock extends ClosedByUsing implements Clock {
  readonly #pending: Entry[] = [];
  readonly #turns: (() => void)[] = [];
  #nowUs: number;
  /** Where `until` ends, while it runs. */
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

  /** Runs everything that is due up to `untilUs`, in order; then it is that time. Throws a RangeError for what is no time from now on. */
  advanceTo(untilUs: number): void {
    if (!(untilUs >= this.#nowUs)) throw new RangeError(`advanceTo: a time from ${this.#nowUs} us on, not ${untilUs}`);
    for (;;) {
      const run = this.#turns.shift();
      if (run) {
        run();
        continue;
      }
      const next = this.#pending[0];
      if (!next || next.dueUs > untilUs) break;
      this.#pending.shift();
      if (next.wake === null) continue;
      this.#nowUs = next.dueUs;
      next.wake();
    }
    if (untilUs < Number.POSITIVE_INFINITY) this.#nowUs = untilUs;
  }

  /** Runs everything that is due in the next `us` microseconds, in order; then so much time has passed. */
  advanceBy(us: number): void {
    if (!(us >= 0)) throw new RangeError(`advanceBy: microseconds from 0 on, not ${us}`);
    this.advanceTo(this.#nowUs + us);
  }

  /** Runs everything that is due before `us`; then it is that time, if it is finite, and what is due then has not run. */
  until(us: number): void {
    this.#limitUs = us;
    for (;;) {
      const run = this.#turns.shift();
      if (run) {
        run();
        continue;
      }
      const next = this.#pending[0];
      if (!next || next.dueUs >= us) break;
      this.#pending.shift();
      if (next.wake === null) continue;
      this.#nowUs = next.dueUs;
      next.wake();
    }
    this.#limitUs = Number.NEGATIVE_INFINITY;
    if (us < Number.POSITIVE_INFINITY) this.#nowUs = Math.max(this.#nowUs, us);
  }

  /** Runs what comes next, one turn or one wake-up; false when nothing is pending. */
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

  /** Runs until nothing is pending; the time is that of the last wake-up. At most `limit` wake-ups: a loop that never rests is an error. */
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
