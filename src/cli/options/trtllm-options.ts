/** Which options of TensorRT-LLM's schedulers are there, and what comes of them? Names as in its configuration and `trtllm-serve`. */

import { TRTLLM_SERVE as ROLE } from "../../app/config/roles.ts";
import { REQUESTS_MOST } from "../../base/core-limits.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import {
  CAPACITY_POLICIES,
  CHUNKING_POLICIES,
  type IterationsConfig,
  TRTLLM_DEFAULTS,
} from "../../engine/config/trtllm.ts";
import { trtllmPoolBlocks } from "../../engine/timing/device-defaults.ts";
import type { Profile } from "../../engine/timing/profile.ts";
import type { UsageError } from "./given.ts";
import { choice, humanInteger, integer, number, onlyOn, ourGroup, toggle } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

const group = "TensorRT-LLM's scheduler";

/** Where the product sets no limit of its own (its C++ executor's). */
const ITERATIONS_KEPT = 1000;

export const trtllmOptions = {
  "capacity-scheduler-policy": {
    ...choice(...CAPACITY_POLICIES),
    metavar: "POLICY",
    group,
    default: "none: vLLM's scheduler",
    about:
      "TensorRT-LLM's schedulers in place of vLLM's: GUARANTEED_NO_EVICT (its default), MAX_UTILIZATION, STATIC_BATCH, or MAX_REQUESTS, which looks at no memory. docs/trtllm.md.",
    ours: true,
  },
  "context-chunking-policy": {
    ...choice(...CHUNKING_POLICIES),
    metavar: "POLICY",
    group,
    default: "FIRST_COME_FIRST_SERVED",
    about: "How prompts share an iteration with chunked prefill: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS.",
    ours: true,
  },
  "max-batch-size": {
    ...integer(1, REQUESTS_MOST),
    group,
    default: `${TRTLLM_DEFAULTS.maxBatchSize}`,
    about: "Most requests that are active, and in one iteration.",
    ours: true,
  },
  "max-num-tokens": {
    ...humanInteger(1),
    group,
    default: `${TRTLLM_DEFAULTS.maxNumTokens}`,
    about: "Most tokens in one iteration.",
    ours: true,
  },
  "max-input-len": {
    ...humanInteger(1),
    group,
    default: "max-model-len",
    about: "A pause makes no prompt longer than this; what is cut off is computed again.",
    ours: true,
  },
  "tokens-per-block": {
    ...integer(1, 65536),
    group,
    default: `block-size, else ${TRTLLM_DEFAULTS.tokensPerBlock}`,
    about: "Tokens per KV block; also the unit of chunks.",
    ours: true,
  },
  "kv-cache-free-gpu-mem-fraction": {
    ...number(0, 1, "min"),
    group,
    default: `${TRTLLM_DEFAULTS.freeGpuMemoryFraction}`,
    about: "Share of the memory that the weights leave free of the preset's GPUs; it is the KV pool.",
    ours: true,
  },
  "enable-block-reuse": {
    ...toggle,
    group,
    default: "true",
    about: "Requests with an equal beginning share its blocks.",
    ours: true,
  },
  "enable-partial-reuse": {
    ...toggle,
    group,
    default: "true",
    about: "Blocks that begin alike are reused as far as they are alike.",
    ours: true,
  },
  "copy-on-partial-reuse": {
    ...toggle,
    group,
    default: "true",
    about: "Also of blocks that others hold or that have followers: these are copied.",
    ours: true,
  },
  "enable-prefix-aware-scheduling": {
    ...toggle,
    group,
    default: "true",
    about: "Requests wait for blocks that others are about to compute, and cached blocks count at admission.",
    ours: true,
  },
  "disable-overlap-scheduler": {
    ...onlyOn,
    group,
    default: "false",
    about: "Plan an iteration when the one before has ended, not while it runs.",
    ours: true,
  },
  "waiting-queue-policy": {
    ...choice("fcfs", "priority"),
    group,
    default: "fcfs",
    about: "Who becomes active first: by arrival, or by the request's priority (a smaller value first).",
    ours: true,
  },
} as const;

export const trtllmServeOptions = ourGroup("TensorRT-LLM's server (--role trtllm-serve)", {
  "max-seq-len": {
    ...humanInteger(1),
    default: "max-model-len",
    about: "Longest prompt plus answer: --max-model-len by the name of trtllm-serve.",
  },
  "return-perf-metrics": {
    ...toggle,
    default: "false",
    about: "Serve /prometheus/metrics, and note times of requests for /perf_metrics.",
  },
  "perf-metrics-max-requests": {
    ...integer(0, 1_000_000),
    default: "0",
    about: "Requests that /perf_metrics keeps.",
  },
  "enable-iter-perf-stats": {
    ...toggle,
    default: "false",
    about: "Note statistics of each iteration for /metrics and /prometheus/metrics.",
  },
  "enable-iter-req-stats": {
    ...toggle,
    default: "false",
    about: "With --enable-iter-perf-stats: /metrics tells of each request in each iteration, too.",
  },
  "iter-stats-max-iterations": {
    ...integer(1, 1_000_000),
    default: `${ITERATIONS_KEPT}`,
    about: "Iterations whose statistics wait for a reader; older ones are dropped.",
  },
  "event-buffer-max-size": {
    ...integer(0, 1_000_000),
    default: "0: none",
    about: "Events of the KV cache that wait for POST /kv_cache_events; older ones are dropped.",
  },
} as const);

const SWITCH = "capacity-scheduler-policy";

/** What trtllm-serve assumes where nobody says otherwise. */
export function asTrtllmServe(values: ServeValues): ServeValues {
  if (values.role !== ROLE) return values;
  const length = values["max-seq-len"] ?? values["max-model-len"];
  return {
    ...values,
    [SWITCH]: values[SWITCH] ?? "GUARANTEED_NO_EVICT",
    "enable-chunked-prefill": values["enable-chunked-prefill"] ?? false,
    ...(length === undefined ? {} : { "max-model-len": length }),
    // There is no such switch: a parser is enough.
    ...(values["tool-call-parser"] === undefined
      ? {}
      : { "enable-auto-tool-choice": values["enable-auto-tool-choice"] ?? true }),
  };
}

/** Returns the configuration that only trtllm-serve has, or an error if an option does not fit the role. null for other roles. */
export function trtllmServeConfig(
  values: ServeValues,
  at: (option: string) => string,
): { readonly iterations: IterationsConfig } | UsageError | null {
  if (values.role !== ROLE) {
    const lone = (Object.keys(trtllmServeOptions) as (keyof typeof trtllmServeOptions)[]).find(
      (name) => values[name] !== undefined,
    );
    return lone ? { error: `${at(lone)}: needs --role ${ROLE}` } : null;
  }
  for (const name of ["workers", "data-parallel-size"] as const)
    if ((values[name] ?? 1) > 1) return { error: `${at(name)}: takes 1 with --role ${ROLE}: it has one engine` };
  if (values["http2-port"] !== undefined)
    return { error: `${at("http2-port")}: is vLLM's role's; --role ${ROLE} speaks HTTP/1.1` };
  if (values["metrics-port"] !== undefined)
    return { error: `${at("metrics-port")}: is Triton's; --role ${ROLE} has its metrics on its own port` };
  return {
    iterations: {
      returnPerfMetrics: values["return-perf-metrics"] ?? false,
      perfMetricsMaxRequests: values["perf-metrics-max-requests"] ?? 0,
      enableIterPerfStats: values["enable-iter-perf-stats"] ?? false,
      enableIterReqStats: values["enable-iter-req-stats"] ?? false,
      iterStatsMaxIterations: values["iter-stats-max-iterations"] ?? ITERATIONS_KEPT,
      eventBufferMaxSize: values["event-buffer-max-size"] ?? 0,
    },
  };
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

/** The parts of an engine's configuration that TensorRT-LLM's options set in place of vLLM's; null: vLLM's scheduler. */
export function trtllmEngine(
  values: ServeValues,
  profile: Profile,
  modelLen: number,
  times: number,
): (Omit<Partial<EngineConfig>, "trtllm"> & Pick<EngineConfig, "maxModelLen" | "trtllm">) | null {
  const policy = values[SWITCH];
  if (policy === undefined) return null;
  const maxNumSeqs = values["max-batch-size"] ?? TRTLLM_DEFAULTS.maxBatchSize;
  const maxNumBatchedTokens = values["max-num-tokens"] ?? TRTLLM_DEFAULTS.maxNumTokens;
  const blockSize = values["tokens-per-block"] ?? values["block-size"] ?? TRTLLM_DEFAULTS.tokensPerBlock;
  const fraction = values["kv-cache-free-gpu-mem-fraction"] ?? TRTLLM_DEFAULTS.freeGpuMemoryFraction;
  // One more than there are, as vLLM sets one aside.
  const numGpuBlocks = values["num-gpu-blocks-override"] ?? trtllmPoolBlocks(profile, fraction, blockSize, times) + 1;
  const asked = values["max-model-len"] ?? modelLen;
  const held = policy === "MAX_REQUESTS" ? modelLen : Math.max(1, (numGpuBlocks - 1) * blockSize);
  const maxModelLen = asked === -1 ? Math.min(modelLen, held) : asked;
  const enableChunkedPrefill = values["enable-chunked-prefill"] ?? true;
  return {
    maxModelLen,
    maxNumSeqs,
    maxNumActiveSeqs: maxNumSeqs,
    maxNumBatchedTokens,
    maxNumScheduledTokens: maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
    enablePrefixCaching: policy !== "MAX_REQUESTS" && (values["enable-block-reuse"] ?? true),
    asyncScheduling: !(values["disable-overlap-scheduler"] ?? false),
    schedulingPolicy: values["waiting-queue-policy"] ?? "fcfs",
    trtllm: {
      capacitySchedulerPolicy: policy,
      contextChunkingPolicy: values["context-chunking-policy"] ?? "FIRST_COME_FIRST_SERVED",
      // Without chunks a prompt has to fit into one iteration, also after a pause.
      maxInputLen: Math.min(
        values["max-input-len"] ?? maxModelLen,
        enableChunkedPrefill ? maxModelLen : maxNumBatchedTokens,
      ),
      enablePartialReuse: values["enable-partial-reuse"] ?? true,
      copyOnPartialReuse: values["copy-on-partial-reuse"] ?? true,
      enablePrefixAwareScheduling: values["enable-prefix-aware-scheduling"] ?? true,
    },
  };
}
