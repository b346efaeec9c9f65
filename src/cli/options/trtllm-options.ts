/**
 * Options of TensorRT-LLM's schedulers and of its server. They have the names of TensorRT-LLM's configuration and of
 * `trtllm-serve`.
 */

import { TRTLLM_SERVE as ROLE, VLLM_ENGINE } from "../../app/config/roles.ts";
import { REQUESTS_MOST } from "../../base/core-limits.ts";
import { CAPACITY_POLICIES, CHUNKING_POLICIES, TRTLLM_DEFAULTS } from "../../engine/config/trtllm.ts";
import { initially, offAtStart, onAtStart, ourServeGroup } from "./landing.ts";
import { choice, firstGiven, humanInteger, integer, number, onlyOn, row, toggle } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

/** Default of --iter-stats-max-iterations, which is also the limit of TensorRT-LLM's C++ executor. */
const ITERATIONS_KEPT = 1000;

export const trtllmOptions = ourServeGroup("TensorRT-LLM's scheduler", {
  "capacity-scheduler-policy": row(
    "Use TensorRT-LLM's scheduler with this policy: GUARANTEED_NO_EVICT (its default), MAX_UTILIZATION, STATIC_BATCH, or MAX_REQUESTS, which ignores memory. docs/reference/trtllm.md.",
    {
      lands: "engine.trtllm.capacitySchedulerPolicy",
      ...choice(...CAPACITY_POLICIES),
      metavar: "POLICY",
      default: "none: vLLM's scheduler",
    },
  ),
  "context-chunking-policy": row(
    "How chunks of several prompts share an iteration: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS. Needs chunked prefill.",
    {
      lands: "engine.trtllm.contextChunkingPolicy",
      ...choice(...CHUNKING_POLICIES),
      metavar: "POLICY",
      ...initially("FIRST_COME_FIRST_SERVED"),
    },
  ),
  "max-batch-size": row("Maximum active requests, and maximum requests in one iteration.", {
    lands: "engine.maxNumSeqs",
    ...integer(1, REQUESTS_MOST),
    default: `${TRTLLM_DEFAULTS.maxBatchSize}`,
  }),
  "max-num-tokens": row("Maximum tokens in one iteration.", {
    lands: "engine.maxNumBatchedTokens",
    ...humanInteger(1),
    default: `${TRTLLM_DEFAULTS.maxNumTokens}`,
  }),
  "max-input-len": row(
    "Maximum prompt of a request that resumes after a pause, in tokens. Tokens beyond it are computed again.",
    { lands: "engine.trtllm.maxInputLen", ...humanInteger(1), default: "max-model-len" },
  ),
  "tokens-per-block": row("Tokens per KV block, and the unit of prompt chunks.", {
    lands: "engine.blockSize",
    ...integer(1, 65536),
    default: `block-size, else ${TRTLLM_DEFAULTS.tokensPerBlock}`,
  }),
  "kv-cache-free-gpu-mem-fraction": row(
    "Share of the preset's GPU memory for the KV pool, of the memory that the weights leave free.",
    { feeds: "engine.numGpuBlocks", ...number(0, 1, "min"), default: `${TRTLLM_DEFAULTS.freeGpuMemoryFraction}` },
  ),
  "enable-block-reuse": row("Share KV blocks between requests whose prompts begin alike.", {
    lands: "engine.enablePrefixCaching",
    ...toggle,
    default: "true",
  }),
  "enable-partial-reuse": row("Also reuse the matching beginning of a block that differs later.", {
    lands: "engine.trtllm.enablePartialReuse",
    ...onAtStart,
  }),
  "copy-on-partial-reuse": row("Also partially reuse blocks that are in use or have successors, by copying them.", {
    lands: "engine.trtllm.copyOnPartialReuse",
    ...onAtStart,
  }),
  "enable-prefix-aware-scheduling": row(
    "Let requests wait for blocks that other requests will compute, and count cached blocks at admission.",
    { lands: "engine.trtllm.enablePrefixAwareScheduling", ...onAtStart },
  ),
  "disable-overlap-scheduler": row("Schedule an iteration after the previous one has ended, not while it runs.", {
    lands: "engine.asyncScheduling",
    as: (disabled: boolean) => !disabled,
    ...onlyOn,
  }),
  "waiting-queue-policy": row(
    "Order in which requests become active. fcfs: by arrival; priority: by the request's priority, smallest value first.",
    { lands: "engine.schedulingPolicy", ...choice("fcfs", "priority"), default: "fcfs" },
  ),
});

export const trtllmServeOptions = ourServeGroup("TensorRT-LLM's server (--role trtllm-serve)", {
  "max-seq-len": row("Maximum tokens of prompt plus answer. Same as --max-model-len.", {
    lands: "engine.maxModelLen",
    ...humanInteger(1),
    default: "max-model-len",
  }),
  "return-perf-metrics": row("Serve /prometheus/metrics, and record times of requests for /perf_metrics.", {
    lands: "iterations.returnPerfMetrics",
    ...offAtStart,
  }),
  "perf-metrics-max-requests": row("Number of requests to keep for /perf_metrics.", {
    lands: "iterations.perfMetricsMaxRequests",
    ...integer(0, 1_000_000),
    ...initially(0),
  }),
  "enable-iter-perf-stats": row("Record statistics of each iteration for /metrics and /prometheus/metrics.", {
    lands: "iterations.enableIterPerfStats",
    ...offAtStart,
  }),
  "enable-iter-req-stats": row(
    "Also report each request of each iteration on /metrics. Needs --enable-iter-perf-stats.",
    { lands: "iterations.enableIterReqStats", ...offAtStart },
  ),
  "iter-stats-max-iterations": row("Maximum iterations whose statistics are kept until read; older ones are dropped.", {
    lands: "iterations.iterStatsMaxIterations",
    ...integer(1, 1_000_000),
    ...initially(ITERATIONS_KEPT),
  }),
  "event-buffer-max-size": row(
    "Maximum KV cache events that are kept until POST /kv_cache_events reads them; older ones are dropped.",
    { lands: "iterations.eventBufferMaxSize", ...integer(0, 1_000_000), initial: 0, default: "0: none" },
  ),
});

const SWITCH = "capacity-scheduler-policy";

/** Returns the values with the defaults of trtllm-serve that differ from vLLM's. Call it only for the role of trtllm-serve. */
export function asTrtllmServe(values: ServeValues): ServeValues {
  if (values.role !== ROLE) return values;
  return {
    ...values,
    [SWITCH]: values[SWITCH] ?? "GUARANTEED_NO_EVICT",
    "enable-chunked-prefill": values["enable-chunked-prefill"] ?? false,
    // trtllm-serve has no switch for automatic tool choice; a tool parser turns it on.
    ...(values["tool-call-parser"] === undefined
      ? {}
      : { "enable-auto-tool-choice": values["enable-auto-tool-choice"] ?? true }),
  };
}

/**
 * Returns an error message if an option cannot be used in the role of the server, else undefined. `at`: returns the place where
 * the user set an option.
 */
export function unfitForRole(values: ServeValues, at: (option: string) => string): string | undefined {
  if (values.role !== ROLE) {
    const lone = firstGiven<string>(values, Object.keys(trtllmServeOptions));
    if (lone !== undefined) return `${at(lone)}: needs --role ${ROLE}`;
  }
  const { role } = values;
  if (role !== VLLM_ENGINE && values["front-faults"] !== undefined)
    return `${at("front-faults")}: needs --role ${VLLM_ENGINE}`;
  if (role !== ROLE && role !== VLLM_ENGINE) return undefined;
  if ((values.workers ?? 1) > 1) return `${at("workers")}: must be 1 with --role ${role}, which has one process`;
  if (role === ROLE && (values["data-parallel-size"] ?? 1) > 1)
    return `${at("data-parallel-size")}: must be 1 with --role ${role}, which has one engine`;
  if (values["http2-port"] !== undefined)
    return `${at("http2-port")}: only for --role vllm; --role ${role} speaks HTTP/1.1`;
  if (values["metrics-port"] !== undefined)
    return `${at("metrics-port")}: only for Triton's metrics; --role ${role} has its metrics on its own port`;
  return undefined;
}

/**
 * Options of vLLM's scheduler, each with the option of TensorRT-LLM's scheduler that has the same purpose. Undefined if no
 * option does.
 */
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

/**
 * Returns an error message if options of vLLM's and of TensorRT-LLM's scheduler are set together, else undefined. `at`: returns
 * the place of an option.
 */
export function mixedSchedulers(values: ServeValues, at: (option: string) => string): string | undefined {
  if (values[SWITCH] === undefined) {
    const lone = firstGiven<string>(values, Object.keys(trtllmOptions));
    return lone && `${at(lone)}: needs --${SWITCH} (${CAPACITY_POLICIES.join(", ")})`;
  }
  const other = firstGiven(values, Object.keys(OF_VLLM) as (keyof typeof OF_VLLM)[]);
  if (other === undefined) return undefined;
  const instead = OF_VLLM[other];
  return `${at(other)}: only for vLLM's scheduler; ${instead ? `with --${SWITCH} use --${instead}` : `--${SWITCH} has no such limit`}`;
}
