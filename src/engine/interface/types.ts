/**
 * What the layers above the engine see of it, and what it asks of them. Types only.
 * Times are microseconds on the engine's clock, held in doubles; ids and counts are whole numbers.
 */
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

/** Why a request ended; numbers and order as `FinishReason` of vLLM 0.33 (`v1/engine/__init__.py`). */
export enum Finish {
  /** An end of sequence, or a token or text that stops it. */
  Stop = 0,
  /** The limit of tokens, or the end of the context. */
  Length = 1,
  /** The client left, or somebody took it back. */
  Abort = 2,
  /** The engine gave it up. */
  Error = 3,
  /** A repeated pattern. */
  Repetition = 4,
}

/** One sequence to generate, free of any dialect. A request with `n` choices is `n` generations. */
export interface Generation {
  /** The request's name in the truth log, when there is one; the order of submission else. */
  readonly id?: string;
  /** Token ids of the prompt, at least one. Not kept after `submit` returns, but where requests are held back (request overhead). */
  readonly promptIds: Uint32Array;
  /** When given, the prompt's length: `promptIds` then holds two words (low, high) per full block, what identifies its content. */
  readonly promptTokens?: number;
  /** Resolved limit of output tokens, at least 1. */
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  /** Output position (1-based) at which the model says end-of-sequence: drawn by text/answers/answers.ts; null: it runs to `maxTokens`. */
  readonly plannedTokens: number | null;
  /** Ids that end the answer besides the end-of-sequence id. */
  readonly stopTokenIds: readonly number[];
  /** 32-bit seed of text and length: same seed, same answer, whatever the load. */
  readonly seed: number;
  /** Smaller runs first under `--scheduling-policy priority`. */
  readonly priority: number;
  /** Equal prompts with different salts share no blocks; "" is none. */
  readonly cacheSalt: string;
  readonly skipReadingPrefixCache: boolean;
  /**
   * The request waits for something of its own (a grammar that is not compiled) and is not admitted before
   * `Submission.release`.
   */
  readonly blocked?: boolean;
  /** Number of its LoRA adapter, from 1 to ADAPTERS_MOST (base/core-limits.ts); absent or 0: none. */
  readonly adapter?: number;
  /** The engine that must take it, by its place in the fleet; absent: whichever the balancing picks. */
  readonly rank?: number;
  /** Where the prompt has several choices. */
  readonly choices?: Choices;
  /** True if `/v1/responses` asked for it; absent: another route did. */
  readonly ofResponses?: true;
  /** When the request reached the server; its TTFT counts from here. */
  readonly arrivalUs: number;
  /** When making its prompt into ids began; absent: at its arrival. */
  readonly encodedFromUs?: number;
  /**
   * How long a request whose prompt was computed elsewhere is held back before the queue, in place of the request
   * overhead. Steps are not longer by that prompt.
   */
  readonly transferUs?: number | undefined;
  /**
   * The whole answer when it is known beforehand (tests, scripted content); else the engine draws it. An id with the bit
   * SAME_STEP comes in one step with the id after it; at most STEP_IDS_MOST ids make a step (base/core-limits.ts).
   */
  readonly script?: TokenSource;
}

/** Ids that are read from front to back, a few at a time; a list of them, or something that makes them then. */
export interface TokenSource {
  readonly length: number;
  subarray(from: number, to: number): Uint32Array;
}

/** The choices that are made of one prompt, shared by their generations: counted as one when the last has ended. */
export interface Choices {
  readonly count: number;
  left: number;
  /** Tokens of the longest so far. */
  longest: number;
}

/** The front's end of one generation. The loop calls it at most once per step, never per token. */
export interface Receiver {
  /** Only the call with `finish` is wanted: the engine then does nothing per token. Without effect where there is a script. */
  readonly endsOnly?: boolean;
  /** What it gets goes out token by token. */
  readonly streams?: boolean;
  /** Nobody sees anything of what it gets, nor when it came, before its end. */
  readonly gathers?: boolean;
  /** Bytes of the answer handed to the socket so far; the truth log reads it a turn of the event loop after the end. */
  readonly bytes?: number;
  /**
   * `count` (>= 0) new token ids stand in `ids` from `at` on; `ids` is the engine's own buffer, valid during the call.
   * `finish` is null while the generation runs. `stopTokenId` is the id of `stopTokenIds` that ended it, or -1.
   * After a call with `finish` the receiver is not called again.
   */
  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;
  /**
   * `onTokens` threw, and the generation has ended: breaks the answer off. Not called again after that. Absent: `onTokens`
   * is called once more, with an error as finish.
   */
  broken?(): void;
  /** So many plain tokens went by its lane, and so many bytes with them. */
  went?(tokens: number, bytes: number): void;
}

/** A generation that the engine took. */
export interface Submission {
  /** The client left: slot and blocks are free within one step; the receiver is not called again. */
  cancel(): void;
  /** The front ended it (stop string found): counted with this reason and `tokens` output tokens. Not called again. */
  finish(reason: Finish, tokens: number): void;
  /** As `finish` with an error, of the scheduler's own: it came with the last token, which a grammar does not allow. */
  reject?(tokens: number): void;
  /** What a `blocked` generation waited for is there: it may be admitted from the next plan on, and keeps its place. */
  release(): void;
  /** What plain tokens of `receiver` take to `line` from when it is told to go on; null: there is none, each is the receiver's. */
  lane?(receiver: Receiver, line: LaneEnd, prefix: Uint8Array, suffix: Uint8Array): Lane | null;
  /** Tells the receiver what went by its lane. */
  settle?(): void;
  /** Prompt tokens found in the prefix cache at first admission; known once the first token came. */
  readonly cachedTokens: number;
  /** When it was first scheduled; likewise. */
  readonly scheduledUs?: number;
  /** What is known of its way; null: nobody observes the engine. */
  readonly timeline?: TimelineFacts | null;
}

/** The way of a generation so far, of an engine that is observed. Times are NaN where it has not come so far. */
export interface TimelineFacts {
  readonly id: string;
  readonly arrivalUs: number;
  readonly queuedUs: number;
  readonly scheduledUs: number;
  /** When the step of its first token was due. */
  readonly prefillEndUs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly preemptions: number;
  /** As `settleLate` found them. */
  readonly lateSteps: number;
  readonly rebasedUs: number;
  /** When the step was due whose tokens are being handed out. */
  readonly stepDueUs: number;
  settleLate(): void;
}

/** Why the engine did not take a generation: nothing was kept. */
export interface Refusal {
  readonly refused: "busy" | "paused";
}

/** Bounds and counts of one histogram; `buckets[i]` counts values <= `bounds[i]` only (not cumulative), the last is +Inf. */
export interface HistogramSnapshot {
  /** Upper bounds of the buckets but the last, rising; seconds or a count. */
  readonly bounds: readonly number[];
  /** Observations in each bucket; one more than there are bounds. */
  readonly buckets: readonly number[];
  /** Over all observations, in the unit of the bounds. */
  readonly sum: number;
  /** Over all observations. */
  readonly count: number;
}

/** A live histogram: it moves, and reading it copies nothing. */
export interface HistogramView {
  readonly bounds: readonly number[];
  readonly buckets: ArrayLike<number>;
  readonly sum: number;
  readonly count: number;
}

/** Names of the core's histograms; time histograms are in seconds. */
export type HistogramName = Uncapitalize<Exclude<keyof typeof Histogram, "Count">>;

/** A histogram for percentiles: counts by fine bucket, in microseconds or tokens; bounds as `fineMiddle` gives them. */
export interface FineHistogram {
  readonly counts: Float64Array;
  readonly sum: number;
}

/** Requests of one LoRA adapter. */
export interface AdapterSnapshot extends NumbersOf<typeof ADAPTER_NUMBERS> {}

/** One engine at the end of a step, copied: nothing in it moves. Counters count from start. */
export interface EngineSnapshot extends NumbersOf<typeof ENGINE_NUMBERS> {
  /** By `Finish`; aborts are all counted here, whoever decided them. */
  readonly finished: readonly [number, number, number, number, number];
  /** What `/metrics` shows as histograms. */
  readonly histograms: Readonly<Record<HistogramName, HistogramSnapshot>>;
  /** By the adapter's number minus one. */
  readonly adapters: readonly AdapterSnapshot[];
  /** What a server in front of it counts of the generations, in numbers that only their reader knows; empty without one. */
  readonly meters: ArrayLike<number>;
}

/** One engine live: counters and histograms as they stand; reading copies nothing. */
export interface EngineView extends Omit<EngineSnapshot, "finished" | "histograms"> {
  readonly finished: ArrayLike<number>;
  readonly histograms: Readonly<Record<HistogramName, HistogramView>>;
}

type LoopHistograms<T> = Readonly<Record<(typeof LOOP_HISTOGRAMS)[number], T>>;

/** How punctual the loop is; seconds. Late = the wall time at which something happened minus when it was due. */
export interface LoopSnapshot extends NumbersOf<typeof LOOP_NUMBERS>, LoopHistograms<HistogramSnapshot> {}

/** How punctual the loop is, live: reading copies nothing. */
export interface LoopView extends NumbersOf<typeof LOOP_NUMBERS>, LoopHistograms<HistogramView> {}

/** What HTTP middleware counts: `HTTP_WIDTH` numbers per route (metrics/rows/http-counts.ts), and the time of all requests in seconds. */
export interface HttpSnapshot {
  readonly routes: ArrayLike<number>;
  readonly duration: HistogramSnapshot;
}
/** What HTTP middleware counts, live: reading copies nothing. */
export interface HttpView {
  readonly routes: ArrayLike<number>;
  readonly duration: HistogramView;
}

/** What happened outside the core: the front counts every request exactly once by its outcome. */
export interface FrontSnapshot extends NumbersOf<typeof FRONT_NUMBERS> {
  readonly outcomes: Readonly<Record<Outcome, number>>;
  readonly toolLooks: Readonly<Record<ToolLook, number>>;
  /** Answers that each fault acted on, by its id. */
  readonly faults: Readonly<Record<string, number>>;
  readonly http: HttpSnapshot;
}

export type Outcome = (typeof OUTCOMES)[number];

/** What a truth log lost. */
export interface TruthDropped extends NumbersOf<typeof TRUTH_NUMBERS> {}

export interface Snapshot {
  readonly engines: readonly EngineSnapshot[];
  readonly loop: LoopSnapshot;
  readonly front: FrontSnapshot;
  /** While a truth log is written. */
  readonly truth?: TruthDropped;
}

/** What happened outside the core, live: reading copies nothing. */
export interface FrontView extends Omit<FrontSnapshot, "http"> {
  readonly http: HttpView;
}

/** All numbers live: what a held copy is written from. Any `Snapshot` is one. */
export interface SnapshotView {
  readonly engines: readonly EngineView[];
  readonly loop: LoopView;
  readonly front: FrontView;
  readonly truth?: TruthDropped;
}
