/** How are latencies distributed? Percentiles from the engines' fine histograms: constant memory, within 0.4 %. */
import { fineMiddle } from "../../engine/fine.ts";
import type { FineHistogram } from "../../engine/interface/types.ts";

/** In the histogram's unit; null where nothing was observed. */
export interface Spread {
  readonly count: number;
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
}

/** Observations of several engines together. `skipZero`: those of 0 are left out of the counts. */
export function addedUp(histograms: readonly FineHistogram[], skipZero = false) {
  const counts = new Float64Array(histograms[0]!.counts.length);
  let sum = 0;
  for (const histogram of histograms) {
    sum += histogram.sum;
    for (let i = skipZero ? 1 : 0; i < counts.length; i++) counts[i]! += histogram.counts[i]!;
  }
  const count = counts.reduce((total, one) => total + one, 0);
  /** The percentile of this share: the nearest rank's bucket. */
  const at = (share: number) => {
    const rank = Math.ceil(share * count);
    let below = 0;
    let bucket = -1;
    while (below < rank) below += counts[++bucket]!;
    return fineMiddle(bucket);
  };
  return { counts, sum, count, at };
}

/** Mean, which is exact, and percentiles. */
export function spreadOf(histograms: readonly FineHistogram[], skipZero = false): Spread {
  const { sum, count, at } = addedUp(histograms, skipZero);
  if (count === 0) return { count, mean: null, p50: null, p90: null, p99: null };
  return { count, mean: sum / count, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}
