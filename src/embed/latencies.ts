/** How long did runs take? Percentiles of their times, in microseconds, as a client sees them. */
import type { Run } from "./run.ts";

/** Over all observations together; microseconds, by nearest rank. Null where nothing was observed. */
export interface Percentiles {
  /** Observations. */
  readonly count: number;
  /** Arithmetic. */
  readonly mean: number | null;
  /** The median. */
  readonly p50: number | null;
  /** A tenth took longer. */
  readonly p90: number | null;
  /** A twentieth took longer. */
  readonly p95: number | null;
  /** A hundredth took longer. */
  readonly p99: number | null;
  /** The longest. */
  readonly max: number | null;
}

/** What clients saw of some runs. */
export interface RunLatencies {
  /** From the arrival to the first token: of each run that has one. */
  readonly ttftUs: Percentiles;
  /** Between two tokens of a run: all of them. Tokens of one step are 0 apart. */
  readonly itlUs: Percentiles;
  /** From the arrival to the end: of each run that has ended with a token. */
  readonly e2eUs: Percentiles;
}

/** Percentiles over the runs; those that were refused or have no token yet count nowhere. */
export function latencies(runs: readonly Run[]): RunLatencies {
  const answered = runs.filter(({ tokenTimesUs }) => tokenTimesUs.length > 0);
  return {
    ttftUs: percentilesOf(answered.map(({ arrivalUs, firstTokenUs }) => firstTokenUs! - arrivalUs)),
    itlUs: percentilesOf(answered.flatMap(({ tokenTimesUs: at }) => at.slice(1).map((us, i) => us - at[i]!))),
    e2eUs: percentilesOf(answered.flatMap(({ arrivalUs, endUs }) => (endUs === null ? [] : [endUs - arrivalUs]))),
  };
}

function percentilesOf(values: readonly number[]): Percentiles {
  const sorted = Float64Array.from(values).sort();
  const count = sorted.length;
  const at = (share: number) => (count === 0 ? null : sorted[Math.ceil(share * count) - 1]!);
  const mean = count === 0 ? null : sorted.reduce((sum, one) => sum + one, 0) / count;
  return { count, mean, p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), max: at(1) };
}
