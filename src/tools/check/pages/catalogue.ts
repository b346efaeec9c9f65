/**
 * Known bucket bounds and known exceptions among family names. Sources: vllm 0.33.0 `v1/metrics/{loggers,buckets}.py`,
 * trtllm-serve 1.3's collector.
 */
import type { VersionId } from "./versions.ts";

const REQUEST_LATENCY = [
  ...[0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680],
];
const FIRST_TOKEN = [
  ...[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560],
];
const PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const PREFILL = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560];

/** Bucket bounds of the newest versions. Histograms whose bounds depend on max_model_len are left out. */
const knownBounds: Readonly<Record<string, readonly number[]>> = {
  "vllm:time_to_first_token_seconds": FIRST_TOKEN,
  "vllm:inter_token_latency_seconds": PER_TOKEN,
  "vllm:request_time_per_output_token_seconds": PER_TOKEN,
  "vllm:e2e_request_latency_seconds": REQUEST_LATENCY,
  "vllm:request_queue_time_seconds": REQUEST_LATENCY,
  "vllm:request_inference_time_seconds": REQUEST_LATENCY,
  "vllm:request_prefill_time_seconds": REQUEST_LATENCY,
  "vllm:request_decode_time_seconds": REQUEST_LATENCY,
  "vllm:request_params_n": [1, 2, 5, 10, 20],
  "vllm:request_num_preemptions": [1, 2, 3, 4, 5, 10, 20],
  "vllm:iteration_tokens_total": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
  trtllm_e2e_request_latency_seconds: REQUEST_LATENCY,
  trtllm_time_to_first_token_seconds: FIRST_TOKEN,
  trtllm_time_per_output_token_seconds: PER_TOKEN,
  trtllm_request_queue_time_seconds: REQUEST_LATENCY,
  trtllm_request_prefill_time_seconds: PREFILL,
  trtllm_request_decode_time_seconds: REQUEST_LATENCY,
  trtllm_request_inference_time_seconds: REQUEST_LATENCY,
  trtllm_prompt_cached_tokens_per_request: [0, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
  nv_llm_input_token_len: [10, 50, 100, 500, 1000],
  nv_llm_output_token_len: [10, 50, 100, 500, 1000],
};

const upTo = (bounds: readonly number[], last: number): readonly number[] => bounds.filter((bound) => bound <= last);

/**
 * Bounds of older versions. V0 and the first V1 engines had smaller last bounds, and V0's oldest version began latencies at 1
 * s (`engine/metrics.py`).
 */
const FORMER_BOUNDS: Readonly<Record<string, readonly (readonly number[])[]>> = {
  "vllm:time_to_first_token_seconds": [upTo(FIRST_TOKEN, 10)],
  "vllm:time_per_output_token_seconds": [upTo(PER_TOKEN, 2.5), PER_TOKEN],
  "vllm:e2e_request_latency_seconds": [upTo(REQUEST_LATENCY, 60), [1, 2.5, 5, 10, 15, 20, 30, 40, 50, 60]],
  "vllm:request_queue_time_seconds": [upTo(REQUEST_LATENCY, 60)],
  "vllm:request_inference_time_seconds": [upTo(REQUEST_LATENCY, 60)],
  "vllm:request_prefill_time_seconds": [upTo(REQUEST_LATENCY, 60)],
  "vllm:request_decode_time_seconds": [upTo(REQUEST_LATENCY, 60)],
};

/** Family whose bounds in V0 were the batch sizes of its CUDA graphs, so they depend on the configuration. */
const OF_CONFIGURATION_IN_V0 = "vllm:iteration_tokens_total";

/** Returns the bucket bounds that known versions have for a family, newest first. Empty if no version fixes its bounds. */
export function boundsKnown(name: string, version: VersionId | null): readonly (readonly number[])[] {
  if (name === OF_CONFIGURATION_IN_V0 && version === "V0") return [];
  const now = knownBounds[name];
  const former = version === "V0" || version === "V1 to 0.11" ? (FORMER_BOUNDS[name] ?? []) : [];
  return now === undefined ? former : [now, ...former];
}

/** Counters of real servers whose names lack `_total`. Triton and DCGM never write it. */
export const countersWithoutTotal: readonly RegExp[] = [
  /^nv_/,
  /^DCGM_/,
  /^kvbm_/,
  /^dynamo_frontend_request_success_count$/,
  /^dynamo_frontend_detokenize_(total_us|token_count)$/,
  /^dynamo_\w+_kv_cache_event(s_applied|_warnings)$/,
  // prometheus_client writes a counter's creation time as a gauge. Counters such as process_cpu_seconds_total have the suffix.
];

/** Families of real servers that end in `_total` but are not counters. */
export const totalsThatAreNone: readonly string[] = [
  "vllm:iteration_tokens_total",
  "dynamo_frontend_lora_churn_loads_total",
  "dynamo_frontend_lora_churn_unloads_total",
  "dynamo_operator_resources_total",
];

/** Families that change even if nobody sends a request: host, process, clocks, the scrape itself. */
const AMBIENT: readonly RegExp[] = [
  /^(process|python|nodejs|go|promhttp|scrape)_/,
  /^understudy_/,
  /^http_/,
  /^nv_(cpu|gpu|energy|pinned)_/,
  /^nv_cache_(util|num_|lookup|insertion)/,
  /^DCGM_/,
  /^dynamo_(tokio|work_handler|request_plane|transport)_/,
  /^dynamo_frontend_(event_loop|tokio)/,
  /uptime/,
  /^vllm:lora_requests_info$/,
  /_created$/,
  // Summaries are quantiles of a sliding window, so they change without requests.
  /_summary_(us|per_model)$/,
  // TensorRT-LLM's gauges lag by up to 100 ms. Law T12 checks them instead.
  /^nv_trt_llm_/,
  // The router of vLLM's production stack: host values, sliding windows, and values that it last scraped from its engines.
  /^router_\w+_usage_percent$/,
  /^vllm_router:(current_qps|avg_|healthy_pods_total$|gpu_prefix_cache_)/,
];

export const isAmbient = (name: string): boolean => AMBIENT.some((pattern) => pattern.test(name));

/** Gauges of running work. They are 0 if no request is under way. */
const IN_PROGRESS: readonly RegExp[] = [
  /^vllm:(num_requests_(running|waiting|swapped)\w*|kv_cache_usage_perc|(gpu|cpu)_cache_usage_perc)$/,
  /^vllm:avg_\w+_throughput_toks_per_s$/,
  /^vllm_router:num_(requests_(running|waiting|swapped)|(prefill|decoding)_requests)$/,
  /^nv_inference_pending_request_count$/,
  /^trtllm_(num_(requests_(running|waiting)|(context|generation|paused|scheduled)_requests)|kv_cache_(used_blocks|utilization))$/,
  /^dynamo_frontend_(inflight|active|queued|stage)_requests$/,
  /^dynamo_frontend_router_queue_pending_\w+$/,
  /^dynamo_component_inflight_requests$/,
  /^dynamo_(engine_request|request_queue|work_handler_(queue_depth|pool_active_tasks)|request_plane_inflight_requests)$/,
  /^understudy_((requests|streams)_open|held_bytes)$/,
  /^sglang:(num_(running|queue|used|\w+_queue)_(reqs|tokens)|num_(running|queue)_reqs|gen_throughput|token_usage)$/,
];

/** Reports whether a gauge is 0 if no request is under way. `labels` distinguish the series of TensorRT-LLM's families. */
export function isInProgress(name: string, labels: Readonly<Record<string, string>>): boolean {
  if (/^nv_trt_llm_request_(metrics|statistics)$/.test(name)) return labels.request_type !== "max";
  if (/^nv_trt_llm_kv_cache_block_(metrics|statistics)$/.test(name))
    return /^(used|fraction)$/.test(labels.kv_cache_block_type ?? "");
  return IN_PROGRESS.some((pattern) => pattern.test(name));
}

/** Returns the families that have the same bounds as this one in the newest version, including itself. */
export function sharingBounds(name: string): readonly string[] {
  return Object.keys(knownBounds).filter((other) => knownBounds[other] === knownBounds[name]);
}
