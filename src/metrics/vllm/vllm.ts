/**
 * vLLM 0.33's own families in its order: `v1/metrics/loggers.py`, `PrometheusStatLogger`. Rows that are constant here
 * are also constant in a vLLM without that feature (no KV connector, text model, no `--enable-mfu-metrics`, no queue
 * limit).
 */
import { type EngineSnapshot, Finish, type HistogramName } from "../../engine/interface/types.ts";
import type { Identity } from "../rows/identity.ts";
import {
  counter,
  type EngineNumber,
  gauge,
  histogram,
  type Proof,
  pickedFrom,
  type Row,
  type SeriesReader,
  withCreated,
} from "../rows/table.ts";

/** Reads a number of each engine under vLLM's two labels. */
export const each =
  (number: EngineNumber): SeriesReader<number> =>
  ({ engines }, identity) =>
    engines.map((engine, index) => [engineLabels(identity, index), pickedFrom(engine, number)]);

/** Reads numbers of each engine under vLLM's two labels and a third one, with a series per value of the third. */
export const eachBy =
  (
    label: string,
    picks: Readonly<Record<string, (engine: EngineSnapshot, identity: Identity) => number>>,
  ): SeriesReader<number> =>
  ({ engines }, identity) =>
    Object.entries(picks).flatMap(([value, pick]) =>
      engines.map(
        (engine, index) => [{ ...engineLabels(identity, index), [label]: value }, pick(engine, identity)] as const,
      ),
    );

export const engineLabels = (identity: Identity, index: number) => ({
  engine: `${identity.engineFirst + index}`,
  model_name: identity.modelName,
});

export const zero = () => 0;
const MOVED: Proof = { moves: "test/conformance/metrics-move.test.ts" };
export const gaugeOf = (name: string, help: string, read: SeriesReader<number>, proof: Proof = MOVED) =>
  gauge("step", `vllm:${name}`, help, read, proof);
export const counterOf = (name: string, help: string, read: SeriesReader<number>, proof: Proof = MOVED) =>
  counter("step", `vllm:${name}`, help, read, proof);
export const histogramOf = (name: string, help: string, key: HistogramName) =>
  histogram(
    "step",
    `vllm:${name}`,
    help,
    ({ engines }, identity) => engines.map((engine, index) => [engineLabels(identity, index), engine.histograms[key]]),
    MOVED,
  );

export const NO_CONNECTOR: Proof = { still: "there is no KV connector" };
const NO_MEDIA: Proof = { still: "the model takes text only" };

const estimated = (what: string, name: string) =>
  counterOf(name, `Estimated number of ${what} per GPU (for Model Flops Utilization calculations).`, each(zero), {
    still: "0 without --enable-mfu-metrics, which needs a model's real shapes",
  });

export const vllmRows: readonly Row[] = withCreated([
  estimated("floating point operations", "estimated_flops_per_gpu_total"),
  estimated("bytes read from memory", "estimated_read_bytes_per_gpu_total"),
  estimated("bytes written to memory", "estimated_write_bytes_per_gpu_total"),
  gaugeOf("num_requests_running", "Number of requests in model execution batches.", each("running")),
  gaugeOf(
    "num_requests_waiting",
    "Number of requests waiting to be processed.",
    each((e) => e.waiting + e.deferred),
  ),
  gaugeOf(
    "num_requests_waiting_by_reason",
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
    eachBy("reason", { capacity: (e) => e.waiting, deferred: (e) => e.deferred }),
  ),
  gaugeOf(
    "engine_sleep_state",
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
    // /sleep and /wake_up set it at once (`record_sleep_state`, `v1/metrics/loggers.py`). Level 0 has no state of its
    // own.
    eachBy("sleep_state", {
      awake: (e) => Number(e.sleep === 0),
      weights_offloaded: (e) => Number(e.sleep === 2),
      discard_all: (e) => Number(e.sleep === 3),
    }),
    { moves: "test/conformance/dev-routes.test.ts" },
  ),
  gaugeOf("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", each("kvUsage")),
  counterOf(
    "prefix_cache_queries_total",
    "Prefix cache queries, in terms of number of queried tokens.",
    each("prefixQueries"),
  ),
  counterOf("prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", each("prefixHits")),
  counterOf(
    "external_prefix_cache_queries_total",
    "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",
    each(zero),
    NO_CONNECTOR,
  ),
  counterOf(
    "external_prefix_cache_hits_total",
    "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
    each(zero),
    NO_CONNECTOR,
  ),
  counterOf(
    "mm_cache_queries_total",
    "Multi-modal cache queries, in terms of number of queried items.",
    each(zero),
    NO_MEDIA,
  ),
  counterOf("mm_cache_hits_total", "Multi-modal cache hits, in terms of number of cached items.", each(zero), NO_MEDIA),
  counterOf("num_preemptions_total", "Cumulative number of preemption from the engine.", ({ engines }, identity) =>
    engines.map((e, index) => [
      engineLabels(identity, index),
      identity.fixes.includes("preemptions-at-once") ? e.preemptions : e.preemptionsTold,
    ]),
  ),
  counterOf("prompt_tokens_total", "Number of prefill tokens processed.", each("promptTokens")),
  counterOf(
    "prompt_tokens_by_source_total",
    "Number of prompt tokens by source.",
    eachBy("source", {
      local_compute: (e) => e.promptTokens - e.promptTokensCached,
      local_cache_hit: (e) => e.promptTokensCached,
      external_kv_transfer: zero,
    }),
  ),
  counterOf(
    "prompt_tokens_cached_total",
    "Number of cached prompt tokens (local + external).",
    each("promptTokensCached"),
  ),
  counterOf(
    "prompt_tokens_cached_by_source_total",
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
    eachBy("source", { device: (e) => e.prefixHits, host: zero, p2p: zero, disk: zero, external_unspecified: zero }),
  ),
  counterOf("generation_tokens_total", "Number of generation tokens processed.", each("generationTokens")),
  counterOf(
    "request_success_total",
    "Count of successfully processed requests.",
    eachBy("finished_reason", {
      stop: (e) => e.finished[Finish.Stop],
      length: (e) => e.finished[Finish.Length],
      // vLLM removes the state of a request whose client disconnected before it would count it.
      abort: (e, { fixes }) => (fixes.includes("abort-counted") ? e.finished[Finish.Abort] : e.abortedByEngine),
      error: (e) => e.finished[Finish.Error],
      repetition: (e) => e.finished[Finish.Repetition],
    }),
  ),
  counterOf(
    "admission_rejections_total",
    "Number of admission attempts rejected by a queue limit, by reason.",
    ({ front }, { modelName }) => [
      [{ model_name: modelName, reason: "max_num_queued_reqs" }, front.rejectedByRequests],
      [{ model_name: modelName, reason: "max_num_queued_tokens" }, front.rejectedByTokens],
    ],
    { moves: "test/conformance/metrics-live.test.ts" },
  ),
  histogramOf("request_prompt_tokens", "Number of prefill tokens processed.", "promptTokens"),
  histogramOf("request_generation_tokens", "Number of generation tokens processed.", "generationTokens"),
  histogramOf("iteration_tokens_total", "Histogram of number of tokens per engine_step.", "iterationTokens"),
  histogramOf(
    "request_max_num_generation_tokens",
    "Histogram of maximum number of requested generation tokens.",
    "longestChoice",
  ),
  histogramOf("request_params_n", "Histogram of the n request parameter.", "requestChoices"),
  histogramOf("request_params_max_tokens", "Histogram of the max_tokens request parameter.", "maxTokens"),
  histogramOf("time_to_first_token_seconds", "Histogram of time to first token in seconds.", "timeToFirstToken"),
  histogramOf("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", "interTokenLatency"),
  histogramOf(
    "request_time_per_output_token_seconds",
    "Histogram of time_per_output_token_seconds per request.",
    "timePerOutputToken",
  ),
  histogramOf("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", "e2eLatency"),
  histogramOf("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", "queueTime"),
  histogramOf(
    "request_inference_time_seconds",
    "Histogram of time spent in RUNNING phase for request.",
    "inferenceTime",
  ),
  histogramOf("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", "prefillTime"),
  histogramOf("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", "decodeTime"),
  histogramOf(
    "request_num_preemptions",
    "Histogram of the number of times a request was preempted.",
    "requestPreemptions",
  ),
  histogramOf(
    "request_prefill_kv_computed_tokens",
    "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
    "prefillComputed",
  ),
  gauge(
    "step",
    "vllm:lora_requests_info",
    "Running stats on lora requests.",
    ({ engines }, { adapters, maxLoras, startedS }) => {
      // vLLM 0.33 writes all adapters seen so far into both labels, in the order in which it first saw them.
      const heard = engines.flatMap((engine) => engine.adapters.map(({ heard }, index) => ({ heard, index })));
      const names = heard.filter(({ heard }) => heard > 0).sort((a, b) => a.heard - b.heard);
      const list = [...new Set(names.map(({ index }) => adapters[index] ?? ""))].join(",");
      const takenUs = Math.max(...engines.map(({ takenUs }) => takenUs));
      const labels = { max_lora: `${maxLoras}`, running_lora_adapters: list, waiting_lora_adapters: list };
      return maxLoras > 0 && takenUs > 0 ? [[labels, startedS + takenUs / 1e6]] : [];
    },
    { moves: "test/conformance/metrics-lora.test.ts" },
  ),
  gaugeOf(
    "cache_config_info",
    "Information of the LLMEngine CacheConfig",
    ({ engines }, identity) =>
      engines.map((_, index) => [{ ...identity.cacheConfig, engine: `${identity.engineFirst + index}` }, 1]),
    { still: "says how the server was started" },
  ),
]);
