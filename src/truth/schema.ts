/** What stands in a truth log? One JSON object per line; `docs/truth-log.md` describes it. A change of meaning changes SCHEMA. */
import type { FlatEngineConfig } from "../engine/config/engine-config.ts";
import type { Outcome } from "../engine/interface/types.ts";
import type { CauseName } from "../engine/lateness/causes.ts";

export const SCHEMA = 1;

/** What the log says of itself at the head of each file. */
export interface About {
  readonly engine: FlatEngineConfig;
  /** Engines of the server; rows carry the index of theirs. */
  readonly engines: number;
  /** Microseconds since 1970 at time 0 of the log's clock; null for virtual time. */
  readonly epochUs: number | null;
  /** Which of several processes wrote it; absent where there is one. */
  readonly worker?: number;
}

/** First line of each file. */
export interface HeaderLine extends About {
  readonly type: "header";
  readonly schema: typeof SCHEMA;
  /** Files that this run has begun before this one. */
  readonly file: number;
  readonly seed: number;
}

/** A step of an engine; numbers rise by one from 1. Times in microseconds. */
export interface StepLine {
  readonly type: "step";
  readonly engine: number;
  readonly step: number;
  readonly plannedUs: number;
  /**
   * When the step ended, at which all its tokens are due, and when writing them began and ended; null: the log was closed
   * before.
   */
  readonly dueUs: number | null;
  readonly writeStartUs: number | null;
  readonly writeEndUs: number | null;
  readonly tokens: number;
  /** Requests that lost their blocks when it was planned. */
  readonly preemptions: number;
  /** Engine time was moved on by so much before `dueUs`; absent: it was not. */
  readonly rebasedUs?: number;
  /** Why it began late; absent: it did not. */
  readonly cause?: CauseName;
  /** When an eighth of its tokens was written, two eighths … seven; absent: they are few, or it took no time. */
  readonly writtenUs?: readonly number[];
}

/** A generation that ended. Null: it never came so far. */
export interface RequestLine {
  readonly type: "request";
  readonly engine: number;
  /** Order of submission to this engine, from 0. */
  readonly order: number;
  readonly id: string;
  readonly arrivalUs: number;
  readonly queuedUs: number | null;
  readonly scheduledUs: number | null;
  readonly prefillEndUs: number | null;
  readonly endUs: number | null;
  /** Null: the log was closed before it ended. */
  readonly reason: ReasonName | null;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly computedTokens: number;
  readonly recomputedTokens: number;
  readonly outputTokens: number;
  readonly bytes: number;
  /** What the client called its request; null: the id is of another form. */
  readonly requestId: string | null;
  /** When the receiver had its first and its last token. */
  readonly firstWrittenUs: number | null;
  readonly lastWrittenUs: number | null;
  /** Late steps of the engine from its first token to its last, their lateness, and by how much engine time moved on in its life. */
  readonly late: { readonly steps: number; readonly us: number; readonly rebasedUs: number };
  readonly preemptions: number;
  readonly preempted: readonly PreemptedEntry[];
  /** Tokens came in steps `first` to `first + steps - 1`, one each, or `width` each. */
  readonly runs: readonly (readonly [first: number, steps: number, width?: number])[];
  readonly droppedRuns: number;
}

export interface PreemptedEntry {
  readonly us: number;
  readonly resumedUs: number | null;
  readonly cachedTokens: number | null;
}

/** An answer that a plan of faults disturbed (docs/faults.md). */
export interface FaultLine {
  readonly type: "fault";
  /** The request's `X-Request-Id`, or its number among the disturbed ones. */
  readonly key: string;
  /** Orders the same again. */
  readonly plan: string;
  readonly beganUs: number;
  readonly end: "done" | "fin" | "rst" | "reset" | "gone";
  /** When, "bytes", "wait" or the end, offset on the wire, bytes (of a wait: microseconds), bytes that the socket took at once. */
  readonly operations: readonly (readonly [us: number, kind: string, offset: number, length: number, taken: number])[];
  /** Operations that were not kept. */
  readonly unkept: number;
  /** Events of the answer, and how many were taken out, written, cut off. */
  readonly events: { readonly came: number; readonly dropped: number; readonly whole: number; readonly cut: number };
  /** How often each fault of the plan acted; 0: its place was not reached, the case is void. */
  readonly acted: readonly (readonly [fault: string, times: number])[];
}

/** Bytes of such an answer, as they left: with `--truth-wire`, before its line. */
export interface WireLine {
  readonly type: "wire";
  readonly key: string;
  /** Where its first byte stands in the answer. */
  readonly offset: number;
  readonly base64: string;
}

/** Last line of a log that was closed in order: rows written, rows lost. */
export interface EndLine {
  readonly type: "end";
  readonly steps: number;
  readonly requests: number;
  readonly dropped: { readonly run: number; readonly step: number; readonly request: number };
}

/** Last line of a log whose process was killed, written by another one: what the metrics had counted of that process. */
export interface DiedLine {
  readonly type: "died";
  readonly worker: number;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly engines: readonly DiedEngine[];
  /** `understudy_requests_total`. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
}

/** Counts of one engine, rows that were written included. */
export interface DiedEngine {
  readonly engine: number;
  readonly steps: number;
  readonly finished: Readonly<Record<ReasonName, number>>;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly preemptions: number;
  /** Requests that ended with the engine, and of which no row was written. */
  readonly running: number;
  readonly waiting: number;
}

/** Last line of an answer of a running server about its last requests. */
export interface PageLine {
  readonly type: "page";
  readonly requests: number;
  readonly steps: number;
  /** The cursor to go on with. */
  readonly next: string;
  readonly more: boolean;
  readonly missed: number;
  /** So many of the last rows each worker has at most. */
  readonly keeps: number;
  /** Workers that did not answer; absent: all did. */
  readonly unreachable?: readonly number[];
}

/** Last line of an answer from one of several workers, all of which keep equally many rows. */
export type WorkerPage = Omit<PageLine, "keeps">;

export type TruthLine = HeaderLine | StepLine | RequestLine | FaultLine | WireLine | EndLine | DiedLine | PageLine;

/** By `Finish`. */
export const REASONS = ["stop", "length", "abort", "error", "repetition"] as const;
export type ReasonName = (typeof REASONS)[number];

export function headerLine(about: About, file: number): string {
  const header: HeaderLine = { type: "header", schema: SCHEMA, file, seed: about.engine.seed, ...about };
  return JSON.stringify(header);
}
