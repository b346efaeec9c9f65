// Constants and enums that the core with TensorRT-LLM's policies shares with its readers, in addition to ../layout.ts.
// Both compilers read it, too.

/** Policies of the capacity scheduler. MaxRequests applies if there is no KV cache manager. */
export enum CapacityPolicy {
  GuaranteedNoEvict,
  MaxUtilization,
  StaticBatch,
  MaxRequests,
}

export enum ChunkingPolicy {
  FirstComeFirstServed,
  EqualProgress,
}

/**
 * Configuration that vLLM's policy does not have, as doubles that TypeScript writes before `init`. These settings of
 * ../layout.ts are also used: BlockSize (tokens_per_block), NumGpuBlocks (the pool and one more), MaxNumSeqs
 * (max_num_active_requests), MaxNumBatchedTokens (max_num_tokens), MaxModelLen, EnablePrefixCaching
 * (enable_block_reuse), EnableChunkedPrefill, AsyncScheduling (the overlap loop), PriorityPolicy
 * (waiting_queue_policy).
 */
export enum TrtConfig {
  CapacityPolicy,
  ChunkingPolicy,
  MaxBatchSize,
  /** Largest number of requests that may hold KV cache blocks (scheduler_capacity). */
  MaxNumRequests,
  MaxContextLength,
  ChunkUnit,
  /** Length to which a pause cuts a prompt. */
  MaxInputLen,
  PartialReuse,
  CopyOnPartialReuse,
  PrefixAwareScheduling,
  TwoStepLookahead,
  /** Follows the C++ executor: the active list is ordered by priority, and blocks of a paused request are not stored. */
  CppExecutor,
  /** Pages that a LoRA adapter takes, and pages in total. A total of 0 means no limit. */
  PeftPages,
  PeftMaxPages,
  Count,
}

/** Words of 32 bits. The lists hold slots, except for lists of numbers, which run parallel to the list before them. */
export enum TrtWord {
  /** Decisions of the last plan: lengths of the lists below. */
  Fit,
  Paused,
  Contexts,
  Generations,
  /** Tokens counted against max_num_tokens, and whether every context got the whole rest of its prompt. */
  Charged,
  AllFit,
  /** Tokens of the forward pass. */
  ForwardTokens,
  /** Requests that fit, in the order of the capacity scheduler, and the tokens that each is expected to reuse. */
  FitAt,
  FitReusableAt,
  PausedAt,
  /**
   * Contexts in the order of the micro-batch scheduler: position and chunk as scheduled, position and chunk as
   * executed, and tokens trimmed off.
   */
  ContextAt,
  ContextFromAt,
  ContextChunkAt,
  ContextStartAt,
  ContextTakenAt,
  ContextTrimAt,
  GenerationAt,
  /** Lines of the requests: LINE_BYTES each, fields as in LineField. */
  LinesAt,
  /** Priority of each block plus one; 0 means the default priority. */
  LevelsAt,
  Count,
}

/** KV event after a STORED event, if the cache keeps token ids: number of ids, then the ids of its blocks. Other kinds: ../layout.ts. */
export const EVENT_IDS = 4;

/** Cumulative counters of the KV cache manager in blocks, as doubles. */
export enum KvTotal {
  Allocated,
  /** Allocated blocks that were never used before. */
  AllocatedNew,
  Reused,
  Missed,
  /** Partly reused blocks, and how many of these were copied. */
  ReusedPartly,
  Copied,
  /** Blocks allocated for generated tokens. */
  Generated,
  Count,
}

/** Request states with the numbers of `LlmRequestState` in TensorRT-LLM. */
export enum State {
  ContextInit = 10,
  GenerationInProgress = 13,
  GenerationToComplete = 14,
  GenerationComplete = 20,
}

/** State that only these policies need for a request: one cache line, words of 32 bits. */
export const LINE_BYTES = 64;
export enum LineField {
  State,
  Handle,
  Length,
  Flight,
  End,
  Held,
  Room,
  Keep,
  Context,
  Position,
  Whole,
  Reusable,
  Chunk,
}

/** Retention priorities of blocks go from 0 to this. Blocks of lower priority are evicted first. */
export const PRIORITY_MOST = 100;
export const PRIORITY_DEFAULT = 35;

/**
 * Input of `retain` in the input buffer. First a row for generated tokens, of which only priority and duration are
 * used. Then a row per range: first token, first token after the range, priority, duration in ms. NO_TIME as end means
 * to the end of the prompt; as duration, for ever.
 */
export const RANGES_MOST = 16;
export const RANGE_WORDS = 4;
export const NO_TIME = -1;

/** Number of pages for the token ids of all requests, if partial reuse needs them, and the size of a page. */
export const TOKEN_PAGE_BITS = 7;
export const TOKEN_PAGES = 524288;
