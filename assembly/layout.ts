// Which numbers do the core and its readers agree on? Read by two compilers: asc builds the core from it, tsc reads memory
// through it. Constants and enums only, and none of asc's types (i32): the library's declarations refer to this file, and who
// uses them has TypeScript alone. A change of order changes ABI.

export const ABI = 10;
export const NONE = -1;

/** Requests that may exist at once, waiting ones included; a handle is generation << SLOT_BITS | slot. */
export const SLOT_BITS = 16;
export const SLOTS = 65536;
export const GENERATIONS = 32767;

/** The arena of block entries (hash and block id) that all requests share, in pages. */
export const PAGE_BITS = 5;
export const PAGE_BLOCKS = 32;
export const PAGES = 131072;

/** Ids fed ahead per request; the outbox asks for more when half is used. */
export const FEED = 64;
export const FEED_HALF = 32;
/** Bit of a fed id: the id after it comes in the same step. At most STEP_TOKENS ids make a step. */
export const FED_MORE = -2147483648;
export const STEP_TOKENS = 32;

/** Steps that may be open at once, rounded up to a power of two; the real engine has two. */
export const RING = 4;

/** LoRA adapters have numbers below this, from 1; 0 is none. */
export const ADAPTERS = 4096;

/** Positions of one template of default text; see text/answers/answers.ts. */
export const TEMPLATE = 32;

/** Words of the configuration, doubles that TypeScript writes before `init`. */
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
  /** Entries of the input buffer: the longest prompt that one call may bring. */
  InputLength,
  /** Sizes of the tables that TypeScript fills after `init`. */
  Templates,
  Categories,
  AnswerIds,
  LinearPoints,
  HistogramBounds,
  /** Timing, microseconds: see timing.ts. */
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
  /** Cumulative counters start here (tests start just below 2^31 and 2^32). */
  CountersFrom,
  /** How steps stray from their formula, 0 where they do not: see noise.ts. Times in whole microseconds. */
  NoiseSeed,
  JitterSigma,
  TailShare,
  TailAlpha,
  PauseEveryUs,
  PauseUs,
  Count,
}

/** Defects of vLLM's statistics that are repaired: clients that left are counted; aborts of requests without output have no times from the clock's zero. */
export const FIX_ABORT_COUNTED = 1;
export const FIX_ABORT_TIMES = 2;

/** Points of a table of step times. */
export const LINEAR_POINTS_MOST = 1024;

/** Longest step of the heavy tail, as a multiple of what it would have been. */
export const TAIL_MOST = 1000;

export enum TimingKind {
  None,
  Constant,
  Linear,
  Table,
}

/** 32-bit words of the core's public face; pointers are byte addresses. */
export enum Word {
  Abi,
  Running,
  Waiting,
  Deferred,
  BlocksFree,
  SlotsUsed,
  PagesReserved,
  PauseState,
  /** Plan of the last schedule(): row count, first admitted row, and the lists beside it. */
  PlanStep,
  PlanRows,
  PlanAdmitted,
  PlanPreempted,
  PlanUndone,
  PlanRefused,
  PlanReported,
  /** Outcome of the last update(). */
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
  /** The ring of free blocks, holes (0) among them: from head to before tail, masked. */
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
  /** Requests by adapter number, ADAPTERS each. */
  AdapterRunningAt,
  AdapterWaitingAt,
  /** Rows of the last plan that decode, and prompt tokens in its other rows. */
  PlanDecodes,
  PlanPrefillTokens,
  /** When each slot's request was first scheduled, doubles. */
  ScheduledAt,
  /** Requests that ran or waited when the plan was done; the fewest free blocks after any plan. */
  PlanRequests,
  BlocksFreeLeast,
  CoastAt,
  /** What `submit` reads, doubles: see Submit. */
  SubmitAt,
  Count,
}

/** A request's row, words of 32 bits, the first two fields have 64; a plain decode touches the first cache line alone (slots.ts). */
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

/** What `coast` is given and gives, doubles: times, then what it planned and how many of the steps taken in gave tokens. */
export enum Coast {
  BoundaryUs,
  NextEndUs,
  LastEndUs,
  BusyUs,
  Plans,
  Given,
  Count,
}

/** The row of a block with content: words of 32 bits, the first field has 64. */
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
  /** Preemptions that outputs have told of: vLLM counts them with the request's next output. */
  PreemptionsTold,
  Count,
}

/** Request status; order as in vLLM 0.33 `v1/request.py`, FREE is ours. */
export enum Status {
  Free,
  Waiting,
  Running,
  Preempted,
}

/** As `FinishReason` of vLLM 0.33. */
export enum Reason {
  Stop,
  Length,
  Abort,
  Error,
  Repetition,
  /** An abort that the engine decided (a pause): unlike a client that left, vLLM counts it. Not in the outbox. */
  EngineAbort,
  /** An error of the scheduler's own, for a token that a grammar rejects: told with the token's output. Not in the outbox. */
  Rejected,
}

export enum Pause {
  Unpaused,
  PausedNew,
  PausedAll,
}

/** Row of the outbox: slot, index of its first token in the token column, tokens, flags. */
export const OUT_WORDS = 4;
/** Outbox flags: the reason plus one in the low bits; others above. */
export const OUT_REASON = 7;
/** The first output of the request: prefill statistics are ready. */
export const OUT_FIRST = 8;
/** A stop token id ended it (not end-of-sequence). */
export const OUT_STOP_ID = 16;
/** The request runs out of fed ids: FEED_HALF more are wanted before its next token. */
export const OUT_FEED = 32;

/** Flags of a planned row: bit 0 = yields a token; above it the number of blocks the row took. */
export const ROW_SAMPLES = 1;

/** What `submit` takes besides the input buffer, doubles that TypeScript writes before the call; times in microseconds. */
export enum Submit {
  /** Words of the prompt in the input buffer: token ids, or with SUBMIT_HASHED (lo, hi) of the full blocks' hashes. */
  PromptWords,
  PromptTokens,
  MaxTokens,
  MinTokens,
  /** Output position of the end-of-sequence id, 0 for never. */
  EosAt,
  Seed,
  Priority,
  /** Number of its LoRA adapter, 0 for none. */
  Adapter,
  SaltLo,
  SaltHi,
  Flags,
  /** Decides between equal priority and arrival, as the request id does in the real engine; unique. */
  Order,
  ArrivalUs,
  QueuedUs,
  /** Stop ids in the input buffer, behind the prompt. */
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
/** With SUBMIT_HASHED: nobody reads the output, so its ids are not drawn (NONE stands for each), and its blocks are its own. */
export const SUBMIT_UNREAD = 32;
/** Waits for something of its own (a grammar that is not compiled): nobody admits it before `unblock`, which clears the bit. */
export const SUBMIT_BLOCKED = 64;
/** One of several choices of a prompt: who submits them observes the prompt when all have ended (`observeChoices`). */
export const SUBMIT_CHOICE = 128;
/** Prompt computed elsewhere: no step is longer by it. Once preempted it is computed here, and the core clears the bit. */
export const SUBMIT_ELSEWHERE = 256;

/** Words of a KV event: kind, then STORED: slot, first block, count, parent lo, hi, and lo, hi per block; REMOVED: block, lo, hi. */
export enum Event {
  Stored = 1,
  Removed = 2,
  Cleared = 3,
}

/** Histograms of the core, in this order in memory. */
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
  /** Preemptions that outputs have told of. */
  RequestPreemptions,
  /** Prompt tokens that no cache had. */
  PrefillComputed,
  /** Choices (n) and the longest choice, observed once per prompt. */
  RequestChoices,
  LongestChoice,
  Count,
}
/** Bounds that one histogram may have; its bounds, then one bucket more than bounds, lie at histogram * HISTOGRAM_WIDTH. */
export const HISTOGRAM_WIDTH = 64;

// Beside its printed buckets each histogram counts finely, for percentiles: whole values below 2^FINE_BITS each have a bucket,
// above it each power of two has 2^FINE_BITS of equal width: a bucket's middle is within 0.4 % of its values. The last one
// takes 2^FINE_TOP and more. Its counts lie at histogram * FINE_WIDTH.
export const FINE_BITS = 7;
export const FINE_TOP = 47;
export const FINE_WIDTH = 5248; // (FINE_TOP - FINE_BITS + 1) << FINE_BITS
