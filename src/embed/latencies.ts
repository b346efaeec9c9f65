/** Computes percentiles of the latencies of runs, in microseconds, as clients see them. */
import type { Run } from "./run.ts";

/** Mean and percentiles in microseconds, by nearest rank. null: no observations. */
export interface Percentiles {
  /** Number of observations. */
  readonly count: number;
  /** Arithmetic mean. */
  readonly mean: number | null;
  /** The median. */
  readonly p50: number | null;
  /** 90th percentile. */
  readonly p90: number | null;
  /** 95th percentile. */
  readonly p95: number | null;
  /** 99th percentile. */
  readonly p99: number | null;
  /** Maximum. */
  readonly max: number | null;
}

/** Latencies of several runs. */
export interface RunLatencies {
  /** Time to first token, of each run with a token. */
  readonly ttftUs: Percentiles;
  /** Times between successive tokens of a run. 0 for tokens of the same step. */
  readonly itlUs: Percentiles;
  /** Time from arrival to end, of each ended run with a token. */
  readonly e2eUs: Percentiles;
}

/** Returns the latencies of the runs. Refused runs and runs without a token do not count. */
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
