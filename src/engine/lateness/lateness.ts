/** Measures the lateness of the loop: how late each step's writing starts, how long it takes, and by how much engine time is moved forward. */
import { LOOP_BOUNDS } from "../config/buckets.ts";
import { LOOP_HISTOGRAMS, LOOP_NAMES, numbersOf } from "../interface/numbers.ts";
import type { HistogramSnapshot, HistogramView, LoopSnapshot, LoopView } from "../interface/types.ts";
import { LATE_US } from "./causes.ts";
import type { EndingStep, LoopObserver } from "./loop-observer.ts";

class Counts implements HistogramView {
  readonly #boundsUs: Float64Array;
  readonly buckets: Float64Array;
  #sumUs = 0;
  #count = 0;

  /** `bounds` in seconds. */
  constructor(readonly bounds: readonly number[]) {
    this.#boundsUs = Float64Array.from(bounds, (bound) => bound * 1e6);
    this.buckets = new Float64Array(bounds.length + 1);
  }

  get sum() {
    return this.#sumUs / 1e6;
  }
  get count() {
    return this.#count;
  }

  observe(us: number, times = 1): void {
    const bounds = this.#boundsUs;
    let at = 0;
    while (at < bounds.length && us > bounds[at]!) at++;
    this.buckets[at]! += times;
    this.#sumUs += us * times;
    this.#count += times;
  }

  snapshot(): HistogramSnapshot {
    const { bounds, buckets, sum, count } = this;
    return { bounds, buckets: Array.from(buckets), sum, count };
  }
}

export class Lateness implements LoopView, LoopObserver {
  readonly stepStartLateness = new Counts(LOOP_BOUNDS);
  readonly stepEndLateness = new Counts(LOOP_BOUNDS);
  readonly stepWriteDuration = new Counts(LOOP_BOUNDS);
  readonly stepHostTime = new Counts(LOOP_BOUNDS);
  readonly eventLoopDelay = new Counts(LOOP_BOUNDS);
  stepsLate = 0;
  #rebasedUs = 0;

  get clockRebasedSeconds() {
    return this.#rebasedUs / 1e6;
  }

  started({ rebasedUs }: EndingStep): void {
    this.#rebasedUs += rebasedUs;
  }
  delivered({ plannedUs, startUs, endUs, rows, isTimed }: EndingStep): void {
    if (rows === 0) return;
    // Counted from the planned end, because a boundary that was moved forward would hide the largest lateness.
    if (isTimed) {
      this.stepStartLateness.observe(startUs - plannedUs);
      this.stepEndLateness.observe(endUs - plannedUs);
      if (startUs - plannedUs > LATE_US) this.stepsLate++;
    }
    this.stepWriteDuration.observe(endUs - startUs);
  }
  stepped({ startUs, doneUs, rows }: EndingStep): void {
    if (rows > 0) this.stepHostTime.observe(doneUs - startUs);
  }
  /** Simulated time cannot be late. */
  coasted(steps: number): void {
    for (const counts of [this.stepStartLateness, this.stepEndLateness, this.stepWriteDuration, this.stepHostTime]) {
      counts.observe(0, steps);
    }
  }
  delayed(us: number): void {
    this.eventLoopDelay.observe(us);
  }

  snapshot(): LoopSnapshot {
    const histograms = Object.fromEntries(LOOP_HISTOGRAMS.map((name) => [name, this[name].snapshot()]));
    return {
      ...numbersOf(this, LOOP_NAMES),
      ...(histograms as Record<(typeof LOOP_HISTOGRAMS)[number], HistogramSnapshot>),
    };
  }
}
