/** The options of TensorRT-LLM's schedulers and of its server. Names as in its configuration and in `trtllm-serve`. */

import { TRTLLM_SERVE as ROLE } from "../../app/config/roles.ts";
import { REQUESTS_MOST } from "../../base/core-limits.ts";
import { CAPACITY_POLICIES, CHUNKING_POLICIES, TRTLLM_DEFAULTS } from "../../engine/config/trtllm.ts";
import { initially, ourServeGroup } from "./landing.ts";
import { choice, humanInteger, integer, number, onlyOn, toggle } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

/** Where the product sets no limit of its own (its C++ executor's). */
const ITERATIONS_KEPT = 1000;

export const trtllmOptions = ourServeGroup("TensorRT-LLM's scheduler", {
  "capacity-scheduler-policy": {
    lands: "engine.trtllm.capacitySchedulerPolicy",
    ...choice(...CAPACITY_POLICIES),
    metavar: "POLICY",
    default: "none: vLLM's scheduler",
    about:
      "TensorRT-LLM's schedulers in place of vLLM's: GUARANTEED_NO_EVICT (its default), MAX_UTILIZATION, STATIC_BATCH, or MAX_REQUESTS, which looks at no memory. docs/trtllm.md.",
  },
  "context-chunking-policy": {
    lands: "engine.trtllm.contextChunkingPolicy",
    ...choice(...CHUNKING_POLICIES),
    metavar: "POLICY",
    ...initially("FIRST_COME_FIRST_SERVED"),
    about: "How prompts share an iteration with chunked prefill: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS.",
  },
  "max-batch-size": {
    lands: "engine.maxNumSeqs",
    ...integer(1, REQUESTS_MOST),
    default: `${TRTLLM_DEFAULTS.maxBatchSize}`,
    about: "Most requests that are active, and in one iteration.",
  },
  "max-num-tokens": {
    lands: "engine.maxNumBatchedTokens",
    ...humanInteger(1),
    default: `${TRTLLM_DEFAULTS.maxNumTokens}`,
    about: "Most tokens in one iteration.",
  },
  "max-input-len": {
    lands: "engine.trtllm.maxInputLen",
    ...humanInteger(1),
    default: "max-model-len",
    about: "A pause makes no prompt longer than this; what is cut off is computed again.",
  },
  "tokens-per-block": {
    lands: "engine.blockSize",
    ...integer(1, 65536),
    default: `block-size, else ${TRTLLM_DEFAULTS.tokensPerBlock}`,
    about: "Tokens per KV block; also the unit of chunks.",
  },
  "kv-cache-free-gpu-mem-fraction": {
    feeds: "engine.numGpuBlocks",
    ...number(0, 1, "min"),
    default: `${TRTLLM_DEFAULTS.freeGpuMemoryFraction}`,
    about: "Share of the memory that the weights leave free of the preset's GPUs; it is the KV pool.",
  },
  "enable-block-reuse": {
    lands: "engine.enablePrefixCaching",
    ...toggle,
    default: "true",
    about: "Requests with an equal beginning share its blocks.",
  },
  "enable-partial-reuse": {
    lands: "engine.trtllm.enablePartialReuse",
    ...toggle,
    ...initially(true),
    about: "Blocks that begin alike are reused as far as they are alike.",
  },
  "copy-on-partial-reuse": {
    lands: "engine.trtllm.copyOnPartialReuse",
    ...toggle,
    ...initially(true),
    about: "Also of blocks that others hold or that have followers: these are copied.",
  },
  "enable-prefix-aware-scheduling": {
    lands: "engine.trtllm.enablePrefixAwareScheduling",
    ...toggle,
    ...initially(true),
    about: "Requests wait for blocks that others are about to compute, and cached blocks count at admission.",
  },
  "disable-overlap-scheduler": {
    lands: "engine.asyncScheduling",
    as: (disabled: boolean) => !disabled,
    ...onlyOn,
    default: "false",
    about: "Plan an iteration when the one before has ended, not while it runs.",
  },
  "waiting-queue-policy": {
    lands: "engine.schedulingPolicy",
    ...choice("fcfs", "priority"),
    default: "fcfs",
    about: "Who becomes active first: by arrival, or by the request's priority (a smaller value first).",
  },
});

export const trtllmServeOptions = ourServeGroup("TensorRT-LLM's server (--role trtllm-serve)", {
  "max-seq-len": {
    lands: "engine.maxModelLen",
    ...humanInteger(1),
    default: "max-model-len",
    about: "Longest prompt plus answer: --max-model-len by the name of trtllm-serve.",
  },
  "return-perf-metrics": {
    lands: "iterations.returnPerfMetrics",
    ...toggle,
    ...initially(false),
    about: "Serve /prometheus/metrics, and note times of requests for /perf_metrics.",
  },
  "perf-metrics-max-requests": {
    lands: "iterations.perfMetricsMaxRequests",
    ...integer(0, 1_000_000),
    ...initially(0),
    about: "Requests that /perf_metrics keeps.",
  },
  "enable-iter-perf-stats": {
    lands: "iterations.enableIterPerfStats",
    ...toggle,
    ...initially(false),
    about: "Note statistics of each iteration for /metrics and /prometheus/metrics.",
  },
  "enable-iter-req-stats": {
    lands: "iterations.enableIterReqStats",
    ...toggle,
    ...initially(false),
    about: "With --enable-iter-perf-stats: /metrics tells of each request in each iteration, too.",
  },
  "iter-stats-max-iterations": {
    lands: "iterations.iterStatsMaxIterations",
    ...integer(1, 1_000_000),
    ...initially(ITERATIONS_KEPT),
    about: "Iterations whose statistics wait for a reader; older ones are dropped.",
  },
  "event-buffer-max-size": {
    lands: "iterations.eventBufferMaxSize",
    ...integer(0, 1_000_000),
    initial: 0,
    default: "0: none",
    about: "Events of the KV cache that wait for POST /kv_cache_events; older ones are dropped.",
  },
});

const SWITCH = "capacity-scheduler-policy";

/** What trtllm-serve assumes where nobody says otherwise. */
export function asTrtllmServe(values: ServeValues): ServeValues {
  if (values.role !== ROLE) return values;
  return {
    ...values,
    [SWITCH]: values[SWITCH] ?? "GUARANTEED_NO_EVICT",
    "enable-chunked-prefill": values["enable-chunked-prefill"] ?? false,
    // There is no such switch: a parser is enough.
    ...(values["tool-call-parser"] === undefined
      ? {}
      : { "enable-auto-tool-choice": values["enable-auto-tool-choice"] ?? true }),
  };
}

/** The line of an error if an option does not fit the role, or undefined. */
export function unfitForRole(values: ServeValues, at: (option: string) => string): string | undefined {
  if (values.role !== ROLE) {
    const lone = (Object.keys(trtllmServeOptions) as (keyof typeof trtllmServeOptions)[]).find(
      (name) => values[name] !== undefined,
    );
    return lone && `${at(lone)}: needs --role ${ROLE}`;
  }
  for (const name of ["workers", "data-parallel-size"] as const)
    if ((values[name] ?? 1) > 1) return `${at(name)}: takes 1 with --role ${ROLE}: it has one engine`;
  if (values["http2-port"] !== undefined)
    return `${at("http2-port")}: is vLLM's role's; --role ${ROLE} speaks HTTP/1.1`;
  if (values["metrics-port"] !== undefined)
    return `${at("metrics-port")}: is Triton's; --role ${ROLE} has its metrics on its own port`;
  return undefined;
}

/** Options of vLLM's scheduler, and what they are called here; undefined: there is no such thing. */
const OF_VLLM = {
  "max-num-seqs": "max-batch-size",
  "max-num-batched-tokens": "max-num-tokens",
  "gpu-memory-utilization": "kv-cache-free-gpu-mem-fraction",
  "enable-prefix-caching": "enable-block-reuse",
  "async-scheduling": "disable-overlap-scheduler",
  "scheduling-policy": "waiting-queue-policy",
  "max-num-active-seqs": undefined,
  "max-num-scheduled-tokens": undefined,
  "long-prefill-token-threshold": undefined,
  "long-prefill-token-threshold-adaptive": undefined,
  "prefill-schedule-interval": undefined,
  "scheduler-reserve-full-isl": undefined,
  watermark: undefined,
} as const;

/** Options of one scheduler beside the other: one line on the first, or undefined. */
export function mixedSchedulers(values: ServeValues, at: (option: string) => string): string | undefined {
  if (values[SWITCH] === undefined) {
    const lone = (Object.keys(trtllmOptions) as (keyof typeof trtllmOptions)[]).find(
      (name) => values[name] !== undefined,
    );
    return lone && `${at(lone)}: needs --${SWITCH} (${CAPACITY_POLICIES.join(", ")})`;
  }
  const other = (Object.keys(OF_VLLM) as (keyof typeof OF_VLLM)[]).find((name) => values[name] !== undefined);
  if (other === undefined) return undefined;
  const instead = OF_VLLM[other];
  return `${at(other)}: is vLLM's scheduler's; ${instead ? `with --${SWITCH} it is --${instead}` : `--${SWITCH} has no such limit`}`;
}
