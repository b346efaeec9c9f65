/**
 * Makes the flat keys of `vllm bench serve` with its definitions: vllm 0.33.0, `benchmarks/serve.py`, calculate_metrics,
 * calculate_metrics_for_embeddings and benchmark.
 */
import { percentile } from "../report/distribution.ts";
import { greatest, isFailed, isGoodAnswer, least, pooled, type Slo } from "./measures.ts";
import { generates } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { Settings } from "./settings.ts";

export type FlatMetric = "ttft" | "tpot" | "itl" | "e2el";
export const FLAT_METRICS: readonly FlatMetric[] = ["ttft", "tpot", "itl", "e2el"];

export interface FlatOptions
  extends Pick<Settings, "dialect" | "metrics" | "percentiles" | "slo" | "concurrency" | "detailed"> {
  /** Requests per second. Infinity if all are sent at once, as in a closed loop. */
  readonly rate: number;
  readonly durationS: number;
}

export interface MetricValues {
  readonly name: string;
  /** Values in seconds. */
  readonly values: Float64Array;
}

/**
 * Returns the keys in vLLM's order, with those of the metrics last. vLLM's pooling backends have fewer of them; two that these
 * lack are added: the number of failed requests, and goodput if limits are set.
 */
export function flatKeys(records: readonly RequestRecord[], options: FlatOptions): Record<string, unknown> {
  const judged = records
    .filter(({ disturbed, failure }) => disturbed === null && failure?.kind !== "unfinished")
    .map(endedAsVllm);
  const good = judged.filter(isGoodAnswer);
  const { durationS, slo } = options;
  const hasTokens = generates(options.dialect);
  const input = sum(good, (r) => r.inputTokens);
  const output = hasTokens ? sum(good, (r) => r.outputTokens) : 0;
  const goodput = slo && good.filter((r) => meetsAsVllm(r, slo)).length / durationS;
  return {
    duration: durationS,
    completed: good.length,
    failed: judged.filter(isFailed).length,
    total_input_tokens: input,
    ...(hasTokens && { total_output_tokens: output }),
    request_throughput: good.length / durationS,
    ...((hasTokens || slo) && { request_goodput: goodput }),
    ...(hasTokens && { output_throughput: output / durationS }),
    total_token_throughput: (input + output) / durationS,
    ...(options.detailed && detailed(judged, hasTokens)),
    // Latencies in seconds, 0 for failed requests.
    latencies: judged.map((r) => (r.failure === null ? (r.lastUs - r.sendUs) / 1e6 : 0)),
    ...(hasTokens && {
      // vLLM treats a closed loop as an infinite rate, so all requests arrive at time 0.
      queue_times: judged.map((r) => (r.sendUs - (Number.isFinite(options.rate) ? r.intendedUs : 0)) / 1e6 || 0),
      ...peaks(good),
      rtfx: 0,
    }),
    ...Object.assign({}, ...flatValues(good, options).map((metric) => statistics(metric, options.percentiles))),
  };
}

/** Sets the end of a response to its last event, as vLLM does, instead of its last output. */
function endedAsVllm(record: RequestRecord): RequestRecord {
  const { finishedUs = Number.NaN } = record;
  return Number.isNaN(finishedUs) || record.failure !== null ? record : { ...record, lastUs: finishedUs };
}

function detailed(records: readonly RequestRecord[], hasTokens: boolean): Record<string, unknown> {
  return {
    input_lens: records.map((r) => r.inputTokens),
    ...(hasTokens && {
      output_lens: records.map((r) => (r.failure === null ? r.outputTokens : 0)),
      ttfts: records.map((r) => (r.firstUs - r.sendUs) / 1e6 || 0),
      itls: records.map((r) => [...gaps(r)]),
    }),
    start_times: records.map((r) => r.sendUs / 1e6 || 0),
    errors: records.map((r) => r.failure?.message ?? ""),
  };
}

/** Returns the values of the metrics, in the order of vLLM's console. */
export function flatValues(good: readonly RequestRecord[], options: FlatOptions): MetricValues[] {
  const { metrics, concurrency, rate } = options;
  const of = (records: readonly RequestRecord[], value: (record: RequestRecord) => number) =>
    Float64Array.from(records, value);
  const all: Readonly<Record<FlatMetric, () => Float64Array>> = {
    ttft: () => of(good, (r) => (r.firstUs - r.sendUs) / 1e6),
    tpot: () =>
      of(
        good.filter((r) => r.outputTokens > 1),
        tpotS,
      ),
    itl: () => pooled(good, gaps),
    e2el: () => of(good, (r) => (r.lastUs - r.sendUs) / 1e6),
  };
  const values = FLAT_METRICS.filter((name) => metrics.includes(name)).map((name) => ({ name, values: all[name]() }));
  if (concurrency === null || !Number.isFinite(rate)) return values;
  return [
    ...values,
    { name: "client_queue_time", values: of(good, (r) => (r.sendUs - r.intendedUs) / 1e6) },
    { name: "e2el_including_client_queue", values: of(good, (r) => (r.lastUs - r.intendedUs) / 1e6) },
  ];
}

const tpotS = (r: RequestRecord): number => (r.lastUs - r.firstUs) / 1e6 / (r.outputTokens - 1);

function* gaps({ chunkUs }: RequestRecord): Generator<number> {
  for (let i = 1; i < chunkUs.length; i++) yield (chunkUs[i]! - chunkUs[i - 1]!) / 1e6;
}

/** Returns mean, median, deviation and percentiles in milliseconds. 0 if there are no values, as vLLM does. */
export function statistics({ name, values }: MetricValues, percentiles: readonly number[]): Record<string, number> {
  const sorted = values.length > 0 ? values.slice().sort() : new Float64Array(1);
  let total = 0;
  for (const value of sorted) total += value;
  const mean = total / sorted.length;
  let squares = 0;
  for (const value of sorted) squares += (value - mean) ** 2;
  const inMs = {
    [`mean_${name}_ms`]: mean,
    [`median_${name}_ms`]: percentile(sorted, 50),
    [`std_${name}_ms`]: Math.sqrt(squares / sorted.length),
    ...Object.fromEntries(percentiles.map((q) => [`p${q}_${name}_ms`, percentile(sorted, q)])),
  };
  return Object.fromEntries(Object.entries(inMs).map(([key, seconds]) => [key, seconds * 1000]));
}

/** Applies vLLM's three goodput limits. A request with one token has a TPOT of 0. */
function meetsAsVllm(r: RequestRecord, { ttft, tpot, e2el }: Slo): boolean {
  if (ttft !== undefined && (r.firstUs - r.sendUs) / 1000 > ttft) return false;
  if (tpot !== undefined && r.outputTokens > 1 && tpotS(r) * 1000 > tpot) return false;
  return e2el === undefined || (r.lastUs - r.sendUs) / 1000 <= e2el;
}

/**
 * Returns the largest number of chunks within a second, and of requests in progress during a second, counted from the first
 * send.
 */
function peaks(good: readonly RequestRecord[]) {
  if (good.length === 0) return { max_output_tokens_per_s: 0, max_concurrent_requests: 0 };
  const fromUs = least(good, (r) => r.sendUs);
  const seconds = Math.ceil((greatest(good, (r) => r.lastUs) - fromUs) / 1e6) + 1;
  const tokens = new Float64Array(seconds);
  const requests = new Float64Array(seconds);
  const second = (us: number): number => Math.floor((us - fromUs) / 1e6);
  for (const { sendUs, lastUs, chunkUs } of good) {
    for (const us of chunkUs) tokens[second(us)]!++;
    for (let at = second(sendUs); at <= second(lastUs); at++) requests[at]!++;
  }
  const most = (values: Float64Array) => values.reduce((a, b) => Math.max(a, b), 0);
  return { max_output_tokens_per_s: most(tokens), max_concurrent_requests: most(requests) };
}

const sum = (records: readonly RequestRecord[], value: (record: RequestRecord) => number): number =>
  records.reduce((total, record) => total + value(record), 0);
