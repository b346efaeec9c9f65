/**
 * What did older vLLMs show? From 0.8 on the engine is the one that is simulated, and a version's page is 0.33's without
 * what came later and with what has gone since (`v1/metrics/loggers.py` of each). 0.6 and 0.7 had another engine
 * (`engine/metrics.py`): no engine label, shorter buckets, and families of things that no longer exist, constant here.
 */
import { CURRENT, type Profile } from "../config/metrics-profiles.ts";
import type { HistogramSnapshot, Snapshot } from "../engine/types.ts";
import type { Identity } from "./identity.ts";
import { counter, gauge, histogram, type Proof, type Row, withCreated } from "./table.ts";
import type { Labels } from "./text.ts";
import { counterOf, each, gaugeOf, histogramOf, vllm, zero } from "./vllm.ts";

/** First version of the families that 0.8 had not yet. */
const SINCE: Readonly<Record<string, Profile>> = {
  estimated_flops_per_gpu_total: 18,
  estimated_read_bytes_per_gpu_total: 18,
  estimated_write_bytes_per_gpu_total: 18,
  num_requests_waiting_by_reason: 22,
  engine_sleep_state: 12,
  kv_cache_usage_perc: 9,
  prefix_cache_queries_total: 9,
  prefix_cache_hits_total: 9,
  external_prefix_cache_queries_total: 12,
  external_prefix_cache_hits_total: 12,
  mm_cache_queries_total: 12,
  mm_cache_hits_total: 12,
  prompt_tokens_by_source_total: 16,
  prompt_tokens_cached_total: 16,
  prompt_tokens_cached_by_source_total: 33,
  admission_rejections_total: 33,
  inter_token_latency_seconds: 10,
  request_time_per_output_token_seconds: 11,
  request_num_preemptions: 30,
  request_prefill_kv_computed_tokens: 14,
};
/** First version of the finished reasons that 0.8 had not yet. */
const REASON_SINCE: Readonly<Record<string, Profile>> = { error: 14, repetition: 18 };

const IN_HISTORY: Proof = { moves: "test/unit/metrics-history.test.ts" };
const gone = (why: string): Proof => ({ still: why });

/** A family that has gone: from the first to the last version given, from `hidden` on only with --show-hidden-metrics-for-version. */
interface Gone {
  readonly before: string;
  readonly from: Profile;
  readonly to: Profile;
  readonly hidden?: Profile;
  readonly row: (profile: Profile) => Row;
}

/** "" while a name is the only one, then the hint at the next. */
const deprecated = (profile: Profile, since: Profile, hint: string) => (profile < since ? "" : hint);

const GONE: readonly Gone[] = [
  {
    before: "kv_cache_usage_perc",
    from: 8,
    to: 11,
    hidden: 11,
    row: (profile) =>
      gaugeOf(
        "gpu_cache_usage_perc",
        `GPU KV-cache usage. 1 means 100 percent usage.${deprecated(profile, 9, "DEPRECATED: Use vllm:kv_cache_usage_perc instead.")}`,
        each((e) => e.kvUsage),
        IN_HISTORY,
      ),
  },
  ...(["queries", "hits"] as const).map(
    (what): Gone => ({
      before: "kv_cache_usage_perc",
      from: 8,
      to: 11,
      hidden: 11,
      row: (profile) =>
        counterOf(
          `gpu_prefix_cache_${what}_total`,
          `GPU prefix cache ${what}, in terms of number of ${prefixUnit(profile, what)}`,
          ({ engines }, identity) => {
            const blockTokens = profile < 9 ? Number(identity.cacheConfig.block_size) : 1;
            return engines.map((e, index) => [
              engineLabels(identity, index),
              Math.floor((what === "queries" ? e.prefixQueries : e.prefixHits) / blockTokens),
            ]);
          },
          IN_HISTORY,
        ),
    }),
  ),
  {
    before: "generation_tokens_total",
    from: 16,
    to: 18,
    row: () =>
      counterOf(
        "prompt_tokens_recomputed_total",
        "Number of cached tokens recomputed for forward pass.",
        each(zero),
        gone("the core never recomputes a token that the cache has, but a prompt's last"),
      ),
  },
  {
    before: "inter_token_latency_seconds",
    from: 8,
    to: 14,
    hidden: 12,
    row: (profile) => ({
      ...histogramOf(
        "time_per_output_token_seconds",
        `Histogram of time per output token in seconds.${deprecated(profile, 10, "DEPRECATED: Use vllm:inter_token_latency_seconds instead.")}`,
        "interTokenLatency",
      ),
      proof: IN_HISTORY,
    }),
  },
];

function prefixUnit(profile: Profile, what: "queries" | "hits"): string {
  const did = what === "queries" ? "queried" : "cached";
  if (profile < 9) return `${did} blocks.`;
  const hint = `DEPRECATED: Use vllm:prefix_cache_${what} instead.`;
  // One of them lost the blank before "tokens" in 0.10, both got one before the hint.
  if (profile < 10) return `${did} tokens.${hint}`;
  return what === "queries" ? `queriedtokens. ${hint}` : `cached tokens. ${hint}`;
}

const engineLabels = ({ engineFirst, modelName }: Identity, index: number) => ({
  engine: `${engineFirst + index}`,
  model_name: modelName,
});
const nameOf = (row: Row) => row.name.replace("vllm:", "");

/** vLLM's own families at a version. `hidden`: with those that it has already hidden. */
export function vllmAt(profile: Profile, hidden: boolean): readonly Row[] {
  if (profile === CURRENT) return vllm;
  return profile < 8 ? oldEngine(profile) : newEngine(profile, hidden);
}

function newEngine(profile: Profile, hidden: boolean): readonly Row[] {
  const old = GONE.filter(({ from, to, hidden: from2 }) => {
    if (profile < from || profile > to) return false;
    return from2 === undefined || profile < from2 || hidden;
  });
  return vllm.flatMap((row) => {
    const name = nameOf(row);
    const before = old.filter((one) => one.before === name).map(({ row }) => row(profile));
    return [...withCreated(before), ...((SINCE[name] ?? 0) <= profile ? [withReasons(row, profile)] : [])];
  });
}

/** Without the reasons that came later. */
function withReasons(row: Row, profile: Profile): Row {
  if (nameOf(row) !== "request_success_total") return row;
  const known = ({ labels }: { labels: Labels }) => (REASON_SINCE[labels.finished_reason!] ?? 0) <= profile;
  return {
    ...row,
    samples: (snapshot, identity) => row.samples(snapshot, identity).filter(known),
    created: (snapshot, identity) => row.created!(snapshot, identity).filter(known),
  };
}

type Pick = (snapshot: Snapshot) => number;
const V0_BOUNDS: Readonly<Record<string, number>> = {
  timeToFirstToken: 10,
  interTokenLatency: 2.5,
  e2eLatency: 60,
  queueTime: 60,
  inferenceTime: 60,
  prefillTime: 60,
  decodeTime: 60,
};
type OldHistogram = keyof Snapshot["engines"][number]["histograms"];

/** The families of the first engine, with a model's name and no engine: of several engines the sum. */
function oldEngine(profile: Profile): readonly Row[] {
  const total = (pick: (engine: Snapshot["engines"][number]) => number): Pick => {
    return ({ engines }) => engines.reduce((sum, engine) => sum + pick(engine), 0);
  };
  const model = ({ modelName }: Identity) => ({ model_name: modelName });
  const one = (make: typeof gauge, name: string, help: string, pick: Pick, proof: Proof = IN_HISTORY) =>
    make("step", `vllm:${name}`, help, (snapshot, identity) => [[model(identity), pick(snapshot)]], proof);
  const histogramV0 = (name: string, help: string, key: OldHistogram) =>
    histogram(
      "step",
      `vllm:${name}`,
      help,
      ({ engines }, identity) => [
        [model(identity), cut(engines.map((engine) => engine.histograms[key]).reduce(added), V0_BOUNDS[key])],
      ],
      IN_HISTORY,
    );
  const swapped = gone("nothing is swapped out, and there is no cache in the host's memory");
  const traced = gone("needs detailed traces of a model that runs");
  const drafts = gone("there is no speculation");
  const rate = gone("an average over the log's interval, which only the log has here");
  const none: Pick = () => 0;
  const reasons = ["stop", "length", "abort"] as const;
  const lora = vllm.filter((row) => nameOf(row) === "lora_requests_info");
  const info = vllm.filter((row) => nameOf(row) === "cache_config_info").map(withoutEngine);
  const old = withCreated([
    one(
      gauge,
      "num_requests_running",
      "Number of requests currently running on GPU.",
      total((e) => e.running),
    ),
    one(
      gauge,
      "num_requests_waiting",
      "Number of requests waiting to be processed.",
      total((e) => e.waiting + e.deferred),
    ),
    ...lora,
    one(gauge, "num_requests_swapped", "Number of requests swapped to CPU.", none, swapped),
    one(
      gauge,
      "gpu_cache_usage_perc",
      "GPU KV-cache usage. 1 means 100 percent usage.",
      (snapshot) => total((e) => e.kvUsage)(snapshot) / snapshot.engines.length,
    ),
    one(gauge, "cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.", none, swapped),
    one(gauge, "cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate.", none, swapped),
    one(gauge, "gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", (snapshot) => {
      const queries = total((e) => e.prefixQueries)(snapshot);
      return queries === 0 ? 0 : total((e) => e.prefixHits)(snapshot) / queries;
    }),
    one(
      counter,
      "num_preemptions_total",
      "Cumulative number of preemption from the engine.",
      total((e) => e.preemptions),
    ),
    one(
      counter,
      "prompt_tokens_total",
      "Number of prefill tokens processed.",
      total((e) => e.promptTokens),
    ),
    one(
      counter,
      "generation_tokens_total",
      "Number of generation tokens processed.",
      total((e) => e.generationTokens),
    ),
    one(
      counter,
      "tokens_total",
      "Number of prefill plus generation tokens processed.",
      total((e) => e.promptTokens + e.generationTokens),
    ),
    histogramV0("iteration_tokens_total", "Histogram of number of tokens per engine_step.", "iterationTokens"),
    histogramV0("time_to_first_token_seconds", "Histogram of time to first token in seconds.", "timeToFirstToken"),
    histogramV0("time_per_output_token_seconds", "Histogram of time per output token in seconds.", "interTokenLatency"),
    histogramV0("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", "e2eLatency"),
    histogramV0("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", "queueTime"),
    histogramV0(
      "request_inference_time_seconds",
      "Histogram of time spent in RUNNING phase for request.",
      "inferenceTime",
    ),
    histogramV0("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", "prefillTime"),
    histogramV0("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", "decodeTime"),
    histogramV0("time_in_queue_requests", "Histogram of time the request spent in the queue in seconds.", "queueTime"),
    ...(["forward pass", "execute function"] as const).map((what) =>
      histogram(
        "step",
        `vllm:model_${what.split(" ")[0]}_time_milliseconds`,
        `Histogram of time spent in the model ${what} in ms.`,
        () => [],
        traced,
      ),
    ),
    histogramV0("request_prompt_tokens", "Number of prefill tokens processed.", "promptTokens"),
    histogramV0("request_generation_tokens", "Number of generation tokens processed.", "generationTokens"),
    histogramV0(
      "request_max_num_generation_tokens",
      "Histogram of maximum number of requested generation tokens.",
      "longestChoice",
    ),
    histogramV0("request_params_n", "Histogram of the n request parameter.", "requestChoices"),
    histogramV0("request_params_max_tokens", "Histogram of the max_tokens request parameter.", "maxTokens"),
    counter(
      "step",
      "vllm:request_success_total",
      "Count of successfully processed requests.",
      (snapshot, identity) =>
        reasons.map((reason, index) => [
          { ...model(identity), finished_reason: reason },
          total((e) => e.finished[index as 0 | 1 | 2])(snapshot),
        ]),
      IN_HISTORY,
    ),
    // The misspelling is the real one's.
    one(gauge, "spec_decode_draft_acceptance_rate", "Speulative token acceptance rate.", none, drafts),
    one(gauge, "spec_decode_efficiency", "Speculative decoding system efficiency.", none, drafts),
    one(counter, "spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", none, drafts),
    one(counter, "spec_decode_num_draft_tokens_total", "Number of draft tokens.", none, drafts),
    one(counter, "spec_decode_num_emitted_tokens_total", "Number of emitted tokens.", none, drafts),
    ...(profile > 6
      ? []
      : [
          one(gauge, "avg_prompt_throughput_toks_per_s", "Average prefill throughput in tokens/s.", none, rate),
          one(gauge, "avg_generation_throughput_toks_per_s", "Average generation throughput in tokens/s.", none, rate),
        ]),
  ]);
  return [...old, ...info];
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
