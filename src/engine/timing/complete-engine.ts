/**
 * Completes the configuration of an engine: the sizes that follow from the preset's GPU and model, and from sizes that
 * the user gives. Defaults of vLLM 0.33 (`EngineArgs` in `engine/arg_utils.py`) and of TensorRT-LLM 1.3
 * (`llm_args.py`).
 */

import type { DeploymentConfig } from "../config/deployment-config.ts";
import type { EngineConfig } from "../config/engine-config.ts";
import { moreTokens } from "../config/kv-cache-dtypes.ts";
import { TRTLLM_DEFAULTS, type TrtllmConfig } from "../config/trtllm.ts";
import {
  type BatchDefaults,
  BLOCK_SIZE,
  batchDefaults,
  GPU_MEMORY_UTILIZATION,
  poolBlocks,
  trtllmPoolBlocks,
} from "./device-defaults.ts";
import type { Profile } from "./profile.ts";

type Sizes = Pick<
  EngineConfig,
  | "maxModelLen"
  | "maxNumSeqs"
  | "maxNumActiveSeqs"
  | "maxNumBatchedTokens"
  | "maxNumScheduledTokens"
  | "blockSize"
  | "numGpuBlocks"
>;

/** The configuration of an engine without the sizes that follow from others. A `maxModelLen` of -1 means as much as the pool holds. */
export type EngineInput = Omit<EngineConfig, keyof Sizes | "trtllm"> &
  Partial<Omit<Sizes, "numGpuBlocks">> & {
    /** If it has a capacity policy, TensorRT-LLM's schedulers replace vLLM's. */
    readonly trtllm: Omit<TrtllmConfig, "capacitySchedulerPolicy" | "maxInputLen"> & Partial<TrtllmConfig>;
  };

/** The machine and the model from which sizes follow. */
export interface EngineBase {
  readonly deployment: Pick<DeploymentConfig, "numGpuBlocksOverride" | "kvCacheDtype"> &
    Partial<Pick<DeploymentConfig, "gpuMemoryUtilization">>;
  readonly profile: Profile;
  /** Largest number of tokens of one request of the preset's model. */
  readonly modelLen: number;
  /** True if nothing selected the preset. Its pool, GPU and length are then another model's and must not cause a refusal. */
  readonly isAssumed: boolean;
  /** TensorRT-LLM's share of the memory that the weights leave free, 0 to 1. Absent: its default. */
  readonly freeGpuMemoryFraction?: number | undefined;
}

/** `grownFrom`: blocks of an assumed preset's pool that was too small for one request of full length. null: the pool was large enough. */
export interface SizedEngine {
  readonly engine: EngineConfig;
  readonly grownFrom: number | null;
}

export function completeEngine(input: EngineInput, base: EngineBase): SizedEngine {
  const { trtllm, ...shared } = input;
  const { capacitySchedulerPolicy } = trtllm;
  const engine: EngineConfig =
    capacitySchedulerPolicy === undefined
      ? { ...shared, ...vllmSizes(input, base) }
      : { ...shared, ...trtllmParts(input, { ...trtllm, capacitySchedulerPolicy }, base) };
  const needed = blocksFor(engine);
  const isChosen = !base.isAssumed || base.deployment.numGpuBlocksOverride !== null;
  if (isChosen || engine.numGpuBlocks >= needed) return { engine, grownFrom: null };
  return { engine: { ...engine, numGpuBlocks: needed }, grownFrom: engine.numGpuBlocks };
}

function vllmSizes(input: EngineInput, base: EngineBase): Sizes {
  const { profile, deployment } = base;
  const { blockSize = BLOCK_SIZE, enableChunkedPrefill } = input;
  const utilization = deployment.gpuMemoryUtilization ?? GPU_MEMORY_UTILIZATION;
  const numGpuBlocks =
    deployment.numGpuBlocksOverride ?? poolBlocks(profile, utilization, blockSize, tokensTimes(deployment));
  const batched = enableChunkedPrefill ? undefined : input.maxNumBatchedTokens;
  const modelLen = base.isAssumed ? assumedLength(input, base, blockSize, batched) : base.modelLen;
  const maxModelLen = lengthOf(input.maxModelLen, modelLen, (numGpuBlocks - 1) * blockSize);
  const batch = batchSizes(input, gpuDefaults(input, base), maxModelLen);
  return {
    ...batch,
    maxModelLen,
    maxNumActiveSeqs: input.maxNumActiveSeqs ?? batch.maxNumSeqs,
    maxNumScheduledTokens: input.maxNumScheduledTokens ?? batch.maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
  };
}

type CapacityInput = EngineInput["trtllm"] & Pick<TrtllmConfig, "capacitySchedulerPolicy">;

function trtllmParts(
  input: EngineInput,
  { maxInputLen, capacitySchedulerPolicy, contextChunkingPolicy, ...reuse }: CapacityInput,
  base: EngineBase,
): Sizes & Pick<EngineConfig, "enablePrefixCaching" | "trtllm"> {
  const { profile, deployment, freeGpuMemoryFraction = TRTLLM_DEFAULTS.freeGpuMemoryFraction } = base;
  const { maxNumSeqs = TRTLLM_DEFAULTS.maxBatchSize, maxNumBatchedTokens = TRTLLM_DEFAULTS.maxNumTokens } = input;
  const { blockSize = TRTLLM_DEFAULTS.tokensPerBlock } = input;
  // One block more, because vLLM's pools include the null block.
  const numGpuBlocks =
    deployment.numGpuBlocksOverride ??
    trtllmPoolBlocks(profile, freeGpuMemoryFraction, blockSize, tokensTimes(deployment)) + 1;
  const modelLen = base.isAssumed ? assumedLength(input, base, blockSize, undefined) : base.modelLen;
  const hasCache = capacitySchedulerPolicy !== "MAX_REQUESTS";
  const maxModelLen = lengthOf(input.maxModelLen, modelLen, hasCache ? (numGpuBlocks - 1) * blockSize : modelLen);
  // Without chunks a prompt must fit into one iteration, even after a pause.
  const longest = input.enableChunkedPrefill ? maxModelLen : maxNumBatchedTokens;
  return {
    maxModelLen,
    maxNumSeqs,
    maxNumActiveSeqs: maxNumSeqs,
    maxNumBatchedTokens,
    maxNumScheduledTokens: maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
    enablePrefixCaching: hasCache && input.enablePrefixCaching,
    trtllm: {
      capacitySchedulerPolicy,
      contextChunkingPolicy,
      maxInputLen: Math.min(maxInputLen ?? maxModelLen, longest),
      ...reuse,
    },
  };
}

/** Returns the factor by which more tokens fit than with 16 bits, or 1 if it is unknown. */
const tokensTimes = ({ kvCacheDtype = "auto" }: EngineBase["deployment"]): number => moreTokens(kvCacheDtype) ?? 1;

/** Returns the length. -1 means the tokens of the pool, limited by the model. */
function lengthOf(input: number | undefined, modelLen: number, poolTokens: number): number {
  return input === -1 ? Math.max(1, Math.min(modelLen, poolTokens)) : (input ?? modelLen);
}

/** Returns the blocks that one request of full length needs, plus the null block. */
function blocksFor({ maxModelLen, blockSize }: EngineConfig): number {
  return Math.ceil(maxModelLen / blockSize) + 1;
}

/**
 * Returns the length of an unknown model. This is the length of the assumed preset's model, unless a given limit requires
 * less or more. `batched`: limit of tokens in a step if a prompt must fit into one.
 */
function assumedLength(
  { vllm: { longPrefillTokenThreshold } }: EngineInput,
  { modelLen, deployment: { numGpuBlocksOverride: blocks } }: EngineBase,
  blockSize: number,
  batched: number | undefined,
): number {
  const most = Math.min(
    blocks === null ? Number.POSITIVE_INFINITY : Math.max(1, (blocks - 1) * blockSize),
    batched ?? Number.POSITIVE_INFINITY,
  );
  return Math.min(most, Math.max(modelLen, longPrefillTokenThreshold));
}

/** Returns vLLM's defaults on the preset's GPU. On an assumed GPU, they are raised to match given limits. */
function gpuDefaults(input: EngineInput, { profile, isAssumed }: EngineBase): BatchDefaults {
  const byGpu = batchDefaults(profile);
  if (!isAssumed) return byGpu;
  const { maxNumActiveSeqs = 0, maxNumScheduledTokens = 0 } = input;
  const seqs = input.maxNumSeqs ?? maxNumActiveSeqs;
  return {
    maxNumSeqs: Math.max(byGpu.maxNumSeqs, maxNumActiveSeqs),
    maxNumBatchedTokens: Math.max(byGpu.maxNumBatchedTokens, seqs, maxNumScheduledTokens),
  };
}

/** The order of these statements matters and is vLLM's (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`). */
function batchSizes(input: EngineInput, byGpu: BatchDefaults, maxModelLen: number): BatchDefaults {
  const seqs = input.maxNumSeqs ?? byGpu.maxNumSeqs;
  const roomy = input.enableChunkedPrefill
    ? byGpu.maxNumBatchedTokens
    : Math.max(byGpu.maxNumBatchedTokens, maxModelLen);
  const maxNumBatchedTokens = input.maxNumBatchedTokens ?? Math.min(roomy, seqs * maxModelLen);
  return { maxNumBatchedTokens, maxNumSeqs: input.maxNumSeqs ?? Math.min(seqs, maxNumBatchedTokens) };
}
