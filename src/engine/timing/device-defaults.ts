/**
 * Defaults that follow from the GPU of the preset: batch sizes and KV pools. Sources: vLLM 0.33, `vllm/engine/arg_utils.py`, API server;
 * TensorRT-LLM 1.3, `llm_args.py`.
 */
import type { Profile } from "./profile.ts";

const GIB = 2 ** 30;

/** vLLM's own default. Estimated pools stand for it: their rule counts `POOL_SHARE`, and the rest is left to activations and graphs. */
export const GPU_MEMORY_UTILIZATION = 0.92;

/** What of the GPUs' memory weights and estimated pool take together. */
const POOL_SHARE = 0.9;

/** vLLM's default on CUDA. */
export const BLOCK_SIZE = 16;

/** Generations whose truth is kept; ours. */
export const TRUTH_REQUESTS = 1000;

export interface BatchDefaults {
  readonly maxNumBatchedTokens: number;
  readonly maxNumSeqs: number;
}

/** By the memory of one GPU; the A100 is kept out of the large tier whatever its memory. */
export function batchDefaults({ gpu, gpuMemoryBytes }: Profile): BatchDefaults {
  if (gpuMemoryBytes >= 160 * GIB) return { maxNumBatchedTokens: 16384, maxNumSeqs: 1024 };
  if (gpuMemoryBytes >= 70 * GIB && gpu !== "a100") return { maxNumBatchedTokens: 8192, maxNumSeqs: 1024 };
  return { maxNumBatchedTokens: 2048, maxNumSeqs: 256 };
}

/**
 * Blocks of the KV pool, the null block included; 0 or less when the weights leave no room. `times`: so many tokens have
 * room where one of 16 bits had.
 */
export function poolBlocks(profile: Profile, gpuMemoryUtilization: number, blockSize: number, times: number): number {
  const moreBytes = profile.tp * (gpuMemoryUtilization - GPU_MEMORY_UTILIZATION) * profile.gpuMemoryBytes;
  return Math.floor(((profile.poolTokens + moreBytes / profile.kvBytesPerToken) * times) / blockSize);
}

/**
 * Returns the number of blocks in TensorRT-LLM's pool. `fraction` is the pool's share of the memory that the weights leave free.
 * The preset's pool is what they leave of 0.92 of the memory. `times`: as in `poolBlocks`.
 */
export function trtllmPoolBlocks(profile: Profile, fraction: number, tokensPerBlock: number, times: number): number {
  const restBytes = profile.tp * (1 - GPU_MEMORY_UTILIZATION) * profile.gpuMemoryBytes;
  return Math.floor(((profile.poolTokens + restBytes / profile.kvBytesPerToken) * fraction * times) / tokensPerBlock);
}

/** What a preset's weights take of its GPUs, all together: what the estimated pool leaves of its share. */
export function presetWeightBytes({ tp, gpuMemoryBytes, poolTokens, kvBytesPerToken }: Profile): number {
  return Math.max(0, Math.round(tp * POOL_SHARE * gpuMemoryBytes - poolTokens * kvBytesPerToken));
}

/** What an engine takes of its GPUs from load on, all together. */
export const engineMemory = (
  profile: Profile,
  { numGpuBlocks, blockSize }: { readonly numGpuBlocks: number; readonly blockSize: number },
): { readonly weightBytes: number; readonly kvBytes: number } => ({
  weightBytes: presetWeightBytes(profile),
  kvBytes: numGpuBlocks * blockSize * profile.kvBytesPerToken,
});
