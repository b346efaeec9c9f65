/** Labels of `vllm:cache_config_info`: one per field of vLLM 0.33's `config/cache.py`, as Python text. */
import type { MetricsSource } from "../config/metrics-source.ts";
import { type Labels, pythonRepr } from "../rows/text.ts";

const DEFAULT_BLOCK_SIZE = 16;
const bool = (value: boolean) => (value ? "True" : "False");

/**
 * Returns all labels except `engine`. Fields that only the engine's process resolves (`kv_cache_layout`,
 * `hash_block_size`, `cache_hit_alignment_tokens`, `num_cpu_blocks`) are None, as in the API server's process.
 */
export function cacheConfigLabels(config: MetricsSource): Labels {
  const {
    engine,
    dataParallelSize,
    workers,
    deployment: { gpuMemoryUtilization, kvCacheDtype = "auto", numGpuBlocksOverride },
  } = config;
  const { blockSize, numGpuBlocks, maxModelLen, enablePrefixCaching } = engine;
  return {
    _block_size_resolved: "True",
    block_size: `${blockSize}`,
    cache_dtype: kvCacheDtype,
    cache_hit_alignment_tokens: "None",
    effective_attention_block_size: `${blockSize}`,
    enable_mamba_shared_prefix_checkpoint: "False",
    enable_prefix_caching: bool(enablePrefixCaching),
    gpu_memory_utilization: pythonRepr(gpuMemoryUtilization),
    hash_block_size: "None",
    is_attention_free: "False",
    kv_cache_dtype_skip_layers: "[]",
    kv_cache_layout: "None",
    kv_cache_max_concurrency: pythonRepr(numGpuBlocks / Math.ceil(maxModelLen / blockSize)),
    kv_cache_memory_bytes: "None",
    kv_cache_size_tokens: `${numGpuBlocks * blockSize}`,
    kv_offloading_backend: "native",
    kv_offloading_size: "None",
    kv_sharing_fast_prefill: "False",
    mamba_block_size: "None",
    mamba_cache_dtype: "auto",
    mamba_cache_mode: "none",
    mamba_page_size_padded: "None",
    mamba_ssm_cache_dtype: "auto",
    num_cpu_blocks: "None",
    // Blocks of all engines together, unlike the other numbers.
    num_gpu_blocks: `${numGpuBlocks * dataParallelSize * workers}`,
    num_gpu_blocks_override: numGpuBlocksOverride === null ? "None" : `${numGpuBlocksOverride}`,
    prefix_cache_retention_interval: "0",
    prefix_caching_hash_algo: "sha256",
    prefix_match_unit: "None",
    replayssm_buffer_len: "16",
    simple_cpu_offload_num_blocks: "None",
    skip_page_size_padded: "None",
    sliding_window: "None",
    swa_bounded_replay: "True",
    use_kda_recoverssm: "False",
    use_replayssm: "False",
    user_specified_block_size: bool(blockSize !== DEFAULT_BLOCK_SIZE),
  };
}
