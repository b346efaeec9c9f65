/** Options of TensorRT-LLM's schedulers and their defaults (`llm_args.py`, 1.3 line). */

/** MAX_REQUESTS is TensorRT-LLM's policy for models without a KV cache. */
export const CAPACITY_POLICIES = ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH", "MAX_REQUESTS"] as const;
export const CHUNKING_POLICIES = ["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"] as const;

/** Options that vLLM's policy does not have. Limits, blocks and reuse are in the fields of `EngineConfig`. */
export interface TrtllmConfig {
  /** Policy that admits requests. */
  readonly capacitySchedulerPolicy: (typeof CAPACITY_POLICIES)[number];
  /** Policy that divides an iteration among prompts. */
  readonly contextChunkingPolicy: (typeof CHUNKING_POLICIES)[number];
  /** Largest length of the prompt of a paused request. Tokens beyond it are computed again. */
  readonly maxInputLen: number;
  /** True if blocks with the same beginning are reused for the equal tokens. */
  readonly enablePartialReuse: boolean;
  /** True if this includes blocks that other requests hold or that have followers. They are copied. */
  readonly copyOnPartialReuse: boolean;
  /** True if requests wait for blocks that another request with the same beginning computes, and if cached blocks count at admission. */
  readonly enablePrefixAwareScheduling: boolean;
}

/** Records of TensorRT-LLM's iterations, requests and KV cache. Names as in TensorRT-LLM's `LlmArgs`. */
export interface IterationsConfig {
  /** True if `/prometheus/metrics` exists and `/perf_metrics` may have records. */
  readonly returnPerfMetrics: boolean;
  /** Largest number of requests in `/perf_metrics`. 0: none. */
  readonly perfMetricsMaxRequests: number;
  /** True if `/metrics` has records of iterations. */
  readonly enableIterPerfStats: boolean;
  /** True if these records also list each request. */
  readonly enableIterReqStats: boolean;
  /** Largest number of records that wait for a reader. Older records are dropped. */
  readonly iterStatsMaxIterations: number;
  /** Largest number of KV cache events that wait for a reader. 0: none are recorded. */
  readonly eventBufferMaxSize: number;
}

export const TRTLLM_DEFAULTS = {
  maxBatchSize: 2048,
  maxNumTokens: 8192,
  tokensPerBlock: 32,
  /** Share of the memory that is free after loading the weights. */
  freeGpuMemoryFraction: 0.9,
} as const;
