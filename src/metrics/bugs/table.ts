/** The table of bug modes. `understudy serve --bug NAME` switches one on, and test/bugmodes/ shows that it is detected. */

import type { EngineSnapshot, Snapshot } from "../../engine/interface/types.ts";
import type { BugName } from "../config/bug-names.ts";
import { RUST } from "../config/metrics-profiles.ts";
import type { MetricsSource } from "../config/metrics-source.ts";
import { FAILURE_REASONS, ModelWord } from "../ensemble/model-numbers.ts";
import type { Identity } from "../rows/identity.ts";
import type { Row } from "../rows/table.ts";
import type { Sample } from "../rows/text.ts";
import { sumOf } from "../triton/table.ts";
import type { Bug } from "./bug.ts";

type Value = (sample: Sample, snapshot: Snapshot, identity: Identity) => number;

/** Returns a function that replaces the values of a row's samples. */
const valued =
  (value: Value) =>
  (row: Row): Row => ({
    ...row,
    samples: (snapshot, identity) =>
      row.samples(snapshot, identity).map((sample) => ({ ...sample, value: value(sample, snapshot, identity) })),
  });

/** Returns the number of the sample's engine. */
const ofEngine = (
  { labels }: Sample,
  { engines }: Snapshot,
  { engineFirst }: Identity,
  pick: (engine: EngineSnapshot) => number,
): number => pick(engines[Number(labels.engine) - engineFirst]!);

const underway = ({ engines }: Snapshot) =>
  engines.reduce((sum, { running, waiting, deferred }) => sum + running + waiting + deferred, 0);

function failures({ labels }: Sample, snapshot: Snapshot, identity: Identity): number {
  const { models, counters } = identity.triton;
  const model = models.findIndex(({ name }) => name === labels.model);
  if (!counters) return 0;
  return FAILURE_REASONS.reduce((sum, _, i) => sum + sumOf(snapshot, identity, model, ModelWord.failures + i), 0);
}

/** Replaces TensorRT-LLM's fraction of blocks by a number of blocks. */
function blocksAsFraction(row: Row): Row {
  return {
    ...row,
    samples: (snapshot, identity) => {
      const samples = row.samples(snapshot, identity);
      const blocks = (type: string) => samples.find(({ labels }) => labels.kv_cache_block_type === type)!.value;
      return samples.map((sample) =>
        sample.labels.kv_cache_block_type === "fraction"
          ? { ...sample, value: blocks("max") - blocks("used") }
          : sample,
      );
    },
  };
}

const lacksCache = ({ engine }: MetricsSource) => (engine.enablePrefixCaching ? undefined : "--enable-prefix-caching");
const PREEMPTION = "a preempted request resumes and finds its blocks in the cache";

export const bugs: Readonly<Record<BugName, Bug>> = {
  "stuck-kv-usage": {
    thread: "vllm#29928",
    there: "If all requests are cancelled, no further step runs, and the gauges keep their last values.",
    here: "After the last client disconnected, the share of KV blocks keeps its value until the next step with a request.",
    families: ["vllm:kv_cache_usage_perc"],
    finds: { V04: "one scrape", G19: "rest" },
    load: "all running requests are cancelled at once",
    sticks: { fields: ["kvUsage"], after: "an end from outside" },
  },
  "stuck-requests": {
    thread: "vllm#22545",
    there: "After a load test whose requests were all aborted, running and waiting requests stay in the statistics.",
    here: "After the last client disconnected, running and waiting keep their values until the next step with a request.",
    families: ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"],
    finds: { V05: "one scrape", G19: "rest" },
    load: "all running requests are cancelled at once",
    sticks: { fields: ["running", "waiting", "deferred"], after: "an end from outside" },
  },
  "recomputed-hits": {
    thread: "vllm#25780",
    there: "A preempted request finds its own blocks again, which counted as hits of the prefix cache.",
    here: "Lookups of requests that resume after a preemption count like all others.",
    families: ["vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"],
    finds: { V11: "one scrape", V08: "clean, rest" },
    load: PREEMPTION,
    row: (row) => {
      const again = (engine: EngineSnapshot) =>
        row.name === "vllm:prefix_cache_hits_total" ? engine.preemptedHits : engine.preemptedQueries;
      return valued((sample, ...at) => sample.value + ofEngine(sample, ...at, again))(row);
    },
    lacks: lacksCache,
  },
  "repeated-first-tokens": {
    thread: "vllm#8115",
    there: "There are 8,060 first tokens and 3,918 finished requests.",
    here: "Each first token is observed twice.",
    families: ["vllm:time_to_first_token_seconds"],
    finds: { V24: "one scrape", V25: "clean, rest" },
    load: "any request",
    row: valued(({ value }) => 2 * value),
  },
  "negative-delta": {
    thread: "LMCache#2912, vllm#37354",
    there:
      "A request that resumes after a preemption reports more external tokens than are cached, and the negative difference is added to a counter.",
    here: "Tokens that a preempted request finds again are subtracted from the prompt tokens that came from the cache.",
    families: ["vllm:prompt_tokens_by_source_total"],
    finds: { G10: "two scrapes", V10: "one scrape" },
    load: PREEMPTION,
    row: valued((sample, ...at) => {
      const lost = sample.labels.source === "local_cache_hit" ? ofEngine(sample, ...at, (e) => e.preemptedHits) : 0;
      return sample.value - lost;
    }),
    lacks: lacksCache,
  },
  "ensemble-pending": {
    thread: "triton-inference-server/server#6494",
    there: "In an ensemble, pending requests are counted for the wrong models.",
    here: "The ensemble, which has no queue, shows requests in progress in its steps as pending.",
    families: ["nv_inference_pending_request_count"],
    finds: { N06: "one scrape" },
    load: "any request, while it runs",
    row: valued(({ labels, value }, snapshot, { triton }) =>
      labels.model === triton.models[0]!.name ? underway(snapshot) : value,
    ),
  },
  "failures-succeed": {
    thread: "triton-inference-server/server#8521",
    there: "A model answers with an error, and the request counts as a success.",
    here: "Failures count as successes for every model.",
    families: ["nv_inference_request_success", "nv_inference_request_failure"],
    finds: { N01: "one scrape" },
    load: "a request that the engine refuses, for example after `/pause`",
    row: (row) =>
      row.name === "nv_inference_request_failure"
        ? valued(() => 0)(row)
        : valued((sample, ...at) => sample.value + failures(sample, ...at))(row),
    lacks: ({ metrics: { triton } }) => (triton.counters ? undefined : "--metrics-config counter_latencies=true"),
  },
  "gauge-total": {
    thread: "dynamo#3035",
    there: "The proposed name of the gauge of requests in flight was dynamo_component_inflight_requests_total.",
    here: "The gauge of open streams is called understudy_streams_open_total.",
    families: ["understudy_streams_open"],
    finds: { G18: "one scrape" },
    load: "none",
    row: (row) => ({ ...row, name: `${row.name}_total` }),
  },
  "counter-gauge": {
    thread: "sglang#10672",
    there: "Numbers that only rise are exported as gauges.",
    here: "The number of preemptions is a gauge.",
    families: ["vllm:num_preemptions_total"],
    finds: { G18: "one scrape" },
    load: "none",
    row: ({ created: _, ...row }) => ({ ...row, type: "gauge" }),
  },
  "stale-gauges": {
    thread: "sglang#4244",
    there: "The throughput keeps its last value when no request runs any more.",
    here: "TensorRT-LLM's gauges of requests and blocks keep their values from before the last request ended.",
    families: [
      "nv_trt_llm_request_metrics",
      "nv_trt_llm_kv_cache_block_metrics",
      "nv_trt_llm_inflight_batcher_metrics",
    ],
    finds: { T12: "rest", G19: "rest" },
    load: "any request that runs for two steps, and its end",
    sticks: {
      fields: ["planRequests", "planScheduled", "planPrefills", "planPrefillTokens", "planPreempted", "blocksUsed"],
      after: "any end",
    },
  },
  "open-leak": {
    thread: "dynamo#2576",
    there: "A request that returns early stays among the requests in flight.",
    here: "Refused requests stay open.",
    families: ["understudy_requests_open"],
    finds: { G19: "rest" },
    load: "a request that is refused",
    row: valued(({ value }, { front }) => value + front.outcomes.refused),
  },
  "worker-saw-tooth": {
    thread: "geolens#1240",
    there: "Each of several processes on one port keeps its own metrics, and any of them answers a scrape.",
    here: "Each worker shows its own numbers under the labels of the first.",
    families: [],
    finds: { G10: "two scrapes" },
    load: "requests to more than one worker; scrapes over new connections",
    alone: true,
    lacks: ({ workers }) => (workers > 1 ? undefined : "--workers of at least 2"),
  },
  "duplicate-series": {
    thread: "gpustack#6218",
    there: "The `_created` series of some families occur twice, and Prometheus drops the scrape.",
    here: "The creation times of the counter of ended requests occur twice.",
    families: ["vllm:request_success_total"],
    finds: { G02: "one scrape" },
    load: "none",
    row: ({ created, ...row }) => ({
      ...row,
      created: (...at) => [...(created?.(...at) ?? []), ...(created?.(...at) ?? [])],
    }),
    lacks: ({ metrics }) => (metrics.profile === RUST ? "a --metrics-profile with creation times" : undefined),
  },
  "fraction-blocks": {
    thread: "a proposal for the endpoint picker of the Gateway API",
    there: "The proposed fraction of KV blocks in use was max − used, which is a number of blocks.",
    here: "The fraction of TensorRT-LLM's KV blocks is max − used.",
    families: ["nv_trt_llm_kv_cache_block_metrics"],
    finds: { T05: "one scrape", G15: "one scrape" },
    load: "any request, once",
    row: blocksAsFraction,
  },
};
