/** What do the records say? Latencies by our definitions (definitions.ts), for all requests or those of a window. */
import { distributionOf, percentile } from "../report/distribution.ts";
import type { Distribution } from "../report/result.ts";
import type { FailureClass, RequestRecord } from "./requests/types.ts";

/** In milliseconds; where it is above, a request is not good. */
export type Slo = Partial<Record<"ttft" | "tpot" | "itl" | "e2el", number>>;

export const isGoodAnswer = ({ failure, disturbed }: RequestRecord): boolean => failure === null && disturbed === null;

/** True for a stream that ended in order but without a finish reason: it counts as neither complete nor failed. */
export const isIncomplete = ({ failure, disturbed }: RequestRecord): boolean =>
  disturbed === null && failure?.kind === "incomplete";

/** True for a request that failed. A request that was cut on purpose, or by the run's end, is neither complete nor failed. */
export const isFailed = (record: RequestRecord): boolean =>
  record.failure !== null && record.disturbed === null && record.failure.kind !== "unfinished" && !isIncomplete(record);

const ms = (us: number): number => us / 1000;

/** Tokens in the first chunk; 1 where it is unknown. */
const firstTokens = ({ chunkTokens }: RequestRecord): number => Math.max(1, chunkTokens[0] ?? 1);

/** Null: it has no such number. */
export function tpotMs(record: RequestRecord): number | null {
  const others = record.outputTokens - firstTokens(record);
  return others > 0 ? ms(record.lastUs - record.firstUs) / others : null;
}

/** Whether each chunk said how many tokens it holds. */
export function saysTokens({ chunkTokens }: RequestRecord): boolean {
  for (const tokens of chunkTokens) if (tokens > 0) return true;
  return false;
}

export function* chunkGaps({ chunkUs }: RequestRecord): Generator<number> {
  for (let i = 1; i < chunkUs.length; i++) yield ms(chunkUs[i]! - chunkUs[i - 1]!);
}

/** One gap per token but the first. */
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
  Float64Array.from(records.map(value).filter((one): one is number => one !== null && Number.isFinite(one)));

export const METRICS = ["ttft", "ttft_intended", "itl", "icl", "tpot", "e2el", "e2el_intended", "e2el_eof"] as const;
export type Metric = (typeof METRICS)[number];

export type Distributions = Readonly<Record<Metric, Distribution>>;

/** Distributions over complete, undisturbed answers, in milliseconds. */
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

/** Percentiles of a rate: its slow end is the low one. */
const SLOW_ENDS = [1, 5, 10];

/** Tokens per second that the user of a request sees, of complete, undisturbed answers: its tokens by its `e2el`. */
export function tokensPerUser(records: readonly RequestRecord[], percentiles: readonly number[]): Distribution {
  const speed = (r: RequestRecord) =>
    r.outputTokens > 0 && r.lastUs > r.sendUs ? (r.outputTokens / (r.lastUs - r.sendUs)) * 1e6 : null;
  const all = [...new Set([...SLOW_ENDS, ...percentiles])].sort((a, b) => a - b);
  return distributionOf(each(records.filter(isGoodAnswer), speed), all);
}

export interface Retries {
  /** How often requests were sent again, how many were, and that often per request. */
  readonly count: number;
  readonly requests: number;
  readonly per_request: number;
}

export function retriesOf(records: readonly RequestRecord[]): Retries {
  const count = records.reduce((sum, { retries }) => sum + retries, 0);
  const requests = records.filter(({ retries }) => retries > 0).length;
  return { count, requests, per_request: records.length > 0 ? count / records.length : 0 };
}

/** With enough samples p99.9 is one more. */
const ENOUGH_FOR_999 = 1000;

function percentilesFor(asked: readonly number[], samples: number): readonly number[] {
  return samples >= ENOUGH_FOR_999 && !asked.includes(99.9) ? [...asked, 99.9] : asked;
}

export function schedDelay(records: readonly RequestRecord[], percentiles: readonly number[]): Distribution {
  const delays = each(records, (r) => ms(r.sendUs - r.intendedUs));
  return distributionOf(delays, percentilesFor(percentiles, delays.length));
}

/** Percentiles with failed requests as infinitely slow; null is infinite. Empty where nothing failed. */
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

/** `itl` is the request's own 99th percentile; a metric that a request does not have is kept. */
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

/** From full concurrency (Infinity: from the end of the first request) to the last send; null: there was no such time. */
export function steadyWindow(records: readonly RequestRecord[], concurrency: number): Window | null {
  const sent = records.filter(({ sendUs }) => sendUs >= 0);
  const toUs = greatest(sent, (r) => r.sendUs);
  const fromUs = Number.isFinite(concurrency)
    ? fullAt(sent, concurrency)
    : least(sent.filter(isGoodAnswer), (r) => r.endUs);
  return toUs > fromUs ? { fromUs, toUs } : null;
}

/** The first moment at which so many were under way. */
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

/** -Infinity, or Infinity, where there is none. */
export function greatest(records: readonly RequestRecord[], value: (record: RequestRecord) => number): number {
  let found = Number.NEGATIVE_INFINITY;
  for (const record of records) if (value(record) > found) found = value(record);
  return found;
}

export function least(records: readonly RequestRecord[], value: (record: RequestRecord) => number): number {
  let found = Number.POSITIVE_INFINITY;
  for (const record of records) if (value(record) < found) found = value(record);
  return found;
}

/** Tokens of a request's chunks within a window; spread evenly where the chunks do not say. */
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
