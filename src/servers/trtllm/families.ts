/**
 * Lists the metric families of `/prometheus/metrics` in one table, from TensorRT-LLM's `metrics/collector.py` (version 1.3).
 * They are printed as in the multiprocess mode of Python's Prometheus client, so a family without a value is absent.
 * docs/servers/trtllm-serve.md lists the families that never get a value here, with the reason.
 */

import type { HistogramView } from "../../engine/interface/types.ts";
import type { Iteration } from "../../engine/iterations.ts";
import { type Labels, printFamily, python, type Sample } from "../../metrics/rows/text.ts";
import type { ServeCounts } from "./counts.ts";
import { hitRate, type ServerFacts } from "./reports.ts";

export interface PageFacts extends ServerFacts {
  /** Process id of the server, for the label `pid` of gauges. */
  readonly pid: string;
}

type Samples = (counts: ServeCounts, facts: PageFacts) => readonly Sample[];

interface Row {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: Samples;
}

/** The real server passes neither model nor engine to its collector, so both labels are always "undefined". */
const LABELS = { engine_type: "undefined", model_name: "undefined" };

const sample = (value: number, more: Labels = {}): readonly Sample[] => [{ labels: { ...LABELS, ...more }, value }];
const pid = ({ pid: process }: PageFacts): Labels => ({ pid: process });

const rowsOf =
  (type: Row["type"]) =>
  (name: string, help: string, samples: Samples): Row => ({ name: `trtllm_${name}`, type, help, samples });
const counter = rowsOf("counter");
const gauge = rowsOf("gauge");
/** Makes the row of a counter that changes when a request ends. */
const total = (name: string, help: string, read: (counts: ServeCounts) => number, isThere = hasEnded): Row =>
  counter(name, help, (counts) => (isThere(counts) ? sample(read(counts)) : []));
/** Makes the row of a gauge that shows the last counted iteration. */
const ofLast = (name: string, help: string, read: (last: Iteration, facts: PageFacts) => number): Row =>
  gauge(name, help, ({ last }, facts) => (last === null ? [] : sample(read(last, facts), pid(facts))));
/** Makes the row of a counter that sums over the counted iterations. */
const reported = (name: string, help: string, read: (sums: ServeCounts["reported"], facts: PageFacts) => number): Row =>
  counter(name, help, ({ last, reported: sums }, facts) => (last === null ? [] : sample(read(sums, facts))));
const info = (name: string, help: string, labels: (facts: PageFacts) => Labels): Row =>
  gauge(name, help, (_, facts) => sample(1, { ...pid(facts), ...labels(facts) }));

const hasEnded = ({ finished }: ServeCounts) => finished.size > 0;

const histogram = (name: string, help: string, read: (counts: ServeCounts) => HistogramView): Row =>
  rowsOf("histogram")(name, help, (counts) => bucketsOf(`trtllm_${name}`, read(counts)));

/** Returns the samples of a histogram in the order of the multiprocess mode: sum, buckets, count. */
function bucketsOf(name: string, { bounds, buckets, sum, count }: HistogramView): readonly Sample[] {
  if (count === 0) return [];
  let below = 0;
  const cumulative = Array.from(buckets, (some, i) => {
    below += some;
    return {
      metricName: `${name}_bucket`,
      labels: { ...LABELS, le: bounds[i] ?? Number.POSITIVE_INFINITY },
      value: below,
    };
  });
  return [
    { metricName: `${name}_sum`, labels: LABELS, value: sum },
    ...cumulative,
    { metricName: `${name}_count`, labels: LABELS, value: count },
  ];
}

const LIFE = "Resets only when the serving process restarts, not when the KV cache is flushed or evicted.";
const blocksOf = ({ config }: PageFacts) => config.engine.numGpuBlocks - 1;

const requests: readonly Row[] = [
  counter("request_success_total", "Count of successfully processed requests.", ({ finished }) =>
    [...finished].flatMap(([reason, count]) => sample(count, { finished_reason: reason })),
  ),
  histogram("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", (c) => c.e2eS),
  histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", (c) => c.firstTokenS),
  histogram("time_per_output_token_seconds", "Histogram of time per output token in seconds.", (c) => c.perTokenS),
  histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", (c) => c.queueS),
  histogram(
    "request_prefill_time_seconds",
    "Histogram of prefill (context) phase duration in seconds (first_token_time - first_scheduled_time).",
    (c) => c.prefillS,
  ),
  histogram(
    "request_decode_time_seconds",
    "Histogram of decode (generation) phase duration in seconds (last_token_time - first_token_time).",
    (c) => c.decodeS,
  ),
  histogram(
    "request_inference_time_seconds",
    "Histogram of total inference duration in seconds (last_token_time - first_scheduled_time).",
    (c) => c.inferenceS,
  ),
  total("prompt_tokens_total", "Cumulative number of prompt (input) tokens processed.", (c) => c.promptTokens),
  total(
    "generation_tokens_total",
    "Cumulative number of generation (output) tokens produced.",
    (c) => c.generationTokens,
  ),
  total(
    "prompt_cached_tokens_total",
    `Process-lifetime total prompt tokens served from KV cache. ${LIFE}`,
    (c) => c.cachedTokens,
    () => true,
  ),
  histogram("prompt_cached_tokens_per_request", "Histogram of cached prompt tokens per request.", (c) => c.cached),
  counter("request_error_total", "Total request errors, labeled by HTTP status code.", ({ errors }) =>
    [...errors].flatMap(([status, count]) => sample(count, { http_code: `${status}` })),
  ),
];

const cache: readonly Row[] = [
  ofLast("kv_cache_hit_rate", "KV cache hit rate", ({ kv }) => hitRate(kv.reused, kv.missed)),
  ofLast("kv_cache_utilization", "KV cache utilization", ({ blocksUsed }, facts) => blocksUsed / blocksOf(facts)),
  total(
    "kv_cache_reused_blocks_total",
    "Cumulative number of KV cache blocks reused (cache hits)",
    ({ last }) => last!.kv.reused,
    ({ last }) => last !== null,
  ),
  total(
    "kv_cache_missed_blocks_total",
    "Cumulative number of KV cache blocks missed (cache misses)",
    ({ last }) => last!.kv.missed,
    ({ last }) => last !== null,
  ),
  gauge("kv_cache_iter_reuse_rate", "Per-iteration KV cache block reuse rate", ({ reuseRate }, facts) =>
    reuseRate === null ? [] : sample(reuseRate, pid(facts)),
  ),
  reported("kv_cache_iter_reused_blocks_total", "Total reused KV cache blocks (full + partial)", (s) => s.reused),
  reported("kv_cache_iter_full_reused_blocks_total", "Total fully reused KV cache blocks", (s) => s.reusedFully),
  reported(
    "kv_cache_iter_partial_reused_blocks_total",
    "Total partially reused KV cache blocks",
    (s) => s.reusedPartly,
  ),
  reported("kv_cache_iter_missed_blocks_total", "Total missed KV cache blocks (context phase)", (s) => s.missed),
  reported("kv_cache_gen_alloc_blocks_total", "Total blocks allocated during generation phase", (s) => s.generated),
  reported("kv_cache_onboard_bytes_total", "Total bytes transferred from host to GPU (onboard)", () => 0),
  reported("kv_cache_offload_bytes_total", "Total bytes transferred from GPU to host (offload)", () => 0),
  reported(
    "kv_cache_intra_device_copy_bytes_total",
    "Total bytes copied within GPU (intra-device block copies)",
    (sums, { blockBytes }) => sums.copied * blockBytes,
  ),
];

const iterations: readonly Row[] = [
  ofLast("num_requests_running", "Number of active requests", ({ active }) => active),
  ofLast("num_requests_waiting", "Number of queued requests", ({ queued }) => queued),
  reported("num_requests_completed_total", "Total number of completed requests across iterations", (s) => s.completed),
  ofLast("max_num_active_requests", "Maximum number of active requests", (_, f) => f.config.engine.maxNumActiveSeqs),
  ofLast("iteration_latency_seconds", "Iteration latency in seconds", (last) => (last.endUs - last.plannedUs) / 1e6),
  ofLast("gpu_memory_usage_bytes", "GPU memory usage in bytes", (_, { gpuBytes }) => gpuBytes),
  ofLast("cpu_memory_usage_bytes", "CPU memory usage in bytes", () => 0),
  ofLast("pinned_memory_usage_bytes", "Pinned memory usage in bytes", () => 0),
  ofLast("max_batch_size_static", "Static maximum batch size", (_, { config }) => config.engine.maxNumSeqs),
  ofLast("max_batch_size_runtime", "Runtime maximum batch size", () => 0),
  ofLast("max_num_tokens_runtime", "Runtime maximum number of tokens", () => 0),
  ofLast("kv_cache_max_blocks", "Maximum number of KV cache blocks", (_, facts) => blocksOf(facts)),
  ofLast("kv_cache_free_blocks", "Number of free KV cache blocks", (last, facts) => blocksOf(facts) - last.blocksUsed),
  ofLast("kv_cache_used_blocks", "Number of used KV cache blocks", ({ blocksUsed }) => blocksUsed),
  ofLast("kv_cache_tokens_per_block", "Number of tokens per KV cache block", (_, f) => f.config.engine.blockSize),
  ofLast("num_context_requests", "Number of context (prefill) requests", ({ contexts }) => contexts),
  ofLast("num_generation_requests", "Number of generation (decode) requests", ({ generations }) => generations),
  ofLast("num_paused_requests", "Number of paused requests", ({ paused }) => paused),
  ofLast("num_scheduled_requests", "Number of scheduled requests", (last) => last.contexts + last.generations),
  ofLast("total_context_tokens", "Total number of context tokens", ({ contextTokens }) => contextTokens),
  ofLast("avg_decoded_tokens_per_iter", "Average number of decoded tokens per iteration", () => 0),
  ofLast(
    "prefill_batch_occupancy",
    "Fraction of max active slots occupied by context requests.",
    ({ contexts }, { config }) => contexts / config.engine.maxNumActiveSeqs,
  ),
  histogram("prefill_batch_tokens", "Histogram of total context tokens per iteration.", (c) => c.batchTokens),
];

const always: readonly Row[] = [
  gauge(
    "scheduled_batch_size",
    "Number of real context and generation requests in the latest scheduled batch on this executor rank; zero when no batch is submitted. Under pipeline parallelism, other microbatches may still be running.",
    ({ batchSize }, facts) => sample(batchSize, { ...pid(facts), rank: "0" }),
  ),
  info("model_config_info", "Model configuration info", ({ config }) => ({
    model: config.models.model,
    dtype: "auto",
    quantization: "none",
  })),
  info("parallel_config_info", "Parallelism configuration info", () => ({ tp_size: "1", pp_size: "1" })),
  info("kv_cache_config_info", "KV cache configuration info", ({ config: { engine } }) => ({
    page_size: `${engine.blockSize}`,
    enable_block_reuse: engine.enablePrefixCaching ? "True" : "False",
  })),
];

export const trtllmFamilies: readonly Row[] = [...requests, ...cache, ...iterations, ...always];

export function prometheusPage(counts: ServeCounts, facts: PageFacts): string {
  return trtllmFamilies
    .map(({ name, type, help, samples }) => ({ name, type, help, values: samples(counts, facts) }))
    .filter(({ values }) => values.length > 0)
    .map((family) => printFamily(family, python))
    .join("");
}
