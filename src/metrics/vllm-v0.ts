/**
 * What did vLLM 0.6 and 0.7 show? Their engine was another one (v0, `engine/metrics.py`): no engine label, shorter buckets,
 * and families of things that no longer exist, constant here.
 */
import type { MetricsProfile } from "../config/metrics-profiles.ts";
import type { HistogramName, HistogramSnapshot, Snapshot } from "../engine/types.ts";
import type { Identity } from "./identity.ts";
import {
  counter,
  type EngineNumber,
  gauge,
  histogram,
  type Proof,
  pickedFrom,
  type Row,
  withCreated,
} from "./table.ts";
import { vllmRows } from "./vllm.ts";

const IN_HISTORY: Proof = { moves: "test/unit/metrics-history.test.ts" };
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

/** All families in the page's order. Each has the model's name and no engine: where there are several engines, their sum. */
export function vllmV0(profile: MetricsProfile): readonly Row[] {
  const info = vllmRows.filter((row) => row.name === "vllm:cache_config_info").map(withoutEngine);
  return [
    ...withCreated([
      ...queues(),
      ...caches(),
      ...tokens(),
      ...latencies(),
      ...requests(),
      ...speculation(),
      ...(profile > 6 ? [] : throughput()),
    ]),
    ...info,
  ];
}

const model = ({ modelName }: Identity) => ({ model_name: modelName });

function total(number: EngineNumber): NumberOf {
  return ({ engines }) => engines.reduce((sum, engine) => sum + pickedFrom(engine, number), 0);
}

const none: NumberOf = () => 0;

function one(make: typeof gauge, name: string, help: string, value: NumberOf, proof: Proof = IN_HISTORY): Row {
  return make("step", `vllm:${name}`, help, (snapshot, identity) => [[model(identity), value(snapshot)]], proof);
}

function distribution(name: string, help: string, key: HistogramName): Row {
  return histogram(
    "step",
    `vllm:${name}`,
    help,
    ({ engines }, identity) => [
      [model(identity), cut(engines.map((engine) => engine.histograms[key]).reduce(added), BOUNDS_V0[key])],
    ],
    IN_HISTORY,
  );
}

function queues(): readonly Row[] {
  return [
    one(gauge, "num_requests_running", "Number of requests currently running on GPU.", total("running")),
    one(
      gauge,
      "num_requests_waiting",
      "Number of requests waiting to be processed.",
      total((e) => e.waiting + e.deferred),
    ),
    ...vllmRows.filter((row) => row.name === "vllm:lora_requests_info"),
    one(gauge, "num_requests_swapped", "Number of requests swapped to CPU.", none, swapped),
  ];
}

function caches(): readonly Row[] {
  return [
    one(
      gauge,
      "gpu_cache_usage_perc",
      "GPU KV-cache usage. 1 means 100 percent usage.",
      (snapshot) => total("kvUsage")(snapshot) / snapshot.engines.length,
    ),
    one(gauge, "cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.", none, swapped),
    one(gauge, "cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate.", none, swapped),
    one(gauge, "gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", (snapshot) => {
      const queries = total("prefixQueries")(snapshot);
      return queries === 0 ? 0 : total("prefixHits")(snapshot) / queries;
    }),
  ];
}

function tokens(): readonly Row[] {
  return [
    one(counter, "num_preemptions_total", "Cumulative number of preemption from the engine.", total("preemptions")),
    one(counter, "prompt_tokens_total", "Number of prefill tokens processed.", total("promptTokens")),
    one(counter, "generation_tokens_total", "Number of generation tokens processed.", total("generationTokens")),
    one(
      counter,
      "tokens_total",
      "Number of prefill plus generation tokens processed.",
      total((e) => e.promptTokens + e.generationTokens),
    ),
    distribution("iteration_tokens_total", "Histogram of number of tokens per engine_step.", "iterationTokens"),
  ];
}

function latencies(): readonly Row[] {
  const spent = "Histogram of time spent in";
  return [
    distribution("time_to_first_token_seconds", "Histogram of time to first token in seconds.", "timeToFirstToken"),
    distribution(
      "time_per_output_token_seconds",
      "Histogram of time per output token in seconds.",
      "interTokenLatency",
    ),
    distribution("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", "e2eLatency"),
    distribution("request_queue_time_seconds", `${spent} WAITING phase for request.`, "queueTime"),
    distribution("request_inference_time_seconds", `${spent} RUNNING phase for request.`, "inferenceTime"),
    distribution("request_prefill_time_seconds", `${spent} PREFILL phase for request.`, "prefillTime"),
    distribution("request_decode_time_seconds", `${spent} DECODE phase for request.`, "decodeTime"),
    distribution("time_in_queue_requests", "Histogram of time the request spent in the queue in seconds.", "queueTime"),
    ...(["forward pass", "execute function"] as const).map((what) =>
      histogram(
        "step",
        `vllm:model_${what.split(" ")[0]}_time_milliseconds`,
        `${spent} the model ${what} in ms.`,
        () => [],
        traced,
      ),
    ),
  ];
}

function requests(): readonly Row[] {
  return [
    distribution("request_prompt_tokens", "Number of prefill tokens processed.", "promptTokens"),
    distribution("request_generation_tokens", "Number of generation tokens processed.", "generationTokens"),
    distribution(
      "request_max_num_generation_tokens",
      "Histogram of maximum number of requested generation tokens.",
      "longestChoice",
    ),
    distribution("request_params_n", "Histogram of the n request parameter.", "requestChoices"),
    distribution("request_params_max_tokens", "Histogram of the max_tokens request parameter.", "maxTokens"),
    counter(
      "step",
      "vllm:request_success_total",
      "Count of successfully processed requests.",
      (snapshot, identity) =>
        REASONS_V0.map((reason, index) => [
          { ...model(identity), finished_reason: reason },
          total((e) => e.finished[index as 0 | 1 | 2])(snapshot),
        ]),
      IN_HISTORY,
    ),
  ];
}

function speculation(): readonly Row[] {
  return [
    // The misspelling is the real one's.
    one(gauge, "spec_decode_draft_acceptance_rate", "Speulative token acceptance rate.", none, drafts),
    one(gauge, "spec_decode_efficiency", "Speculative decoding system efficiency.", none, drafts),
    one(counter, "spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", none, drafts),
    one(counter, "spec_decode_num_draft_tokens_total", "Number of draft tokens.", none, drafts),
    one(counter, "spec_decode_num_emitted_tokens_total", "Number of emitted tokens.", none, drafts),
  ];
}

function throughput(): readonly Row[] {
  return [
    one(gauge, "avg_prompt_throughput_toks_per_s", "Average prefill throughput in tokens/s.", none, rate),
    one(gauge, "avg_generation_throughput_toks_per_s", "Average generation throughput in tokens/s.", none, rate),
  ];
}

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

function added(a: HistogramSnapshot, b: HistogramSnapshot): HistogramSnapshot {
  const buckets = a.buckets.map((bucket, index) => bucket + b.buckets[index]!);
  return { bounds: a.bounds, buckets, sum: a.sum + b.sum, count: a.count + b.count };
}

/** With the bounds up to `last` only; what lies above them is above the last. */
function cut({ bounds, buckets, sum, count }: HistogramSnapshot, last = Number.POSITIVE_INFINITY): HistogramSnapshot {
  const kept = bounds.filter((bound) => bound <= last);
  const above = buckets.slice(kept.length).reduce((total, bucket) => total + bucket, 0);
  return { bounds: kept, buckets: [...buckets.slice(0, kept.length), above], sum, count };
}
