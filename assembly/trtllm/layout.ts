// Which numbers do the core of TensorRT-LLM's policies and its readers agree on, beside those of ../layout.ts? Read by two
// compilers, as that is: constants and enums only.

/** Policies of the capacity scheduler. MAX_REQUESTS is the one without a KV cache manager. */
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
 * Words of the configuration that vLLM's policy does not have, doubles that TypeScript writes before `init`. Of ../layout.ts
 * are read: BlockSize (tokens_per_block), NumGpuBlocks (the pool and one more), MaxNumSeqs (max_num_active_requests),
 * MaxNumBatchedTokens (max_num_tokens), MaxModelLen, EnablePrefixCaching (enable_block_reuse), EnableChunkedPrefill,
 * AsyncScheduling (the overlap loop), PriorityPolicy (waiting_queue_policy).
 */
export enum TrtConfig {
  CapacityPolicy,
  ChunkingPolicy,
  MaxBatchSize,
  /** Requests that may hold memory at once (scheduler_capacity). */
  MaxNumRequests,
  MaxContextLength,
  ChunkUnit,
  /** A pause cuts the prompt at this. */
  MaxInputLen,
  PartialReuse,
  CopyOnPartialReuse,
  PrefixAwareScheduling,
  TwoStepLookahead,
  /** The C++ executor's ways: the active list is ordered by priority, and a paused request's blocks are not stored. */
  CppExecutor,
  /** Pages that a LoRA adapter takes, and those there are; 0: no limit. */
  PeftPages,
  PeftMaxPages,
  Count,
}

/** 32-bit words; lists of slots but for those of numbers, which go side by side with the list before them. */
export enum TrtWord {
  /** Decisions of the last plan: how many are in the lists below. */
  Fit,
  Paused,
  Contexts,
  Generations,
  /** Tokens counted against max_num_tokens, and whether all contexts got all of their rest. */
  Charged,
  AllFit,
  /** Tokens of the forward pass. */
  ForwardTokens,
  /** In the order of the capacity scheduler, and the tokens estimated as reusable. */
  FitAt,
  FitReusableAt,
  PausedAt,
  /** Contexts in the micro-batch scheduler's order: position and chunk as scheduled, as executed, tokens trimmed off. */
  ContextAt,
  ContextFromAt,
  ContextChunkAt,
  ContextStartAt,
  ContextTakenAt,
  ContextTrimAt,
  GenerationAt,
  /** Lines of the requests: LINE_BYTES each, fields as in LineField. */
  LinesAt,
  /** By block its priority and one more; 0: the usual one. */
  LevelsAt,
  Count,
}

/** A KV event behind a STORED, where the cache keeps ids: how many, and the tokens of its blocks. Others: ../layout.ts. */
export const EVENT_IDS = 4;

/** Cumulative counters of the KV cache manager, doubles; blocks. */
export enum KvTotal {
  Allocated,
  /** Blocks among them that were never used before. */
  AllocatedNew,
  Reused,
  Missed,
  /** Among the reused: those of which a part was, and of these the ones that were copied. */
  ReusedPartly,
  Copied,
  /** Taken for tokens that were generated. */
  Generated,
  Count,
}

/** As `LlmRequestState` of TensorRT-LLM. */
export enum State {
  ContextInit = 10,
  GenerationInProgress = 13,
  GenerationToComplete = 14,
  GenerationComplete = 20,
}

/** What the policies know of a request: one line of the processor's cache, words of 32 bits. */
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

/** Priorities of blocks go from 0 to this; blocks of a lower one are taken first. */
export const PRIORITY_MOST = 100;
export const PRIORITY_DEFAULT = 35;

/**
 * What `retain` takes in the input buffer: a row for generated tokens (of which only priority and duration count), then one per
 * range: first token, the one after its last, priority, duration in ms. NO_TIME: to the end, and for ever.
 */
export const RANGES_MOST = 16;
export const RANGE_WORDS = 4;
export const NO_TIME = -1;

/** Tokens that requests may hold at once where their ids are kept (partial reuse), in pages. */
export const TOKEN_PAGE_BITS = 7;
export const TOKEN_PAGES = 524288;
