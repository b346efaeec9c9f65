/**
 * Metrics of vLLM 0.6 and 0.7. Their engine (v0, `engine/metrics.py`) has no engine label, shorter buckets, and
 * families of features that no longer exist, which are constant here.
 */

import type { HistogramName, HistogramSnapshot, Snapshot } from "../../engine/interface/types.ts";
import type { VersionProfile } from "../config/metrics-profiles.ts";
import type { Identity } from "../rows/identity.ts";
import {
  counter,
  type EngineNumber,
  gauge,
  histogram,
  type Proof,
  pickedFrom,
  type Row,
  withCreated,
} from "../rows/table.ts";
import { vllmRows } from "./vllm.ts";

const IN_HISTORY: Proof = { moves: "test/metrics/vllm/vllm-history.test.ts" };
const swapped: Proof = { still: "nothing is swapped out, and there is no cache in the host's memory" };
const traced: Proof = { still: "needs detailed traces of a model that runs" };
const drafts: Proof = { still: "there is no speculation" };
const rate: Proof = { still: "an average over the log's interval, which only the log has here" };

type NumberOf = (snapshot: Snapshot) => number;

const REASONS_V0 = ["stop", "length", "abort"] as const;
const BOUNDS_V0: Readonly<Record<string, number>> = {
  timeToFirstToken: 10,
  interTokenLatency: 2.5,
  e2eLatency: 60,
  queueTime: 60,
  inferenceTime: 60,
  prefillTime: 60,
  decodeTime: 60,
};

/** Returns all families in the page's order. Each has the model's name and no engine label, and shows the sum of all engines. */
export function vllmV0(profile: VersionProfile): readonly Row[] {
  const info = vllmRows.filter((row) => row.name === "vllm:cache_config_info").map(withoutEngine);
  return [...withCreated(profile > 6 ? ROWS : [...ROWS, ...THROUGHPUT]), ...info];
}

const model = ({ modelName }: Identity) => ({ model_name: modelName });

function total(number: EngineNumber): NumberOf {
  return ({ engines }) => engines.reduce((sum, engine) => sum + pickedFrom(engine, number), 0);
}

const none: NumberOf = () => 0;

/** Returns the help text of 0.33, which many families already had. */
const helpNow = (name: string) => vllmRows.find((row) => row.name === `vllm:${name}`)!.help;

function metric(
  make: typeof gauge,
  name: string,
  value: NumberOf,
  help = helpNow(name),
  proof: Proof = IN_HISTORY,
): Row {
  return make("step", `vllm:${name}`, help, (snapshot, identity) => [[model(identity), value(snapshot)]], proof);
}

function distribution(name: string, key: HistogramName, help = helpNow(name)): Row {
  return histogram(
    "step",
    `vllm:${name}`,
    help,
    ({ engines }, identity) => [
      [
        model(identity),
        cutBounds(engines.map((engine) => engine.histograms[key]).reduce(addHistograms), BOUNDS_V0[key]),
      ],
    ],
    IN_HISTORY,
  );
}

/** A histogram without observations. */
const untimed = (name: string, what: string) =>
  histogram("step", `vllm:${name}`, `Histogram of time spent in the model ${what} in ms.`, () => [], traced);

const ROWS: readonly Row[] = [
  metric(gauge, "num_requests_running", total("running"), "Number of requests currently running on GPU."),
  metric(
    gauge,
    "num_requests_waiting",
    total((e) => e.waiting + e.deferred),
  ),
  ...vllmRows.filter((row) => row.name === "vllm:lora_requests_info"),
  metric(gauge, "num_requests_swapped", none, "Number of requests swapped to CPU.", swapped),
  metric(
    gauge,
    "gpu_cache_usage_perc",
    (snapshot) => total("kvUsage")(snapshot) / snapshot.engines.length,
    "GPU KV-cache usage. 1 means 100 percent usage.",
  ),
  metric(gauge, "cpu_cache_usage_perc", none, "CPU KV-cache usage. 1 means 100 percent usage.", swapped),
  metric(gauge, "cpu_prefix_cache_hit_rate", none, "CPU prefix cache block hit rate.", swapped),
  metric(
    gauge,
    "gpu_prefix_cache_hit_rate",
    (snapshot) => {
      const queries = total("prefixQueries")(snapshot);
      return queries === 0 ? 0 : total("prefixHits")(snapshot) / queries;
    },
    "GPU prefix cache block hit rate.",
  ),
  metric(counter, "num_preemptions_total", total("preemptions")),
  metric(counter, "prompt_tokens_total", total("promptTokens")),
  metric(counter, "generation_tokens_total", total("generationTokens")),
  metric(
    counter,
    "tokens_total",
    total((e) => e.promptTokens + e.generationTokens),
    "Number of prefill plus generation tokens processed.",
  ),
  distribution("iteration_tokens_total", "iterationTokens"),
  distribution("time_to_first_token_seconds", "timeToFirstToken"),
  distribution("time_per_output_token_seconds", "interTokenLatency", "Histogram of time per output token in seconds."),
  distribution("e2e_request_latency_seconds", "e2eLatency", "Histogram of end to end request latency in seconds."),
  distribution("request_queue_time_seconds", "queueTime"),
  distribution("request_inference_time_seconds", "inferenceTime"),
  distribution("request_prefill_time_seconds", "prefillTime"),
  distribution("request_decode_time_seconds", "decodeTime"),
  distribution("time_in_queue_requests", "queueTime", "Histogram of time the request spent in the queue in seconds."),
  untimed("model_forward_time_milliseconds", "forward pass"),
  untimed("model_execute_time_milliseconds", "execute function"),
  distribution("request_prompt_tokens", "promptTokens"),
  distribution("request_generation_tokens", "generationTokens"),
  distribution("request_max_num_generation_tokens", "longestChoice"),
  distribution("request_params_n", "requestChoices"),
  distribution("request_params_max_tokens", "maxTokens"),
  counter(
    "step",
    "vllm:request_success_total",
    helpNow("request_success_total"),
    (snapshot, identity) =>
      REASONS_V0.map((reason, index) => [
        { ...model(identity), finished_reason: reason },
        total((e) => e.finished[index as 0 | 1 | 2])(snapshot),
      ]),
    IN_HISTORY,
  ),
  // The misspelling is the real server's.
  metric(gauge, "spec_decode_draft_acceptance_rate", none, "Speulative token acceptance rate.", drafts),
  metric(gauge, "spec_decode_efficiency", none, "Speculative decoding system efficiency.", drafts),
  metric(counter, "spec_decode_num_accepted_tokens_total", none, "Number of accepted tokens.", drafts),
  metric(counter, "spec_decode_num_draft_tokens_total", none, "Number of draft tokens.", drafts),
  metric(counter, "spec_decode_num_emitted_tokens_total", none, "Number of emitted tokens.", drafts),
];

const THROUGHPUT: readonly Row[] = [
  metric(gauge, "avg_prompt_throughput_toks_per_s", none, "Average prefill throughput in tokens/s.", rate),
  metric(gauge, "avg_generation_throughput_toks_per_s", none, "Average generation throughput in tokens/s.", rate),
];

function withoutEngine(row: Row): Row {
  return {
    ...row,
    samples: (snapshot, identity) =>
      row
        .samples(snapshot, identity)
        .slice(0, 1)
        .map(({ labels: { engine: _, ...labels }, value }) => ({ labels, value })),
  };
}

function addHistograms(a: HistogramSnapshot, b: HistogramSnapshot): HistogramSnapshot {
  const buckets = a.buckets.map((bucket, index) => bucket + b.buckets[index]!);
  return { bounds: a.bounds, buckets, sum: a.sum + b.sum, count: a.count + b.count };
}

/** Keeps the bounds up to `last` and moves everything above into the last bucket. */
function cutBounds(
  { bounds, buckets, sum, count }: HistogramSnapshot,
  last = Number.POSITIVE_INFINITY,
): HistogramSnapshot {
  const lowBounds = bounds.filter((bound) => bound <= last);
  const above = buckets.slice(lowBounds.length).reduce((total, bucket) => total + bucket, 0);
  return { bounds: lowBounds, buckets: [...buckets.slice(0, lowBounds.length), above], sum, count };
}
