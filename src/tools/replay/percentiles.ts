/** Computes percentiles of latencies from the engines' fine histograms, within 0.4 % and in constant memory. */
import { fineMiddle } from "../../engine/fine.ts";
import type { FineHistogram } from "../../engine/interface/types.ts";

/** Mean and percentiles in the histogram's unit; null without observations. */
export interface Spread {
  readonly count: number;
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
}

/** Adds up the histograms of several engines. `skipZero`: leaves observations of 0 out of the counts. */
export function combinedHistogram(histograms: readonly FineHistogram[], skipZero = false) {
  const counts = new Float64Array(histograms[0]!.counts.length);
  let sum = 0;
  for (const histogram of histograms) {
    sum += histogram.sum;
    for (let i = skipZero ? 1 : 0; i < counts.length; i++) counts[i]! += histogram.counts[i]!;
  }
  const count = counts.reduce((total, inBucket) => total + inBucket, 0);
  /** Returns the percentile of a share from 0 to 1, as the middle of the bucket with the nearest rank. */
  const at = (share: number) => {
    const rank = Math.ceil(share * count);
    let below = 0;
    let bucket = -1;
    while (below < rank) below += counts[++bucket]!;
    return fineMiddle(bucket);
  };
  return { counts, sum, count, at };
}

/** Returns the exact mean, and percentiles within 0.4 %. */
export function spreadOf(histograms: readonly FineHistogram[], skipZero = false): Spread {
  const { sum, count, at } = combinedHistogram(histograms, skipZero);
  if (count === 0) return { count, mean: null, p50: null, p90: null, p99: null };
  return { count, mean: sum / count, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}
