/** How punctual is the loop? Counts how late each step's writing began, how long it took, and every re-base of the clock. */
import { LOOP_BOUNDS } from "../config/buckets.ts";
import type { HistogramSnapshot, LoopSnapshot } from "./types.ts";

class Counts {
  readonly #boundsUs: Float64Array;
  readonly #buckets: Float64Array;
  #sumUs = 0;
  #count = 0;

  constructor(readonly boundsS: readonly number[]) {
    this.#boundsUs = Float64Array.from(boundsS, (bound) => bound * 1e6);
    this.#buckets = new Float64Array(boundsS.length + 1);
  }

  observe(us: number): void {
    const bounds = this.#boundsUs;
    let at = 0;
    while (at < bounds.length && us > bounds[at]!) at++;
    this.#buckets[at]!++;
    this.#sumUs += us;
    this.#count++;
  }

  snapshot(): HistogramSnapshot {
    return { bounds: this.boundsS, buckets: Array.from(this.#buckets), sum: this.#sumUs / 1e6, count: this.#count };
  }
}

export class Lateness {
  readonly #starts = new Counts(LOOP_BOUNDS);
  readonly #writes = new Counts(LOOP_BOUNDS);
  #rebasedUs = 0;
  #late = 0;

  /** A step's writing began `lateUs` after it was due. */
  started(lateUs: number): void {
    this.#starts.observe(lateUs);
    if (lateUs > 1000) this.#late++;
  }
  wrote(durationUs: number): void {
    this.#writes.observe(durationUs);
  }
  rebased(byUs: number): void {
    this.#rebasedUs += byUs;
  }

  snapshot(): LoopSnapshot {
    return {
      stepStartLateness: this.#starts.snapshot(),
      stepWriteDuration: this.#writes.snapshot(),
      clockRebasedSeconds: this.#rebasedUs / 1e6,
      stepsLate: this.#late,
    };
  }
}
