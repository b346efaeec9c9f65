/** Types of the lines in a truth log, one JSON object per line; `docs/reference/truth-log.md` describes them. A change of meaning changes SCHEMA. */
import type { FlatEngineConfig } from "../engine/config/engine-config.ts";
import type { Outcome } from "../engine/interface/types.ts";
import type { CauseName } from "../engine/lateness/causes.ts";

export const SCHEMA = 1;

/** Fields at the head of each log file that describe the run. */
export interface LogHeader {
  readonly engine: FlatEngineConfig;
  /** Number of engines. Rows have the index of their engine. */
  readonly engines: number;
  /** Microseconds since 1970 at time 0 of the log's clock. null for virtual time. */
  readonly epochUs: number | null;
  /** Worker process that wrote the log. Absent if there is only one process. */
  readonly worker?: number;
}

/** First line of each file. */
export interface HeaderLine extends LogHeader {
  readonly type: "header";
  readonly schema: typeof SCHEMA;
  /** Number of files that this run has started before. */
  readonly file: number;
  readonly seed: number;
}

/** A step of an engine. Numbers rise by one from 1. Times are microseconds. */
export interface StepLine {
  readonly type: "step";
  readonly engine: number;
  readonly step: number;
  readonly plannedUs: number;
  /** End of the step, when all its tokens are due; start and end of writing them. null: the log was closed before. */
  readonly dueUs: number | null;
  readonly writeStartUs: number | null;
  readonly writeEndUs: number | null;
  readonly tokens: number;
  /** Requests that were preempted by the plan of this step. */
  readonly preemptions: number;
  /** Microseconds by which engine time was moved forward before `dueUs`. Absent: it was not. */
  readonly rebasedUs?: number;
  /** Reason why the step started late. Absent: it was on time. */
  readonly cause?: CauseName;
  /** Times at which one eighth, two eighths … seven eighths of its tokens were written. Absent: it has few tokens, or writing took no time. */
  readonly writtenUs?: readonly number[];
}

/** A generation that ended. null: the event has not happened. */
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
  /** null: the log was closed before the request ended. */
  readonly reason: ReasonName | null;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly computedTokens: number;
  readonly recomputedTokens: number;
  readonly outputTokens: number;
  readonly bytes: number;
  /** Request id of the client. null: the generation's id has another form. */
  readonly requestId: string | null;
  /** Time when the receiver had the first token, and the last. */
  readonly firstWrittenUs: number | null;
  readonly lastWrittenUs: number | null;
  /** Late steps between the request's first and last token, their total lateness, and microseconds by which engine time was moved forward. */
  readonly late: { readonly steps: number; readonly us: number; readonly rebasedUs: number };
  readonly preemptions: number;
  readonly preempted: readonly PreemptedEntry[];
  /** Tokens came in steps `first` to `first + steps - 1`, one per step or `width` per step. */
  readonly runs: readonly (readonly [first: number, steps: number, width?: number])[];
  readonly droppedRuns: number;
}

interface PreemptedEntry {
  readonly us: number;
  readonly resumedUs: number | null;
  readonly cachedTokens: number | null;
}

/** An answer that a plan of faults disturbed (docs/reference/faults.md). */
export interface FaultLine {
  readonly type: "fault";
  /** The request's `X-Request-Id`, or its number among the disturbed answers. */
  readonly key: string;
  /** Plan that orders the same faults again. */
  readonly plan: string;
  readonly beganUs: number;
  readonly end: "done" | "fin" | "rst" | "reset" | "gone";
  /**
   * Time, kind ("bytes", "wait" or the end), offset on the wire, number of bytes (for a wait: microseconds), and bytes
   * that the socket accepted at once.
   */
  readonly operations: readonly (readonly [us: number, kind: string, offset: number, length: number, taken: number])[];
  /** Operations that were not recorded. */
  readonly unkept: number;
  /** Events of the answer: all, removed, written completely, and cut off. */
  readonly events: { readonly came: number; readonly dropped: number; readonly whole: number; readonly cut: number };
  /** Number of times that each fault of the plan acted. 0: its position was not reached, so the case is void. */
  readonly acted: readonly (readonly [fault: string, times: number])[];
}

/** Bytes of a disturbed answer as sent, with `--truth-wire`. These lines come before the answer's own. */
export interface WireLine {
  readonly type: "wire";
  readonly key: string;
  /** Offset of the first byte in the answer. */
  readonly offset: number;
  readonly base64: string;
}

/** Last line of a log that was closed regularly: rows written and rows lost. */
export interface EndLine {
  readonly type: "end";
  readonly steps: number;
  readonly requests: number;
  readonly dropped: { readonly run: number; readonly step: number; readonly request: number };
}

/** Last line of the log of a killed process, written by another process: the counts that the metrics had of it. */
export interface DiedLine {
  readonly type: "died";
  readonly worker: number;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly engines: readonly DiedEngine[];
  /** `understudy_requests_total`. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
}

/** Counts of one engine, including rows that were written. */
export interface DiedEngine {
  readonly engine: number;
  readonly steps: number;
  readonly finished: Readonly<Record<ReasonName, number>>;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly preemptions: number;
  /** Requests that ended with the engine and have no row. */
  readonly running: number;
  readonly waiting: number;
}

/** Last line of a running server's answer about its last requests. */
export interface PageLine {
  readonly type: "page";
  readonly requests: number;
  readonly steps: number;
  /** Cursor for the next query. */
  readonly next: string;
  readonly more: boolean;
  readonly missed: number;
  /** Largest number of rows that each worker keeps. */
  readonly keeps: number;
  /** Workers that did not answer. Absent: all did. */
  readonly unreachable?: readonly number[];
}

/** Last line of an answer of one worker. All workers keep the same number of rows. */
export type WorkerPage = Omit<PageLine, "keeps">;

export type TruthLine = HeaderLine | StepLine | RequestLine | FaultLine | WireLine | EndLine | DiedLine | PageLine;

/** Reasons in the order of `Finish`. */
export const REASONS = ["stop", "length", "abort", "error", "repetition"] as const;
export type ReasonName = (typeof REASONS)[number];

export function headerLine(about: LogHeader, file: number): string {
  const header: HeaderLine = { type: "header", schema: SCHEMA, file, seed: about.engine.seed, ...about };
  return JSON.stringify(header);
}
