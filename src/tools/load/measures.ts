/** Computes latencies from records, by the definitions of definitions.ts, over all requests or those of a window. */
import { distributionOf, percentile } from "../report/distribution.ts";
import type { Distribution } from "../report/result.ts";
import type { FailureClass, RequestRecord } from "./requests/types.ts";

/** Limits in milliseconds. A request above one of them is not good. */
export type Slo = Partial<Record<"ttft" | "tpot" | "itl" | "e2el", number>>;

export const isGoodAnswer = ({ failure, disturbed }: RequestRecord): boolean => failure === null && disturbed === null;

/** True for a stream that ended normally, but without a finish reason. It counts neither as complete nor as failed. */
export const isIncomplete = ({ failure, disturbed }: RequestRecord): boolean =>
  disturbed === null && failure?.kind === "incomplete";

/**
 * True for a request that failed. Requests that were cut on purpose, or by the end of the run, are neither complete nor
 * failed.
 */
export const isFailed = (record: RequestRecord): boolean =>
  record.failure !== null && record.disturbed === null && record.failure.kind !== "unfinished" && !isIncomplete(record);

const ms = (us: number): number => us / 1000;

/** Returns the number of tokens in the first chunk, or 1 if unknown. */
const firstTokens = ({ chunkTokens }: RequestRecord): number => Math.max(1, chunkTokens[0] ?? 1);

/** Returns the time per output token after the first chunk. Null if there are no such tokens. */
export function tpotMs(record: RequestRecord): number | null {
  const others = record.outputTokens - firstTokens(record);
  return others > 0 ? ms(record.lastUs - record.firstUs) / others : null;
}

/** Reports whether the server said how many tokens each chunk has. */
export function saysTokens({ chunkTokens }: RequestRecord): boolean {
  for (const tokens of chunkTokens) if (tokens > 0) return true;
  return false;
}

export function* chunkGaps({ chunkUs }: RequestRecord): Generator<number> {
  for (let i = 1; i < chunkUs.length; i++) yield ms(chunkUs[i]! - chunkUs[i - 1]!);
}

/** Yields one gap per token, except for the first token. */
export function* tokenGaps(record: RequestRecord): Generator<number> {
  const { chunkUs, chunkTokens } = record;
  if (!saysTokens(record)) {
    yield* chunkGaps(record);
    return;
  }
  for (let i = 0; i < chunkUs.length; i++) {
    if (i > 0) yield ms(chunkUs[i]! - chunkUs[i - 1]!);
    for (let more = 1; more < chunkTokens[i]!; more++) yield 0;
  }
}

export function pooled(
  records: readonly RequestRecord[],
  gaps: (record: RequestRecord) => Iterable<number>,
): Float64Array {
  let values = new Float64Array(1024);
  let count = 0;
  for (const record of records) {
    for (const gap of gaps(record)) {
      if (count === values.length) {
        const larger = new Float64Array(2 * count);
        larger.set(values);
        values = larger;
      }
      values[count++] = gap;
    }
  }
  return values.slice(0, count);
}

const each = (records: readonly RequestRecord[], value: (record: RequestRecord) => number | null): Float64Array =>
  Float64Array.from(
    records.map(value).filter((result): result is number => result !== null && Number.isFinite(result)),
  );

export const METRICS = ["ttft", "ttft_intended", "itl", "icl", "tpot", "e2el", "e2el_intended", "e2el_eof"] as const;
export type Metric = (typeof METRICS)[number];

export type Distributions = Readonly<Record<Metric, Distribution>>;

/** Returns the distributions over complete, undisturbed answers, in milliseconds. */
export function distributions(records: readonly RequestRecord[], percentiles: readonly number[]): Distributions {
  const good = records.filter(isGoodAnswer);
  const of = (values: Float64Array) => distributionOf(values, percentilesFor(percentiles, values.length));
  return {
    ttft: of(each(good, (r) => ms(r.firstUs - r.sendUs))),
    ttft_intended: of(each(good, (r) => ms(r.firstUs - r.intendedUs))),
    itl: of(pooled(good, tokenGaps)),
    icl: of(pooled(good, chunkGaps)),
    tpot: of(each(good, tpotMs)),
    e2el: of(each(good, (r) => ms(r.lastUs - r.sendUs))),
    e2el_intended: of(each(good, (r) => ms(r.lastUs - r.intendedUs))),
    e2el_eof: of(each(good, (r) => ms(r.endUs - r.sendUs))),
  };
}

/** Low percentiles that are added for rates, because slow users have low rates. */
const SLOW_ENDS = [1, 5, 10];

/**
 * Returns the distribution of tokens per second that a user sees: a request's output tokens divided by its `e2el`. Only
 * complete, undisturbed answers count.
 */
export function tokensPerUser(records: readonly RequestRecord[], percentiles: readonly number[]): Distribution {
  const speed = (r: RequestRecord) =>
    r.outputTokens > 0 && r.lastUs > r.sendUs ? (r.outputTokens / (r.lastUs - r.sendUs)) * 1e6 : null;
  const all = [...new Set([...SLOW_ENDS, ...percentiles])].sort((a, b) => a - b);
  return distributionOf(each(records.filter(isGoodAnswer), speed), all);
}

export interface Retries {
  /** Number of retries, number of retried requests, and retries per request. */
  readonly count: number;
  readonly requests: number;
  readonly per_request: number;
}

export function retriesOf(records: readonly RequestRecord[]): Retries {
  const count = records.reduce((sum, { retries }) => sum + retries, 0);
  const requests = records.filter(({ retries }) => retries > 0).length;
  return { count, requests, per_request: records.length > 0 ? count / records.length : 0 };
}

/** Number of samples from which p99.9 is reported, too. */
const ENOUGH_FOR_999 = 1000;

function percentilesFor(wanted: readonly number[], samples: number): readonly number[] {
  return samples >= ENOUGH_FOR_999 && !wanted.includes(99.9) ? [...wanted, 99.9] : wanted;
}

export function schedDelay(records: readonly RequestRecord[], percentiles: readonly number[]): Distribution {
  const delays = each(records, (r) => ms(r.sendUs - r.intendedUs));
  return distributionOf(delays, percentilesFor(percentiles, delays.length));
}

/** Returns percentiles in which failed requests count as infinitely slow. Null is infinite. Empty if no request failed. */
export function adjusted(
  records: readonly RequestRecord[],
  percentiles: readonly number[],
): Readonly<Record<string, Readonly<Record<string, number | null>>>> {
  const failed = records.filter(isFailed).length;
  if (failed === 0) return {};
  const good = records.filter(isGoodAnswer);
  const of = (value: (record: RequestRecord) => number): Record<string, number | null> => {
    const values = [...each(good, value).sort(), ...Array<number>(failed).fill(Number.POSITIVE_INFINITY)];
    return Object.fromEntries(
      percentiles.map((q) => {
        const at = percentile(values, q);
        return [`p${q}`, Number.isFinite(at) ? at : null];
      }),
    );
  };
  return {
    ttft: of((r) => ms(r.firstUs - r.sendUs)),
    ttft_intended: of((r) => ms(r.firstUs - r.intendedUs)),
    e2el: of((r) => ms(r.lastUs - r.sendUs)),
    e2el_intended: of((r) => ms(r.lastUs - r.intendedUs)),
  };
}

/**
 * Reports whether a request keeps all limits. `itl` is compared with the request's 99th percentile. A metric that the request
 * lacks counts as kept.
 */
export function meets(record: RequestRecord, slo: Slo): boolean {
  if (!isGoodAnswer(record)) return false;
  const { ttft, tpot, itl, e2el } = slo;
  if (ttft !== undefined && ms(record.firstUs - record.sendUs) > ttft) return false;
  if (e2el !== undefined && ms(record.lastUs - record.sendUs) > e2el) return false;
  if (tpot !== undefined && (tpotMs(record) ?? 0) > tpot) return false;
  if (itl === undefined) return true;
  const gaps = pooled([record], tokenGaps).sort();
  return gaps.length === 0 || percentile(gaps, 99) <= itl;
}

export function errorsByClass(records: readonly RequestRecord[]): Readonly<Partial<Record<FailureClass, number>>> {
  const counts: Partial<Record<FailureClass, number>> = {};
  for (const { failure } of records) {
    if (failure !== null) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  }
  return counts;
}

export interface Window {
  readonly fromUs: number;
  readonly toUs: number;
}

/**
 * Returns the steady window: from the first moment of full concurrency (for Infinity, from the end of the first request) to
 * the last send. Null if there is none.
 */
export function steadyWindow(records: readonly RequestRecord[], concurrency: number): Window | null {
  const sent = records.filter(({ sendUs }) => sendUs >= 0);
  const toUs = greatest(sent, (r) => r.sendUs);
  const fromUs = Number.isFinite(concurrency)
    ? fullAt(sent, concurrency)
    : least(sent.filter(isGoodAnswer), (r) => r.endUs);
  return toUs > fromUs ? { fromUs, toUs } : null;
}

/** Returns the first time at which so many requests were in progress. */
function fullAt(records: readonly RequestRecord[], concurrency: number): number {
  const changes = records.flatMap(({ sendUs, endUs }) => [
    { us: sendUs, by: 1 },
    { us: endUs, by: -1 },
  ]);
  changes.sort((a, b) => a.us - b.us || a.by - b.by);
  let running = 0;
  for (const { us, by } of changes) {
    running += by;
    if (running >= concurrency) return us;
  }
  return Number.POSITIVE_INFINITY;
}

/** Returns the largest value, or -Infinity if there are no records. */
export function greatest(records: readonly RequestRecord[], value: (record: RequestRecord) => number): number {
  let result = Number.NEGATIVE_INFINITY;
  for (const record of records) if (value(record) > result) result = value(record);
  return result;
}

export function least(records: readonly RequestRecord[], value: (record: RequestRecord) => number): number {
  let result = Number.POSITIVE_INFINITY;
  for (const record of records) if (value(record) < result) result = value(record);
  return result;
}

/**
 * Returns the number of a request's tokens within a window. If chunks do not say their tokens, the total is spread evenly over
 * them.
 */
export function tokensWithin(record: RequestRecord, { fromUs, toUs }: Window): number {
  const { chunkUs, chunkTokens } = record;
  const known = saysTokens(record);
  const share = known || chunkUs.length === 0 ? 1 : record.outputTokens / chunkUs.length;
  let tokens = 0;
  for (let i = 0; i < chunkUs.length; i++) {
    if (chunkUs[i]! >= fromUs && chunkUs[i]! < toUs) tokens += known ? chunkTokens[i]! : share;
  }
  return tokens;
}
