/** The complete configuration of an engine, with all defaults. */

import type { HistogramBuckets } from "./buckets.ts";
import type { StepNoise, Timing } from "./step-times.ts";
import type { TrtllmConfig } from "./trtllm.ts";

/** Known defects of the real server's metrics that `--fix` can repair. */
export const FIX_NAMES = ["abort-counted", "abort-times", "preemptions-at-once", "responses-counted"] as const;
export type FixName = (typeof FIX_NAMES)[number];

/** Options that only vLLM's scheduler has. */
export interface VllmPolicy {
  /** Largest number of prompt tokens of one request per step if several requests run or wait. 0 means no limit. */
  readonly longPrefillTokenThreshold: number;
  /** True if `longPrefillTokenThreshold` is raised to the token budget divided by the number of requests, if that is more. */
  readonly longPrefillTokenThresholdAdaptive: boolean;
  /** Only every n-th step prefills; the others only decode. */
  readonly prefillScheduleInterval: number;
  /** True if a request is only admitted when its whole prompt fits. */
  readonly schedulerReserveFullIsl: boolean;
  /** Share of the pool that admission leaves free, 0 to 1. */
  readonly watermark: number;
}

/** The scheduler's options under vLLM's names. */
export interface EngineConfig {
  /** Largest length of prompt plus answer, in tokens. */
  readonly maxModelLen: number;
  /** Largest number of sequences in one step. */
  readonly maxNumSeqs: number;
  /** Largest number of running requests that admission allows. At most maxNumSeqs. */
  readonly maxNumActiveSeqs: number;
  /** Largest number of tokens in one step. */
  readonly maxNumBatchedTokens: number;
  /** Token budget of a step. At most maxNumBatchedTokens. */
  readonly maxNumScheduledTokens: number;
  /** Tokens per KV block. */
  readonly blockSize: number;
  /** Number of blocks, including the null block 0. So numGpuBlocks - 1 can be used. */
  readonly numGpuBlocks: number;
  /** True if prompts with the same beginning share blocks. */
  readonly enablePrefixCaching: boolean;
  /** True if a long prompt may be split over several steps. */
  readonly enableChunkedPrefill: boolean;
  /** True if the next step is planned while one runs. */
  readonly asyncScheduling: boolean;
  /** Order of admission: by arrival, or by the request's priority. */
  readonly schedulingPolicy: "fcfs" | "priority";
  /** Options that only vLLM's scheduler has. */
  readonly vllm: VllmPolicy;
  /** Number of different LoRA adapters that may run at once. 0: LoRA is off. */
  readonly maxLoras: number;
  /** Seed of all random draws. */
  readonly seed: number;
  /** Durations of steps. */
  readonly timing: Timing;
  /** Noise of the durations. Absent: none. */
  readonly noise?: StepNoise;
  /** Divides all times of `timing` and `noise`. Absent: 1. */
  readonly speed?: number;
  /** `--custom-histogram-buckets`. Absent: vLLM's bounds. */
  readonly histogramBuckets?: HistogramBuckets;
  /** Defects of vLLM's metrics to repair. */
  readonly fixes?: readonly FixName[];
  /** Uses TensorRT-LLM's schedulers instead of vLLM's. The fields above are then its limits with the same meaning. */
  readonly trtllm?: TrtllmConfig;
}

/** The part that can change while an engine runs. */
export type StepPacing = Pick<EngineConfig, "timing" | "noise" | "speed">;
/** The part that an engine has from its start to its end. */
export type FixedEngineConfig = Omit<EngineConfig, keyof StepPacing>;

/** Options of an engine in one level, including those of vLLM's policy. */
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

/** Returns the configuration in one level, as in files and fingerprints. */
export function flatEngineConfig(config: EngineConfig): FlatEngineConfig {
  const { vllm, ...shared } = config;
  const flat: FlatEngineConfig = { ...shared, ...vllm };
  const names = ORDER.filter((name) => Object.hasOwn(flat, name));
  return { ...Object.fromEntries(names.map((name) => [name, flat[name]])), ...flat };
}
