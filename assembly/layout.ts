// Constants and enums that the core shares with its readers. Two compilers read this file: asc builds the core from it,
// and tsc types the code that reads the core's memory. It uses none of asc's types (i32), because the library's type
// declarations refer to it and its users have only TypeScript. A change of order changes ABI.

export const ABI = 10;
export const NONE = -1;

/** Largest number of requests at once, including waiting requests. A handle is generation << SLOT_BITS | slot. */
export const SLOT_BITS = 16;
export const SLOTS = 65536;
export const GENERATIONS = 32767;

/** Size of the arena in pages. All requests share it for their block entries (hash and block id). */
export const PAGE_BITS = 5;
export const PAGE_BLOCKS = 32;
export const PAGES = 131072;

/** Token ids that TypeScript may feed ahead per request. The outbox asks for more when half of them are used. */
export const FEED = 64;
export const FEED_HALF = 32;
/** Bit of a fed id which means that the next id comes in the same step. A step has at most STEP_TOKENS ids of one request. */
export const FED_MORE = -2147483648;
export const STEP_TOKENS = 32;

/** Size of the ring of open steps, a power of two. The real engine has at most two open steps. */
export const RING = 4;

/** LoRA adapters have numbers from 1 to ADAPTERS - 1. 0 means no adapter. */
export const ADAPTERS = 4096;

/** Number of positions of a template of default text; see text/answers/answers.ts. */
export const TEMPLATE = 32;

/** Configuration, as doubles that TypeScript writes before `init`. */
export enum Config {
  MaxModelLen,
  MaxNumSeqs,
  MaxNumActiveSeqs,
  MaxNumBatchedTokens,
  MaxNumScheduledTokens,
  BlockSize,
  NumGpuBlocks,
  EnablePrefixCaching,
  EnableChunkedPrefill,
  AsyncScheduling,
  PriorityPolicy,
  LongPrefillTokenThreshold,
  LongPrefillTokenThresholdAdaptive,
  PrefillScheduleInterval,
  ReserveFullIsl,
  Watermark,
  MaxLoras,
  EosId,
  KvEvents,
  /** Words of the input buffer. They limit the prompt of one `submit` call. */
  InputLength,
  /** Sizes of the tables that TypeScript fills after `init`. */
  Templates,
  Categories,
  AnswerIds,
  LinearPoints,
  HistogramBounds,
  /** Step times in microseconds; see timing.ts. */
  TimingKind,
  LinearBaseUs,
  LinearPrefillUs,
  LinearDecodeUs,
  PrefillBaseUs,
  PrefillNewUs,
  PrefillPrefixUs,
  PrefillPairsUs,
  DecodeBaseUs,
  DecodeSeqUs,
  DecodeCtxUs,
  SharedBase,
  Scale,
  OverheadUs,
  /** FIX_* bits. */
  Fixes,
  /** Start value of the cumulative counters. Tests start just below 2^31 and 2^32. */
  CountersFrom,
  /** Noise of step times, 0 if off; see noise.ts. Times are whole microseconds. */
  NoiseSeed,
  JitterSigma,
  TailShare,
  TailAlpha,
  PauseEveryUs,
  PauseUs,
  Count,
}

/**
 * Bits that repair defects of vLLM's statistics. FIX_ABORT_COUNTED counts requests whose client disconnected.
 * FIX_ABORT_TIMES keeps aborted requests without output from reporting times since the zero of the machine's clock.
 */
export const FIX_ABORT_COUNTED = 1;
export const FIX_ABORT_TIMES = 2;

/** Largest number of points in a table of step times. */
export const LINEAR_POINTS_MOST = 1024;

/** Limit of the heavy tail: a step takes at most this many times its normal time. */
export const TAIL_MOST = 1000;

export enum TimingKind {
  None,
  Constant,
  Linear,
  Table,
}

/** Words of 32 bits in the core's public memory. Pointers are byte addresses. */
export enum Word {
  Abi,
  Running,
  Waiting,
  Deferred,
  BlocksFree,
  SlotsUsed,
  PagesReserved,
  PauseState,
  /** Result of the last schedule(): step number, rows, rows of requests that ran already, and the lengths of the lists of handles. */
  PlanStep,
  PlanRows,
  PlanAdmitted,
  PlanPreempted,
  PlanUndone,
  PlanRefused,
  PlanReported,
  /** Result of the last update(). */
  OutRows,
  OutLost,
  OutTokens,
  EventWords,
  EventsLost,
  /** Addresses. */
  InputAt,
  RowHandleAt,
  RowTokensAt,
  RowFlagsAt,
  PreemptedAt,
  UndoneAt,
  RefusedAt,
  ReportedAt,
  OutAt,
  TokensAt,
  LostAt,
  EventsAt,
  RunningAt,
  HeapAt,
  WaitHead,
  WaitNextAt,
  /** The request rows: ROW_BYTES each, fields as in Field. */
  RowsAt,
  PreemptionsAt,
  CachedPromptAt,
  CreatedPromptAt,
  DeferredAt,
  PageNextAt,
  PageBlockAt,
  PageHashAt,
  BlocksAt,
  /** Ring of free blocks, from head to before tail, both masked. Holes are 0. */
  FreeQueueAt,
  FreeQueueMask,
  FreeQueueHead,
  FreeQueueTail,
  PriorityAt,
  ArrivalAt,
  SequenceAt,
  TemplatesAt,
  CategoriesAt,
  AnswerIdsAt,
  LinearTokensAt,
  LinearUsAt,
  BoundsAt,
  BucketsAt,
  SumsAt,
  FineAt,
  OutEnds,
  OutEndsAt,
  /** Number of requests by adapter number, ADAPTERS words each. */
  AdapterRunningAt,
  AdapterWaitingAt,
  /** Rows of the last plan that decode, and prompt tokens in its other rows. */
  PlanDecodes,
  PlanPrefillTokens,
  /** Time at which each slot's request was first scheduled, in doubles. */
  ScheduledAt,
  /** Running and waiting requests after the last plan; the fewest free blocks after any plan. */
  PlanRequests,
  BlocksFreeLeast,
  CoastAt,
  /** Address of the arguments of `submit`, doubles: see Submit. */
  SubmitAt,
  Count,
}

/** Row of a request: 32-bit words, the first two fields have 64 bits. A plain decode only touches the first cache line (slots.ts). */
export const ROW_BYTES = 128;
export enum Field {
  OpenHash,
  LastTokenUs = 2,
  Generation = 4,
  Flags,
  InFlight,
  Placeholders,
  Computed,
  QuietUntil,
  Outputs,
  CalmUntil,
  Seed,
  Template,
  FullAt,
  StoreAt,
  Status,
  Prompt,
  Drafts,
  Stale,
  DropStale,
  IsChunk,
  MaxTokens,
  MinTokens,
  EosAt,
  LastOutput,
  TableCount,
  HashCount,
  CachedCount,
  FirstPage,
  LastPage,
  PageCount,
}

/** Arguments and results of `coast`, doubles: times, then steps planned and steps that produced tokens. */
export enum Coast {
  BoundaryUs,
  NextEndUs,
  LastEndUs,
  BusyUs,
  Plans,
  TokenSteps,
  Count,
}

/** Row of a block with content: 32-bit words, the first field has 64 bits. */
export const BLOCK_BYTES = 16;
export enum BlockField {
  Hash,
  Refs = 2,
  Place,
}

/** Cumulative counters, doubles that hold whole numbers. */
export enum Total {
  Steps,
  PromptTokens,
  PromptTokensCached,
  GenerationTokens,
  Preemptions,
  PrefixRequests,
  PrefixQueries,
  PrefixHits,
  PreemptedRequests,
  PreemptedQueries,
  PreemptedHits,
  PrefixResets,
  FinishedStop,
  FinishedLength,
  FinishedAbort,
  FinishedError,
  FinishedRepetition,
  FinishedEngineAbort,
  Submitted,
  /** Preemptions that an output has reported: vLLM counts a preemption with the next output of its request. */
  PreemptionsReported,
  Count,
}

/** Request status, in the order of vLLM 0.33 `v1/request.py`. Free is ours. */
export enum Status {
  Free,
  Waiting,
  Running,
  Preempted,
}

/** Finish reasons: the order of `FinishReason` in vLLM 0.33, then two of ours. */
export enum Reason {
  Stop,
  Length,
  Abort,
  Error,
  Repetition,
  /** Abort by the engine (a pause). vLLM counts it, unlike an abort by a client. Not in the outbox. */
  EngineAbort,
  /** Error by the scheduler, for a token that the grammar rejects. It is reported together with the token. Not in the outbox. */
  Rejected,
}

export enum Pause {
  Unpaused,
  PausedNew,
  PausedAll,
}

/** Number of words of an outbox row; `OutWord` names them. */
export const OUT_WORDS = 4;
/** Mask of the finish reason plus one in an outbox row's flags. Other flags are above it. */
export const OUT_REASON = 7;
/** Set for the first output of a request: its prefill statistics are ready. */
export const OUT_FIRST = 8;
/** Set if a stop token id ended the request (not the end-of-sequence id). */
export const OUT_STOP_ID = 16;
/** Set if fed ids run low: TypeScript must feed FEED_HALF more before they are used up. */
export const OUT_FEED = 32;

/** Flag of a planned row: the row yields a token. The bits above it hold the number of blocks that the row took. */
export const ROW_SAMPLES = 1;

/** Arguments of `submit` besides the input buffer, as doubles. TypeScript writes them before the call. Times are microseconds. */
export enum Submit {
  /** Words of the prompt in the input buffer: token ids, or with SUBMIT_HASHED the hashes of its full blocks (lo, hi). */
  PromptWords,
  PromptTokens,
  MaxTokens,
  MinTokens,
  /** Number of the output token that is the end-of-sequence id, counted from 1. 0 means never. */
  EosAt,
  Seed,
  Priority,
  /** Number of the request's LoRA adapter, 0 for none. */
  Adapter,
  SaltLo,
  SaltHi,
  Flags,
  /** Breaks ties of priority and arrival time, like the request id in vLLM. Unique. */
  Order,
  ArrivalUs,
  QueuedUs,
  /** Number of stop ids, which follow the prompt in the input buffer. */
  Stops,
  Count,
}

/** Flags of `submit`. */
export const SUBMIT_FED = 1;
export const SUBMIT_SKIP_READING = 2;
/** The input holds 64-bit block hashes (lo, hi) instead of token ids. */
export const SUBMIT_HASHED = 4;
export const SUBMIT_IGNORE_EOS = 8;
/** Set by the core: the request has stop ids. */
export const SUBMIT_STOPS = 16;
/** With SUBMIT_HASHED: no reader needs the output ids. The core draws none, writes NONE for each, and never shares the blocks of the output. */
export const SUBMIT_UNREAD = 32;
/** The request is not ready, for example because its grammar is not compiled. It is not admitted before `unblock`, which clears the bit. */
export const SUBMIT_BLOCKED = 64;
/** The request is one of several choices of a prompt. The caller reports the whole prompt with `observeChoices` after all choices have ended. */
export const SUBMIT_CHOICE = 128;
/** Another instance computes the prompt, at no cost here. After a preemption it is computed here, and the core clears the bit. */
export const SUBMIT_ELSEWHERE = 256;

/** Kinds of KV events. STORED: slot, first block, count, parent (lo, hi), (lo, hi) per block. REMOVED: block, lo, hi. */
export enum Event {
  Stored = 1,
  Removed = 2,
  Cleared = 3,
}

/** Histograms of the core, in the order of memory. */
export enum Histogram {
  TimeToFirstToken,
  InterTokenLatency,
  E2eLatency,
  QueueTime,
  PrefillTime,
  DecodeTime,
  InferenceTime,
  TimePerOutputToken,
  PromptTokens,
  GenerationTokens,
  MaxTokens,
  IterationTokens,
  /** Preemptions that outputs have reported. */
  RequestPreemptions,
  /** Prompt tokens that were not in the prefix cache. */
  PrefillComputed,
  /** Number of choices (n) of a prompt, and tokens of its longest choice. Observed once per prompt. */
  RequestChoices,
  LongestChoice,
  Count,
}
/** Largest number of bounds of a histogram. The bounds start at histogram * HISTOGRAM_WIDTH, and so do the buckets (one more than bounds). */
export const HISTOGRAM_WIDTH = 64;

// Each histogram also counts in finer buckets, for percentiles. Whole values below 2^FINE_BITS have a bucket each.
// Above, each power of two has 2^FINE_BITS buckets of equal width, so a bucket's middle is within 0.4 % of its values.
// The last bucket takes values from 2^FINE_TOP. The counts start at histogram * FINE_WIDTH.
export const FINE_BITS = 7;
export const FINE_TOP = 47;
export const FINE_WIDTH = 5248; // (FINE_TOP - FINE_BITS + 1) << FINE_BITS
