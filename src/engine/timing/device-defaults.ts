/**
 * Defaults that depend on the preset's GPU: batch sizes and KV pools. Sources: vLLM 0.33, `vllm/engine/arg_utils.py`,
 * API server; TensorRT-LLM 1.3, `llm_args.py`.
 */
import type { Profile } from "./profile.ts";

const GIB = 2 ** 30;

/** vLLM's default. Estimated pools apply to it, although their rule uses `POOL_SHARE`; the rest is for activations and graphs. */
export const GPU_MEMORY_UTILIZATION = 0.92;

/** Share of the GPUs' memory that weights and estimated pool take together. */
const POOL_SHARE = 0.9;

/** vLLM's default on CUDA. */
export const BLOCK_SIZE = 16;

/** Number of generations whose truth is kept. Our own default. */
export const TRUTH_REQUESTS = 1000;

export interface BatchDefaults {
  readonly maxNumBatchedTokens: number;
  readonly maxNumSeqs: number;
}

/** Returns the defaults by the memory of one GPU. The A100 never counts as large. */
export function batchDefaults({ gpu, gpuMemoryBytes }: Profile): BatchDefaults {
  if (gpuMemoryBytes >= 160 * GIB) return { maxNumBatchedTokens: 16384, maxNumSeqs: 1024 };
  if (gpuMemoryBytes >= 70 * GIB && gpu !== "a100") return { maxNumBatchedTokens: 8192, maxNumSeqs: 1024 };
  return { maxNumBatchedTokens: 2048, maxNumSeqs: 256 };
}

/**
 * Returns the blocks of the KV pool, including the null block. 0 or less if the weights leave no room. `times`: factor
 * by which more tokens fit than with 16 bits.
 */
export function poolBlocks(profile: Profile, gpuMemoryUtilization: number, blockSize: number, times: number): number {
  const moreBytes = profile.tp * (gpuMemoryUtilization - GPU_MEMORY_UTILIZATION) * profile.gpuMemoryBytes;
  return Math.floor(((profile.poolTokens + moreBytes / profile.kvBytesPerToken) * times) / blockSize);
}

/**
 * Returns the number of blocks in TensorRT-LLM's pool. `fraction` is the pool's share of the memory that is free after
 * loading the weights. The preset's pool is that free memory for a share of 0.92. `times`: as in `poolBlocks`.
 */
export function trtllmPoolBlocks(profile: Profile, fraction: number, tokensPerBlock: number, times: number): number {
  const restBytes = profile.tp * (1 - GPU_MEMORY_UTILIZATION) * profile.gpuMemoryBytes;
  return Math.floor(((profile.poolTokens + restBytes / profile.kvBytesPerToken) * fraction * times) / tokensPerBlock);
}

/** Returns the memory of a preset's weights on all its GPUs: the share that the estimated pool leaves. */
export function presetWeightBytes({ tp, gpuMemoryBytes, poolTokens, kvBytesPerToken }: Profile): number {
  return Math.max(0, Math.round(tp * POOL_SHARE * gpuMemoryBytes - poolTokens * kvBytesPerToken));
}

/** Returns the memory that an engine takes on all its GPUs after loading. */
export const engineMemory = (
  profile: Profile,
  { numGpuBlocks, blockSize }: { readonly numGpuBlocks: number; readonly blockSize: number },
): { readonly weightBytes: number; readonly kvBytes: number } => ({
  weightBytes: presetWeightBytes(profile),
  kvBytes: numGpuBlocks * blockSize * profile.kvBytesPerToken,
});
