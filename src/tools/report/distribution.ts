/** Computes distributions: exact moments and percentiles, and a histogram that is fine enough to draw. */
import type { Distribution, Histogram } from "./result.ts";

/** Buckets per factor of ten. The bounds of neighbours are 1.2 % apart. */
const PER_DECADE = 200;
/** Range of the buckets: from a microsecond, if the unit is a millisecond, over 12 factors of ten. */
const LEAST = 1e-3;
const MOST_BUCKETS = 12 * PER_DECADE;

/** Returns a percentile, interpolated linearly (numpy's default). `sorted` must rise and must not be empty. `q`: 0 to 100. */
export function percentile(sorted: ArrayLike<number>, q: number): number {
  const at = (q / 100) * (sorted.length - 1);
  const below = Math.floor(at);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (at - below);
}

/**
 * Computes a distribution. `values` may have any order but no NaN; they are sorted in place. The standard deviation is that of
 * the population (numpy's default).
 */
export function distributionOf(values: Float64Array, percentiles: readonly number[]): Distribution {
  const count = values.length;
  if (count === 0) return { count, mean: null, std: null, min: null, max: null };
  values.sort();
  let sum = 0;
  for (let i = 0; i < count; i++) sum += values[i]!;
  const mean = sum / count;
  let squares = 0;
  for (let i = 0; i < count; i++) squares += (values[i]! - mean) ** 2;
  return {
    count,
    mean,
    std: Math.sqrt(squares / count),
    min: values[0]!,
    max: values[count - 1]!,
    ...Object.fromEntries(percentiles.map((q) => [`p${q}`, percentile(values, q)])),
    histogram: distributionHistogram(values),
  };
}

/**
 * True if two distributions have the same count, and means and maxima within one percent, so that a plot of both would show
 * only one.
 */
export function isAlike(first: Distribution, second: Distribution): boolean {
  const close = (a: number | null | undefined, b: number | null | undefined) =>
    typeof a === "number" && typeof b === "number" && Math.abs(a - b) <= 0.01 * Math.abs(a);
  return first.count === second.count && close(first.mean, second.mean) && close(first.max, second.max);
}

/**
 * Makes a histogram of rising values. Buckets are even on a logarithmic scale on both sides of zero, with one bucket around
 * zero. Empty buckets are left out. The last bound is the largest value.
 */
export function distributionHistogram(sorted: ArrayLike<number>): Histogram {
  const bounds: number[] = [];
  const counts: number[] = [];
  for (let i = 0; i < sorted.length; ) {
    const bound = boundOf(sorted[i]!);
    const from = i;
    do i++;
    while (i < sorted.length && sorted[i]! <= bound);
    bounds.push(bound);
    counts.push(i - from);
  }
  if (bounds.length > 0) bounds[bounds.length - 1] = sorted[sorted.length - 1]!;
  return { bounds, counts };
}

/** Returns the upper bound of a value's bucket. */
function boundOf(value: number): number {
  const size = Math.abs(value);
  if (size <= LEAST) return LEAST;
  const place = Math.log10(size / LEAST) * PER_DECADE;
  const step = value > 0 ? Math.ceil(place - 1e-9) : Math.ceil(place - 1e-9) - 1;
  const bound = LEAST * 10 ** (Math.min(step, MOST_BUCKETS) / PER_DECADE);
  if (step > MOST_BUCKETS) return value > 0 ? Number.MAX_VALUE : -bound;
  return value > 0 ? Math.max(bound, value) : Math.min(-bound, -LEAST);
}
