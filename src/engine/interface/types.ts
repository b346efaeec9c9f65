/** Types that other code uses of the engine. Times are microseconds of the engine's clock in doubles. Ids and counts are whole numbers. */
import type { Histogram } from "../../../assembly/layout.ts";
import type { Lane, LaneEnd } from "./lanes.ts";
import type {
  ADAPTER_NUMBERS,
  ENGINE_NUMBERS,
  FRONT_NUMBERS,
  LOOP_HISTOGRAMS,
  LOOP_NUMBERS,
  NumbersOf,
  OUTCOMES,
  ToolLook,
  TRUTH_NUMBERS,
} from "./numbers.ts";

/** Reason for a request's end. Numbers and order as `FinishReason` of vLLM 0.33 (`v1/engine/__init__.py`). */
export enum Finish {
  /** End-of-sequence, or a stop token or stop string. */
  Stop = 0,
  /** The limit of tokens, or the end of the context. */
  Length = 1,
  /** The client disconnected, or the request was cancelled. */
  Abort = 2,
  /** The engine failed the request. */
  Error = 3,
  /** A repeated pattern. */
  Repetition = 4,
}

/** One sequence to generate, independent of the API. A request with `n` choices is `n` generations. */
export interface Generation {
  /** Name of the request in the truth log. Absent: the order of submission. */
  readonly id?: string;
  /** Token ids of the prompt, at least one. Not kept after `submit` returns, unless the request is held before the queue. */
  readonly promptIds: Uint32Array;
  /** If set, the prompt's length. `promptIds` then holds a hash of two words (low, high) per full block. */
  readonly promptTokens?: number;
  /** Limit of output tokens, at least 1. */
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  /**
   * Number of the output token that is end-of-sequence, counted from 1, drawn by text/answers/output-lengths.ts. null:
   * it runs to `maxTokens`.
   */
  readonly plannedTokens: number | null;
  /** Ids that end the answer, besides the end-of-sequence id. */
  readonly stopTokenIds: readonly number[];
  /** 32-bit seed of text and length. The same seed gives the same answer at any load. */
  readonly seed: number;
  /** Smaller values run first under `--scheduling-policy priority`. */
  readonly priority: number;
  /** Equal prompts with different salts share no blocks. "" means no salt. */
  readonly cacheSalt: string;
  readonly skipReadingPrefixCache: boolean;
  /** True if the request is not ready, for example because its grammar is not compiled. It is not admitted before `Submission.release`. */
  readonly blocked?: boolean;
  /** Number of the LoRA adapter, from 1 to ADAPTERS_MOST (base/core-limits.ts). Absent or 0: none. */
  readonly adapter?: number;
  /** Rank of the engine that must run it. Absent: the balancing chooses. */
  readonly rank?: number;
  /** Set if the prompt has several choices. */
  readonly choices?: Choices;
  /** True if the request came from `/v1/responses`. */
  readonly ofResponses?: true;
  /** Time when the request reached the server. TTFT counts from here. */
  readonly arrivalUs: number;
  /** Time when the conversion of its prompt to ids started. Absent: at its arrival. */
  readonly encodedFromUs?: number;
  /**
   * Set if another instance computed the prompt: the time to hold the request before the queue, instead of the request
   * overhead. The prompt does not lengthen steps.
   */
  readonly transferUs?: number | undefined;
  /**
   * The whole answer if it is known in advance (tests, scripted content). Absent: the engine draws it. An id with the
   * bit SAME_STEP comes in one step with the id after it. At most STEP_IDS_MOST ids make a step (base/core-limits.ts).
   */
  readonly script?: TokenSource;
}

/** Ids that are read from front to back, a few at a time: a list, or a source that computes them on demand. */
export interface TokenSource {
  readonly length: number;
  subarray(from: number, to: number): Uint32Array;
}

/** The choices of one prompt, shared by their generations. They are counted as one request after the last has ended. */
export interface Choices {
  readonly count: number;
  left: number;
  /** Tokens of the longest choice so far. */
  longest: number;
}

/** The front end's receiver of one generation. The loop calls it at most once per step, never per token. */
export interface Receiver {
  /** True if only the call with `finish` is needed, so that the engine does nothing per token. Ignored with a script. */
  readonly endsOnly?: boolean;
  /** True if a client sees its tokens one by one. */
  readonly streams?: boolean;
  /** True if no client sees any output, or its time, before the end. */
  readonly gathers?: boolean;
  /** Bytes of the answer given to the socket so far. The truth log reads it one turn of the event loop after the end. */
  readonly bytes?: number;
  /**
   * Delivers `count` (>= 0) new token ids, in `ids` from index `at` on. `ids` is the engine's buffer, valid during the
   * call. `finish` is null while the generation runs. `stopTokenId` is the id of `stopTokenIds` that ended it, or -1. A
   * call with `finish` is the last call.
   */
  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;
  /**
   * Breaks the answer off after `onTokens` threw and the generation has ended. The last call. Absent: `onTokens` is
   * called once more, with an error as finish.
   */
  broken?(): void;
  /** Reports tokens, and bytes with them, that were sent through the lane. */
  went?(tokens: number, bytes: number): void;
}

/** A generation that the engine accepted. */
export interface Submission {
  /** The client disconnected. Slot and blocks are free within one step, and the receiver is not called again. */
  cancel(): void;
  /**
   * The front end ended the generation (stop string found). Counts it with this reason and `tokens` output tokens. The
   * receiver is not called again.
   */
  finish(reason: Finish, tokens: number): void;
  /** Like `finish` with an error of the scheduler, which came with the last token because the grammar does not allow it. */
  reject?(tokens: number): void;
  /** Lets a `blocked` generation be admitted from the next plan on. It keeps its place in the queue. */
  release(): void;
  /**
   * Returns a lane that sends plain tokens of `receiver` to `line` once it is opened. Returns null if there is none;
   * the receiver then gets each token.
   */
  lane?(receiver: Receiver, line: LaneEnd, prefix: Uint8Array, suffix: Uint8Array): Lane | null;
  /** Reports to the receiver what its lane has sent. */
  settle?(): void;
  /** Prompt tokens found in the prefix cache at the first admission. Known after the first token. */
  readonly cachedTokens: number;
  /** Time of the first admission. Known after the first token. */
  readonly scheduledUs?: number;
  /** Times and counts so far. null if no observer watches the engine. */
  readonly timeline?: TimelineFacts | null;
}

/** Times and counts of a generation so far, for an observed engine. Times are NaN if the event has not happened. */
export interface TimelineFacts {
  readonly id: string;
  readonly arrivalUs: number;
  readonly queuedUs: number;
  readonly scheduledUs: number;
  /** Due time of the first token's step. */
  readonly prefillEndUs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly preemptions: number;
  /** Time, time of re-admission (NaN: not yet) and cached tokens of each preemption that is kept. */
  readonly preempted: readonly number[];
  /** As of the last `settleLate`. */
  readonly lateSteps: number;
  readonly rebasedUs: number;
  /** Due time of the step whose tokens are being delivered. */
  readonly stepDueUs: number;
  settleLate(): void;
}

/** Reason for refusing a generation. Nothing was kept. */
export interface Refusal {
  readonly refused: "busy" | "paused";
}

/** Bounds and counts of one histogram. `buckets[i]` only counts values of its own bucket (not cumulative); the last is +Inf. */
export interface HistogramSnapshot {
  /** Rising upper bounds of all buckets except the last, in seconds or as a count. */
  readonly bounds: readonly number[];
  /** Observations in each bucket, one more than bounds. */
  readonly buckets: readonly number[];
  /** Sum of all observations, in the unit of the bounds. */
  readonly sum: number;
  /** Number of all observations. */
  readonly count: number;
}

/** A live histogram. It changes, and reading it copies nothing. */
export interface HistogramView extends Omit<HistogramSnapshot, "buckets"> {
  readonly buckets: ArrayLike<number>;
}

/** Names of the core's histograms. Time histograms are in seconds. */
export type HistogramName = Uncapitalize<Exclude<keyof typeof Histogram, "Count">>;

/** A histogram for percentiles: counts by fine bucket, in microseconds or tokens. `fineMiddle` returns the buckets' values. */
export interface FineHistogram {
  readonly counts: Float64Array;
  readonly sum: number;
}

/** Requests of one LoRA adapter. */
export interface AdapterSnapshot extends NumbersOf<typeof ADAPTER_NUMBERS> {}

/** A copy of one engine's numbers at the end of a step. Counters count from the start. */
export interface EngineSnapshot extends NumbersOf<typeof ENGINE_NUMBERS> {
  /** By `Finish`. Includes all aborts, by client or engine. */
  readonly finished: readonly [number, number, number, number, number];
  /** Histograms of `/metrics`. */
  readonly histograms: Readonly<Record<HistogramName, HistogramSnapshot>>;
  /** By adapter number minus one. */
  readonly adapters: readonly AdapterSnapshot[];
  /** Counts of a request meter, which only its reader interprets. Empty without a meter. */
  readonly meters: ArrayLike<number>;
}

/** Live numbers of one engine. Reading copies nothing. */
export interface EngineView extends Omit<EngineSnapshot, "finished" | "histograms"> {
  readonly finished: ArrayLike<number>;
  readonly histograms: Readonly<Record<HistogramName, HistogramView>>;
}

type LoopHistograms<T> = Readonly<Record<(typeof LOOP_HISTOGRAMS)[number], T>>;

/** Lateness of the loop in seconds: the wall time of an event minus its due time. */
export interface LoopSnapshot extends NumbersOf<typeof LOOP_NUMBERS>, LoopHistograms<HistogramSnapshot> {}

/** Live lateness of the loop. Reading copies nothing. */
export interface LoopView extends NumbersOf<typeof LOOP_NUMBERS>, LoopHistograms<HistogramView> {}

/** Counts of the HTTP middleware: `HTTP_WIDTH` numbers per route (metrics/rows/http-counts.ts), and the durations of all requests in seconds. */
export interface HttpSnapshot {
  readonly routes: ArrayLike<number>;
  readonly duration: HistogramSnapshot;
}
/** Live counts of the HTTP middleware. Reading copies nothing. */
export interface HttpView {
  readonly routes: ArrayLike<number>;
  readonly duration: HistogramView;
}

/** Numbers from outside the core. Every request is counted exactly once by its outcome. */
export interface FrontSnapshot extends NumbersOf<typeof FRONT_NUMBERS> {
  readonly outcomes: Readonly<Record<Outcome, number>>;
  readonly toolLooks: Readonly<Record<ToolLook, number>>;
  /** Answers on which each fault acted, by the fault's id. */
  readonly faults: Readonly<Record<string, number>>;
  readonly http: HttpSnapshot;
}

export type Outcome = (typeof OUTCOMES)[number];

/** Losses of a truth log. */
export interface TruthDropped extends NumbersOf<typeof TRUTH_NUMBERS> {}

export interface Snapshot {
  readonly engines: readonly EngineSnapshot[];
  readonly loop: LoopSnapshot;
  readonly front: FrontSnapshot;
  /** Set while a truth log is written. */
  readonly truth?: TruthDropped;
}

/** Live numbers from outside the core. Reading copies nothing. */
export interface FrontView extends Omit<FrontSnapshot, "http"> {
  readonly http: HttpView;
}

/** All live numbers, from which snapshot copies are written. Any `Snapshot` is also a view. */
export interface SnapshotView {
  readonly engines: readonly EngineView[];
  readonly loop: LoopView;
  readonly front: FrontView;
  readonly truth?: TruthDropped;
}
