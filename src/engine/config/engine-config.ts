/** The configuration of an engine, with every default filled in. */

import type { HistogramBuckets } from "./buckets.ts";
import type { StepNoise, Timing } from "./step-times.ts";
import type { TrtllmConfig } from "./trtllm.ts";

/** Known defects of the real server's metrics, each of which `--fix` repairs. */
export const FIX_NAMES = ["abort-counted", "abort-times", "preemptions-at-once", "responses-counted"] as const;
export type FixName = (typeof FIX_NAMES)[number];

/** Options of vLLM's scheduler that TensorRT-LLM's schedulers do not have. */
export interface VllmPolicy {
  /** Most prompt tokens of one request per step while others wait or run; 0 is off. */
  readonly longPrefillTokenThreshold: number;
  /** True if `longPrefillTokenThreshold` is raised to the token budget divided by the number of requests, if that is more. */
  readonly longPrefillTokenThresholdAdaptive: boolean;
  /** Prefill only in every n-th step; those between decode alone. */
  readonly prefillScheduleInterval: number;
  /** A request is admitted where its whole prompt fits. */
  readonly schedulerReserveFullIsl: boolean;
  /** Share of the pool that admission leaves free, 0 to 1. */
  readonly watermark: number;
}

/** The scheduler's options under vLLM's names. */
export interface EngineConfig {
  /** Longest prompt plus answer, in tokens. */
  readonly maxModelLen: number;
  /** Most sequences in one step. */
  readonly maxNumSeqs: number;
  /** Limit of running requests that admission uses; <= maxNumSeqs. */
  readonly maxNumActiveSeqs: number;
  /** Most tokens in one step. */
  readonly maxNumBatchedTokens: number;
  /** Token budget of a step; <= maxNumBatchedTokens. */
  readonly maxNumScheduledTokens: number;
  /** Tokens of a KV block. */
  readonly blockSize: number;
  /** Block 0 is the null block: usable are numGpuBlocks - 1. */
  readonly numGpuBlocks: number;
  /** Prompts that begin alike share blocks. */
  readonly enablePrefixCaching: boolean;
  /** A long prompt may be spread over several steps. */
  readonly enableChunkedPrefill: boolean;
  /** The next step is planned while one runs. */
  readonly asyncScheduling: boolean;
  /** Who runs first: by arrival, or by the request's priority. */
  readonly schedulingPolicy: "fcfs" | "priority";
  /** What only vLLM's scheduler has. */
  readonly vllm: VllmPolicy;
  /** Different LoRA adapters that may run at once; 0 is LoRA off. */
  readonly maxLoras: number;
  /** Seed of all that is drawn. */
  readonly seed: number;
  /** How long steps take. */
  readonly timing: Timing;
  /** How steps stray from it. Absent: not at all. */
  readonly noise?: StepNoise;
  /** All times of `timing` and `noise` are divided by it. Absent: 1. */
  readonly speed?: number;
  /** `--custom-histogram-buckets`. Absent: vLLM's bounds. */
  readonly histogramBuckets?: HistogramBuckets;
  /** Defects of vLLM's metrics that are repaired. */
  readonly fixes?: readonly FixName[];
  /** TensorRT-LLM's schedulers in place of vLLM's: the fields above are then its limits of the same meaning. */
  readonly trtllm?: TrtllmConfig;
}

/** The options of an engine under their names, with those of vLLM's policy beside the others. */
export type FlatEngineConfig = Omit<EngineConfig, "vllm"> & VllmPolicy;

/** The order of members in files and fingerprints, whatever the order in the configuration. Others follow. */
const ORDER: readonly (keyof FlatEngineConfig)[] = [
  "maxNumBatchedTokens",
  "maxNumSeqs",
  "maxModelLen",
  "maxNumActiveSeqs",
  "maxNumScheduledTokens",
  "blockSize",
  "numGpuBlocks",
  "enablePrefixCaching",
  "enableChunkedPrefill",
  "asyncScheduling",
  "schedulingPolicy",
  "longPrefillTokenThreshold",
  "longPrefillTokenThresholdAdaptive",
  "prefillScheduleInterval",
  "schedulerReserveFullIsl",
  "watermark",
  "maxLoras",
  "seed",
  "timing",
  "histogramBuckets",
  "fixes",
  "trtllm",
  "noise",
  "speed",
];

/** Reverses `flatEngineConfig`. */
export function engineConfigOf(flat: FlatEngineConfig): EngineConfig {
  const { longPrefillTokenThreshold, longPrefillTokenThresholdAdaptive, ...shared } = flat;
  const { prefillScheduleInterval, schedulerReserveFullIsl, watermark, ...others } = shared;
  const prefill = { longPrefillTokenThreshold, longPrefillTokenThresholdAdaptive, prefillScheduleInterval };
  return { ...others, vllm: { ...prefill, schedulerReserveFullIsl, watermark } };
}

/** Returns the configuration with the members of `vllm` beside the others, for files and fingerprints. */
export function flatEngineConfig(config: EngineConfig): FlatEngineConfig {
  const { vllm, ...shared } = config;
  const flat: FlatEngineConfig = { ...shared, ...vllm };
  const names = ORDER.filter((name) => Object.hasOwn(flat, name));
  return { ...Object.fromEntries(names.map((name) => [name, flat[name]])), ...flat };
}
