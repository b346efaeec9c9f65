/** A histogram that is counted outside the core. */
import type { HistogramView } from "./types.ts";

/** Bounds are inclusive and in the unit of the values. `buckets` are not cumulative and one more than bounds. */
export class BucketCounts implements HistogramView {
  readonly buckets: Float64Array;
  sum = 0;
  count = 0;

  constructor(readonly bounds: readonly number[]) {
    this.buckets = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.buckets[at]!++;
    this.sum += value;
    this.count++;
  }
}
