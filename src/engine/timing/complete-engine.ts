/**
 * Completes the configuration of an engine: the sizes that follow from the preset's GPU and model, and from the sizes that are
 * given. Defaults of vLLM 0.33 (`EngineArgs` in `engine/arg_utils.py`) and of TensorRT-LLM 1.3 (`llm_args.py`).
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

/** The configuration of an engine without the sizes that follow from others. A `maxModelLen` of -1: as much as the pool holds. */
export type GivenEngine = Omit<EngineConfig, keyof Sizes | "trtllm"> &
  Partial<Omit<Sizes, "numGpuBlocks">> & {
    /** With a capacity policy TensorRT-LLM's schedulers replace vLLM's. */
    readonly trtllm: Omit<TrtllmConfig, "capacitySchedulerPolicy" | "maxInputLen"> & Partial<TrtllmConfig>;
  };

/** The machine and the model that sizes follow from. */
export interface EngineBase {
  readonly deployment: Pick<DeploymentConfig, "numGpuBlocksOverride" | "kvCacheDtype"> &
    Partial<Pick<DeploymentConfig, "gpuMemoryUtilization">>;
  readonly profile: Profile;
  /** Most tokens of one request of the preset's model. */
  readonly modelLen: number;
  /** True if nothing chose the preset: its pool, GPU and length are another model's, and must not cause a refusal. */
  readonly isAssumed: boolean;
  /** TensorRT-LLM's share of the memory that the weights leave free, 0 to 1. Absent: its default. */
  readonly freeGpuMemoryFraction?: number | undefined;
}

/** `grownFrom`: blocks of an assumed preset's pool that was too small for one request of full length; null: it is kept. */
export interface SizedEngine {
  readonly engine: EngineConfig;
  readonly grownFrom: number | null;
}

export function completeEngine(given: GivenEngine, base: EngineBase): SizedEngine {
  const { trtllm, ...shared } = given;
  const { capacitySchedulerPolicy } = trtllm;
  const engine: EngineConfig =
    capacitySchedulerPolicy === undefined
      ? { ...shared, ...vllmSizes(given, base) }
      : { ...shared, ...trtllmParts(given, { ...trtllm, capacitySchedulerPolicy }, base) };
  const needed = blocksFor(engine);
  const isChosen = !base.isAssumed || base.deployment.numGpuBlocksOverride !== null;
  if (isChosen || engine.numGpuBlocks >= needed) return { engine, grownFrom: null };
  return { engine: { ...engine, numGpuBlocks: needed }, grownFrom: engine.numGpuBlocks };
}

function vllmSizes(given: GivenEngine, base: EngineBase): Sizes {
  const { profile, deployment } = base;
  const { blockSize = BLOCK_SIZE, enableChunkedPrefill } = given;
  const utilization = deployment.gpuMemoryUtilization ?? GPU_MEMORY_UTILIZATION;
  const numGpuBlocks =
    deployment.numGpuBlocksOverride ?? poolBlocks(profile, utilization, blockSize, tokensTimes(deployment));
  const batched = enableChunkedPrefill ? undefined : given.maxNumBatchedTokens;
  const modelLen = base.isAssumed ? assumedLength(given, base, blockSize, batched) : base.modelLen;
  const maxModelLen = lengthOf(given.maxModelLen, modelLen, (numGpuBlocks - 1) * blockSize);
  const batch = batchSizes(given, gpuDefaults(given, base), maxModelLen);
  return {
    ...batch,
    maxModelLen,
    maxNumActiveSeqs: given.maxNumActiveSeqs ?? batch.maxNumSeqs,
    maxNumScheduledTokens: given.maxNumScheduledTokens ?? batch.maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
  };
}

type CapacityGiven = GivenEngine["trtllm"] & Pick<TrtllmConfig, "capacitySchedulerPolicy">;

function trtllmParts(
  given: GivenEngine,
  { maxInputLen, capacitySchedulerPolicy, contextChunkingPolicy, ...reuse }: CapacityGiven,
  base: EngineBase,
): Sizes & Pick<EngineConfig, "enablePrefixCaching" | "trtllm"> {
  const { profile, deployment, freeGpuMemoryFraction = TRTLLM_DEFAULTS.freeGpuMemoryFraction } = base;
  const { maxNumSeqs = TRTLLM_DEFAULTS.maxBatchSize, maxNumBatchedTokens = TRTLLM_DEFAULTS.maxNumTokens } = given;
  const { blockSize = TRTLLM_DEFAULTS.tokensPerBlock } = given;
  // One more than there are, because vLLM sets one aside.
  const numGpuBlocks =
    deployment.numGpuBlocksOverride ??
    trtllmPoolBlocks(profile, freeGpuMemoryFraction, blockSize, tokensTimes(deployment)) + 1;
  const modelLen = base.isAssumed ? assumedLength(given, base, blockSize, undefined) : base.modelLen;
  const hasCache = capacitySchedulerPolicy !== "MAX_REQUESTS";
  const maxModelLen = lengthOf(given.maxModelLen, modelLen, hasCache ? (numGpuBlocks - 1) * blockSize : modelLen);
  // Without chunks a prompt has to fit into one iteration, also after a pause.
  const longest = given.enableChunkedPrefill ? maxModelLen : maxNumBatchedTokens;
  return {
    maxModelLen,
    maxNumSeqs,
    maxNumActiveSeqs: maxNumSeqs,
    maxNumBatchedTokens,
    maxNumScheduledTokens: maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
    enablePrefixCaching: hasCache && given.enablePrefixCaching,
    trtllm: {
      capacitySchedulerPolicy,
      contextChunkingPolicy,
      maxInputLen: Math.min(maxInputLen ?? maxModelLen, longest),
      ...reuse,
    },
  };
}

/** Returns how many tokens have room where one of 16 bits had, as far as that is known. */
const tokensTimes = ({ kvCacheDtype = "auto" }: EngineBase["deployment"]): number => moreTokens(kvCacheDtype) ?? 1;

/** `given` of -1: the tokens of the pool, at most those of the model. */
function lengthOf(given: number | undefined, modelLen: number, poolTokens: number): number {
  return given === -1 ? Math.max(1, Math.min(modelLen, poolTokens)) : (given ?? modelLen);
}

/** Blocks that one request of full length needs, and the null block. */
function blocksFor({ maxModelLen, blockSize }: EngineConfig): number {
  return Math.ceil(maxModelLen / blockSize) + 1;
}

/**
 * Returns the length of a model that is not known: that of the assumed preset's model, unless a given limit requires less or
 * more. `batched`: limit of tokens in a step if a prompt must fit into one.
 */
function assumedLength(
  { vllm: { longPrefillTokenThreshold } }: GivenEngine,
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

/** Returns vLLM's defaults on the preset's GPU. On an assumed GPU they are raised to the needs of given limits. */
function gpuDefaults(given: GivenEngine, { profile, isAssumed }: EngineBase): BatchDefaults {
  const byGpu = batchDefaults(profile);
  if (!isAssumed) return byGpu;
  const { maxNumActiveSeqs = 0, maxNumScheduledTokens = 0 } = given;
  const seqs = given.maxNumSeqs ?? maxNumActiveSeqs;
  return {
    maxNumSeqs: Math.max(byGpu.maxNumSeqs, maxNumActiveSeqs),
    maxNumBatchedTokens: Math.max(byGpu.maxNumBatchedTokens, seqs, maxNumScheduledTokens),
  };
}

/** The order matters and is vLLM's (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`). */
function batchSizes(given: GivenEngine, byGpu: BatchDefaults, maxModelLen: number): BatchDefaults {
  const seqs = given.maxNumSeqs ?? byGpu.maxNumSeqs;
  const roomy = given.enableChunkedPrefill
    ? byGpu.maxNumBatchedTokens
    : Math.max(byGpu.maxNumBatchedTokens, maxModelLen);
  const maxNumBatchedTokens = given.maxNumBatchedTokens ?? Math.min(roomy, seqs * maxModelLen);
  return { maxNumBatchedTokens, maxNumSeqs: given.maxNumSeqs ?? Math.min(seqs, maxNumBatchedTokens) };
}
