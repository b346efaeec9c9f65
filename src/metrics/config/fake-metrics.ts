/**
 * Parses `--fake-metrics`, a JSON object with the keys of llm-d-inference-sim (`pkg/common/config_fake_metrics.go` at
 * eec055a). The named families of vLLM show these values instead of the true ones.
 */

import { goDurationUs } from "../../base/go-duration.ts";
import { jsonObjectIn, parsedJson } from "../../base/json-object.ts";
import { resultOrError } from "../../base/result-or-error.ts";

/** A number, or a waveform over time. */
type Wave = number | Waveform;
interface Waveform {
  readonly shape: Shape;
  readonly start: number;
  readonly end: number;
  readonly periodS: number;
}
const SHAPES = ["oscillate", "ramp", "rampreset", "squarewave"] as const;
type Shape = (typeof SHAPES)[number];

interface FakeLoras {
  /** Names separated by commas. */
  readonly running: string;
  readonly waiting: string;
  /** Seconds since 1970. */
  readonly timestamp: number;
}

/** Plain data, because it is posted to the metrics thread. */
export interface FakeMetrics {
  /** Values of gauges, by family. */
  readonly gauges: Readonly<Record<string, Wave>>;
  readonly counters: Readonly<Record<string, number>>;
  /** Number of observations in each bucket, by family. */
  readonly buckets: Readonly<Record<string, readonly number[]>>;
  /** List of observed values, by family. */
  readonly observed: Readonly<Record<string, readonly number[]>>;
  /** Values of `vllm:request_success_total`, by reason. */
  readonly success: Readonly<Record<string, number>> | null;
  readonly loras: readonly FakeLoras[] | null;
  /** Seconds between updates of a waveform. */
  readonly refreshS: number;
}

const GAUGES: Readonly<Record<string, readonly string[]>> = {
  "running-requests": ["vllm:num_requests_running"],
  "waiting-requests": ["vllm:num_requests_waiting"],
  "kv-cache-usage": ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
};
const BUCKETS: Readonly<Record<string, readonly string[]>> = {
  "ttft-buckets-values": ["vllm:time_to_first_token_seconds"],
  "tpot-buckets-values": [
    ...["vllm:time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds"],
    "vllm:inter_token_latency_seconds",
  ],
  "e2erl-buckets-values": ["vllm:e2e_request_latency_seconds"],
  "queue-time-buckets-values": ["vllm:request_queue_time_seconds"],
  "inf-time-buckets-values": ["vllm:request_inference_time_seconds"],
  "prefill-time-buckets-values": ["vllm:request_prefill_time_seconds"],
  "decode-time-buckets-values": ["vllm:request_decode_time_seconds"],
};
const OBSERVED: Readonly<Record<string, readonly string[]>> = {
  "request-prompt-tokens": ["vllm:request_prompt_tokens"],
  "request-generation-tokens": ["vllm:request_generation_tokens"],
  "request-params-max-tokens": ["vllm:request_params_max_tokens"],
  "request-max-generation-tokens": ["vllm:request_max_num_generation_tokens"],
};
const PROMPT_TOKENS = "vllm:prompt_tokens_total";
const GENERATION_TOKENS = "vllm:generation_tokens_total";
const COUNTERS: Readonly<Record<string, string>> = {
  "total-prompt-tokens": PROMPT_TOKENS,
  "total-generation-tokens": GENERATION_TOKENS,
  "prefix-cache-hits": "vllm:prefix_cache_hits_total",
  "prefix-cache-queries": "vllm:prefix_cache_queries_total",
};
const REASONS = ["stop", "length", "abort", "error", "repetition"];
const REFRESH = "refresh-interval";
const KEYS = [
  ...Object.keys({ ...GAUGES, ...BUCKETS, ...OBSERVED, ...COUNTERS }),
  ...["request-success-total", "loras", REFRESH],
];

const REFRESH_S = 0.1;
/** Largest number of numbers in all lists together. */
const NUMBERS_MOST = 100_000;

/** Parses the option. An error starts with the key it is about, if there is one. */
export function parseFakeMetrics(text: string): FakeMetrics | { readonly error: string } {
  const parsed = jsonObjectIn(text);
  if (parsed === null) return { error: 'takes a JSON object, as in {"running-requests": 16}' };
  const metrics = resultOrError(FakeMetricsError, () => read(parsed));
  return metrics instanceof FakeMetricsError ? { error: metrics.message } : metrics;
}

class FakeMetricsError extends Error {}

function read(parsed: Readonly<Record<string, unknown>>): FakeMetrics {
  const gauges: Record<string, Wave> = {};
  const counters: Record<string, number> = {};
  const buckets: Record<string, readonly number[]> = {};
  const observed: Record<string, readonly number[]> = {};
  let success: Record<string, number> | null = null;
  let loras: readonly FakeLoras[] | null = null;
  let refreshS = REFRESH_S;
  let numbers = 0;
  const each = (names: readonly string[], set: (name: string) => void) => {
    for (const name of names) set(name);
  };
  for (const [key, value] of Object.entries(parsed)) {
    if (value === null) continue;
    if (key in GAUGES) {
      const wave = waveOf(key, value, key === "kv-cache-usage" ? 1 : Number.POSITIVE_INFINITY);
      each(GAUGES[key]!, (name) => (gauges[name] = wave));
    } else if (key in BUCKETS || key in OBSERVED) {
      const list = countsOf(key, value);
      numbers += list.length;
      each(BUCKETS[key] ?? [], (name) => (buckets[name] = list));
      each(OBSERVED[key] ?? [], (name) => (observed[name] = list));
    } else if (key in COUNTERS) counters[COUNTERS[key]!] = countOf(key, value);
    else if (key === "request-success-total") success = reasonsOf(key, value);
    else if (key === "loras") loras = lorasOf(key, value);
    else if (key === REFRESH) refreshS = durationS(key, value);
    else throw new FakeMetricsError(`${key}: unknown key, must be one of ${KEYS.join(", ")}`);
  }
  if (numbers > NUMBERS_MOST)
    throw new FakeMetricsError(`${numbers} numbers in all lists; at most ${NUMBERS_MOST} are allowed`);
  const [hits, queries] = ["vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"].map(
    (name) => counters[name],
  );
  if ((hits === undefined) !== (queries === undefined))
    throw new FakeMetricsError("prefix-cache-hits and prefix-cache-queries must be given together");
  if (hits! > queries!)
    throw new FakeMetricsError(`prefix-cache-hits: at most prefix-cache-queries (${queries}), not ${hits}`);
  const sums = {
    [PROMPT_TOKENS]: observed["vllm:request_prompt_tokens"],
    [GENERATION_TOKENS]: observed["vllm:request_generation_tokens"],
  };
  for (const [name, list] of Object.entries(sums))
    if (list !== undefined) counters[name] ??= list.reduce((sum, value) => sum + value, 0);
  return { gauges, counters, buckets, observed, success, loras, refreshS };
}

function waveOf(key: string, value: unknown, most: number): Wave {
  const takes = `a number from 0${most === 1 ? " to 1" : ""}, or SHAPE:START:END:PERIOD with ${SHAPES.join(", ")}, as in "ramp:0:10:5s"`;
  const fits = (level: number) => level >= 0 && level <= most && level < Number.POSITIVE_INFINITY;
  const wrong = new FakeMetricsError(`${key}: takes ${takes}, not ${JSON.stringify(value)}`);
  const fixed = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof fixed === "number" && !Number.isNaN(fixed)) {
    if (!fits(fixed)) throw wrong;
    return fixed;
  }
  const parts = typeof value === "string" ? value.split(":") : [];
  const [name, start, end, period] = parts;
  const shape = SHAPES.find((known) => known === name);
  if (parts.length !== 4 || shape === undefined || !isNumber(start!) || !isNumber(end!)) throw wrong;
  const wave = { shape, start: Number(start), end: Number(end), periodS: durationS(key, period) };
  if (!fits(wave.start) || !fits(wave.end)) throw wrong;
  return wave;
}

const isNumber = (text: string) => text.trim() !== "" && !Number.isNaN(Number(text));

function durationS(key: string, value: unknown): number {
  const us = typeof value === "string" ? goDurationUs(value) : undefined;
  if (us === undefined || us === 0)
    throw new FakeMetricsError(`${key}: takes a duration above 0, as in 5s or 100ms, not ${JSON.stringify(value)}`);
  return us / 1e6;
}

function countOf(key: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0)
    throw new FakeMetricsError(`${key}: takes whole numbers from 0, not ${JSON.stringify(value)}`);
  return value as number;
}

function countsOf(key: string, value: unknown): number[] {
  if (!Array.isArray(value))
    throw new FakeMetricsError(`${key}: takes a list of whole numbers from 0, not ${JSON.stringify(value)}`);
  return value.map((count) => countOf(key, count));
}

function reasonsOf(key: string, value: unknown): Record<string, number> {
  if (typeof value !== "object" || Array.isArray(value))
    throw new FakeMetricsError(`${key}: takes numbers by reason, as in {"stop": 20}, not ${JSON.stringify(value)}`);
  return Object.fromEntries(
    Object.entries(value as object).map(([reason, count]) => {
      if (!REASONS.includes(reason))
        throw new FakeMetricsError(`${key}: unknown reason "${reason}", must be one of ${REASONS.join(", ")}`);
      return [reason, countOf(`${key}.${reason}`, count)];
    }),
  );
}

/** Reads a list whose entries are objects, or texts with the JSON of an object. */
function lorasOf(key: string, value: unknown): FakeLoras[] {
  const takes = `${key}: takes a list of {"running": "a,b", "waiting": "", "timestamp": 1700000000}`;
  if (!Array.isArray(value)) throw new FakeMetricsError(takes);
  const series = value.map((entry): [string, FakeLoras] => {
    const { running = "", waiting = "", timestamp = 0 } = objectOf(entry, takes);
    if (typeof running !== "string" || typeof waiting !== "string" || typeof timestamp !== "number")
      throw new FakeMetricsError(`${takes}, not ${JSON.stringify(entry)}`);
    return [JSON.stringify([running, waiting]), { running, waiting, timestamp }];
  });
  // If two entries have the same labels, the last one counts, because a page has each series once.
  return [...new Map(series).values()];
}

function objectOf(value: unknown, takes: string): Readonly<Record<string, unknown>> {
  const object = typeof value === "string" ? parsedJson(value) : value;
  if (typeof object === "object" && object !== null) return object as Readonly<Record<string, unknown>>;
  throw new FakeMetricsError(`${takes}, not ${JSON.stringify(value)}`);
}

/** Returns the value of a waveform `seconds` after its start. */
export function waveAt(wave: Wave, seconds: number): number {
  if (typeof wave === "number") return wave;
  const { shape, start, end, periodS } = wave;
  const turns = seconds / periodS;
  const within = turns - Math.floor(turns);
  switch (shape) {
    case "oscillate":
      return start + ((end - start) * (1 - Math.cos(2 * Math.PI * turns))) / 2;
    case "ramp":
      return start + (end - start) * Math.min(1, turns);
    case "rampreset":
      return start + (end - start) * within;
    case "squarewave":
      return within < 0.5 ? start : end;
  }
}
