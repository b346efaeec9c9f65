/** What can TensorRT-LLM's schedulers be told, and what does the product say where nobody does? (`llm_args.py`, 1.3 line) */

/** MAX_REQUESTS is what the product does for models without a KV cache. */
export const CAPACITY_POLICIES = ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH", "MAX_REQUESTS"] as const;
export const CHUNKING_POLICIES = ["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"] as const;

/** What vLLM's policy does not have. Limits, blocks and reuse stand where they do for vLLM, see `EngineConfig`. */
export interface TrtllmConfig {
  /** Whom admission lets run. */
  readonly capacitySchedulerPolicy: (typeof CAPACITY_POLICIES)[number];
  /** How prompts share an iteration. */
  readonly contextChunkingPolicy: (typeof CHUNKING_POLICIES)[number];
  /** A pause makes no prompt longer than this; what is cut off is computed again. */
  readonly maxInputLen: number;
  /** Blocks that begin alike are reused as far as they are alike. */
  readonly enablePartialReuse: boolean;
  /** Also of blocks that others hold or that have followers: these are copied. */
  readonly copyOnPartialReuse: boolean;
  /** Requests wait for the blocks of others that begin alike, and cached blocks count at admission. */
  readonly enablePrefixAwareScheduling: boolean;
}

/** What is recorded of the iterations of TensorRT-LLM's schedulers, of requests and of the KV cache. Names as in the product's `LlmArgs`. */
export interface IterationsConfig {
  /** `/prometheus/metrics` is there, and `/perf_metrics` may hold something. */
  readonly returnPerfMetrics: boolean;
  /** Requests that `/perf_metrics` keeps; 0: none. */
  readonly perfMetricsMaxRequests: number;
  /** `/metrics` tells of iterations. */
  readonly enableIterPerfStats: boolean;
  /** Records of iterations tell of each request, too. */
  readonly enableIterReqStats: boolean;
  /** Records that wait for a reader; older ones are dropped. */
  readonly iterStatsMaxIterations: number;
  /** Events of the KV cache that wait for a reader; 0: none are noted. */
  readonly eventBufferMaxSize: number;
}

export const TRTLLM_DEFAULTS = {
  maxBatchSize: 2048,
  maxNumTokens: 8192,
  tokensPerBlock: 32,
  /** Share of the memory that is free when the weights are loaded. */
  freeGpuMemoryFraction: 0.9,
} as const;
