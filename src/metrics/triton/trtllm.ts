/**
 * Metrics of TensorRT-LLM's Triton backend about its executor: `custom_metrics_reporter.cc` and
 * `model_instance_state.cc` of the 1.2 line. Every 100 ms they show the statistics of the last iteration. Under vLLM's
 * scheduler, docs/reference/triton-metrics.md says which of its numbers stand for TensorRT-LLM's.
 */
import type { EngineSnapshot } from "../../engine/interface/types.ts";
import { MeterField, ModelWord, TOKENS } from "../ensemble/model-numbers.ts";
import type { Identity } from "../rows/identity.ts";
import { counter, gauge, type Proof, type Row, type SeriesReader } from "../rows/table.ts";
import { labelsOf, modelHistogram } from "./table.ts";

/** `stats_check_period_ms`. */
const EVERY = { everyMs: 100 } as const;
const BY_REQUESTS: Proof = { moves: "test/conformance/triton-metrics.test.ts" };

interface Numbers {
  readonly engines: readonly EngineSnapshot[];
  readonly identity: Identity;
  readonly sum: (pick: (engine: EngineSnapshot) => number) => number;
}

/** Makes a family with a series per value of a label. All series are 0 until an iteration has ended. */
function family(
  make: typeof gauge,
  name: string,
  help: string,
  label: string,
  values: Readonly<Record<string, (numbers: Numbers) => number>>,
  proof: Proof = BY_REQUESTS,
): Row {
  const read: SeriesReader<number> = ({ engines }, identity) => {
    const sum = (pick: (engine: EngineSnapshot) => number) =>
      engines.reduce((total, engine) => total + pick(engine), 0);
    const numbers = { engines, identity, sum };
    // All engines count once any engine has ended an iteration, because their capacities are constant from then on.
    const begun = engines.some(({ iterations }) => iterations > 0);
    return Object.entries(values).map(([value, numberIn]) => [
      { ...labelsOf(identity.triton.llm), [label]: value },
      begun ? numberIn(numbers) : 0,
    ]);
  };
  return make(EVERY, name, help, read, proof);
}

/** Requests above the limit are not in the executor yet. */
const active = ({ sum, identity }: Numbers) =>
  sum(({ planRequests }) => Math.min(planRequests, identity.triton.requestsMax));
const scheduled = ({ sum }: Numbers) => sum(({ planScheduled }) => planScheduled);
const used = ({ sum }: Numbers) => sum(({ blocksUsed }) => blocksUsed);
const usable = ({ sum }: Numbers) => sum(({ blocksUsable }) => blocksUsable);

/** Rounds to six decimals, because the backend writes JSON with C's `%f`. */
const sixDecimals = (value: number) => Number(value.toFixed(6));

const gauges = (batcher: Row): readonly Row[] => [
  family(gauge, "nv_trt_llm_request_metrics", "TRT LLM request metrics", "request_type", {
    active,
    max: ({ engines, identity }) => engines.length * identity.triton.requestsMax,
    scheduled,
    context: ({ sum }) => sum(({ planPrefills }) => planPrefills),
    waiting: (numbers) => active(numbers) - scheduled(numbers),
  }),
  family(gauge, "nv_trt_llm_runtime_memory_metrics", "TRT LLM runtime memory metrics", "memory_type", {
    cpu: () => 0,
    gpu: ({ engines, identity }) => engines.length * identity.triton.gpuBytesHeld,
    pinned: () => 0,
  }),
  family(gauge, "nv_trt_llm_kv_cache_block_metrics", "TRT LLM KV cache block metrics", "kv_cache_block_type", {
    max: usable,
    free: (numbers) => usable(numbers) - used(numbers),
    used,
    tokens_per: ({ identity }) => identity.triton.tokensPerBlock,
    reused: ({ sum }) => sum(({ blocksReused }) => blocksReused),
    fraction: (numbers) => sixDecimals(used(numbers) / usable(numbers)),
  }),
  batcher,
  family(gauge, "nv_trt_llm_general_metrics", "General TRT LLM metrics", "general_type", {
    timestamp: ({ engines }) =>
      Math.max(...engines.map(({ meters, takenUs }) => Math.round((meters[MeterField.epochUs] ?? 0) + takenUs))),
    iteration_counter: ({ sum }) => sum(({ iterations }) => iterations),
  }),
];

const generating = ({ sum }: Numbers) => sum(({ planScheduled, planPrefills }) => planScheduled - planPrefills);
const contextTokens = ({ sum }: Numbers) => sum(({ planPrefillTokens }) => planPrefillTokens);

const inflight = family(
  gauge,
  "nv_trt_llm_inflight_batcher_metrics",
  "TRT LLM inflight_batcher-specific metrics",
  "inflight_batcher_specific_metric",
  {
    total_context_tokens: contextTokens,
    generation_requests: generating,
    micro_batch_id: () => 0,
    paused_requests: ({ sum }) => sum(({ planPreempted }) => planPreempted),
  },
);

/** Replaces the in-flight family with static batches: each generating request makes a token, and every other slot is empty. */
const staticBatch = family(
  gauge,
  "nv_trt_llm_v1_metrics",
  "TRT LLM v1-specific metrics",
  "v1_specific_metric",
  {
    total_context_tokens: contextTokens,
    total_generation_tokens: generating,
    empty_generation_slots: (numbers) =>
      numbers.engines.length * numbers.identity.triton.requestsMax - generating(numbers),
  },
  { moves: "test/assembly/trtllm/trtllm.sim.test.ts" },
);

const disaggregated = family(
  counter,
  "nv_trt_llm_disaggregated_serving_metrics",
  "TRT LLM disaggregated serving metrics",
  "disaggregated_serving_type",
  { kv_cache_transfer_ms: () => 0, request_count: () => 0 },
  { still: "prompts and answers are computed by the same engine" },
);

const lengths = (what: "input" | "output", word: number) =>
  modelHistogram(
    `nv_llm_${what}_token_len`,
    "TRT LLM response metrics",
    TOKENS,
    word,
    ({ triton: { models, llm } }) => [
      [
        { ...labelsOf(llm), response_metric_type: `total_${what}_tokens` },
        models.findIndex(({ name }) => name === llm.name),
      ],
    ],
    BY_REQUESTS,
  );

/** Returns the families in the backend's order of registration within each type. */
export function trtllmRows({ triton: { metrics, staticBatch: isStatic } }: Identity): readonly Row[] {
  if (!metrics) return [];
  const executor = gauges(isStatic ? staticBatch : inflight);
  return [
    disaggregated,
    ...executor,
    lengths("output", ModelWord.outputTokens),
    lengths("input", ModelWord.inputTokens),
  ];
}
