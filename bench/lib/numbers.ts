/** Statistics of samples: quantiles and medians, which a busy machine disturbs less than means, and fitted lines. */

/** Returns the value below which `share` (0 to 1) of the samples lie. NaN without samples. */
export function quantile(samples: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
}

export function median(samples: ArrayLike<number>): number {
  const sorted = Float64Array.from(samples).sort();
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Returns the median of each figure of some runs, by its name. */
export function medians<Name extends string>(runs: readonly Readonly<Record<Name, number>>[]): Record<Name, number> {
  const names = Object.keys(runs[0]!) as Name[];
  return Object.fromEntries(names.map((name) => [name, median(runs.map((run) => run[name]))])) as Record<Name, number>;
}

/** Returns the quotient of the two values of each round, as a median. */
export const medianRatio = (values: readonly number[], to: readonly number[]) =>
  median(values.map((value, round) => value / to[round]!));

const meanOf = (samples: readonly number[]) => samples.reduce((sum, value) => sum + value, 0) / samples.length;

/** Returns the slope of the straight line through equidistant samples, per sample. */
export function slope(samples: readonly number[]): number {
  const middle = (samples.length - 1) / 2;
  const mean = meanOf(samples);
  let above = 0;
  let below = 0;
  for (const [i, value] of samples.entries()) {
    above += (i - middle) * (value - mean);
    below += (i - middle) ** 2;
  }
  return above / below;
}

/** Returns the mean of the samples, and its standard error. */
export function meanAndError(samples: readonly number[]): { readonly mean: number; readonly error: number } {
  const mean = meanOf(samples);
  const variance = samples.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (samples.length - 1);
  return { mean, error: Math.sqrt(variance / samples.length) };
}

/** The cost of a request as `a + b · tokens`. */
export interface Line {
  readonly a: number;
  readonly b: number;
}

/** Returns the line nearest to the points in relative terms: each point counts as much as any other. */
export function fitted(points: readonly (readonly [tokens: number, us: number])[]): Line {
  let [w, wt, wtt, wy, wty] = [0, 0, 0, 0, 0];
  for (const [tokens, us] of points) {
    const weight = 1 / us ** 2;
    w += weight;
    wt += weight * tokens;
    wtt += weight * tokens ** 2;
    wy += weight * us;
    wty += weight * tokens * us;
  }
  const b = (w * wty - wt * wy) / (w * wtt - wt ** 2);
  return { a: (wy - b * wt) / w, b };
}
