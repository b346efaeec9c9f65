/** Types of the lines in a truth log, one JSON object per line; `docs/reference/truth-log.md` describes them. A change of meaning changes SCHEMA. */
import type { FlatEngineConfig } from "../engine/config/engine-config.ts";
import type { Outcome } from "../engine/interface/types.ts";
import type { CauseName } from "../engine/lateness/causes.ts";

export const SCHEMA = 1;

/** Fields at the head of each log file that describe the run. */
export interface LogHeader {
  /** Configuration of the engine. */
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
  /** 1. Another number means that a field has another meaning. */
  readonly schema: typeof SCHEMA;
  /** Number of files that this run has started before. 0: nothing is missing. */
  readonly file: number;
  /** Seed of the run. */
  readonly seed: number;
}

/** A step of an engine. Times are microseconds. */
export interface StepLine {
  readonly type: "step";
  /** Index of the engine. */
  readonly engine: number;
  /** Number of the step in its engine, from 1. A missing number is a lost row. */
  readonly step: number;
  /** Time when the scheduler planned the step. */
  readonly plannedUs: number;
  /** End of the step, when all its tokens are due. null: the log was closed before that. */
  readonly dueUs: number | null;
  /** Time when the server began to write the step's tokens to its clients. null: the log was closed before that. */
  readonly writeStartUs: number | null;
  /** Time when the server had written the step's last token. null: the log was closed before that. */
  readonly writeEndUs: number | null;
  /** Number of tokens that the step gave to all requests. */
  readonly tokens: number;
  /** Requests that were preempted by the plan of this step. */
  readonly preemptions: number;
  /** Microseconds by which engine time was moved forward before `dueUs`, because the host was more than a step and 100 ms behind. Absent: it was not. */
  readonly rebasedUs?: number;
  /** Likely reason why writing started more than 1 ms late. Absent: it was on time. */
  readonly cause?: CauseName;
  /** Times at which one eighth, two eighths … seven eighths of its tokens were written. Absent: it has fewer than 64 tokens, or writing took no time. */
  readonly writtenUs?: readonly number[];
}

/** A generation that ended. null: the event has not happened. */
export interface RequestLine {
  readonly type: "request";
  /** Index of the engine that ran the request. */
  readonly engine: number;
  /** Order of submission to this engine, from 0. A missing number is a lost row or a refused request. */
  readonly order: number;
  /** The answer's `id`. Completions add the prompt's index (`cmpl-…-0`); `n` > 1 puts the choice's index in front. */
  readonly id: string;
  /** Time when the request reached the server. */
  readonly arrivalUs: number;
  /** Time when the request entered the engine's queue, after the request overhead. */
  readonly queuedUs: number | null;
  /** Time when the scheduler's first plan that includes the request was due. */
  readonly scheduledUs: number | null;
  /** Time when the first token of the request was due. */
  readonly prefillEndUs: number | null;
  /** Time when the request ended: the due time of its last step, or the moment of an abort. */
  readonly endUs: number | null;
  /** `stop`, `length`, `abort`, `error` or `repetition`. null: the log was closed before the request ended. */
  readonly reason: ReasonName | null;
  /** Number of tokens of the prompt. */
  readonly promptTokens: number;
  /** Number of prompt tokens that came from the prefix cache. */
  readonly cachedTokens: number;
  /** Number of prompt tokens that were computed. */
  readonly computedTokens: number;
  /** Number of tokens that were computed again after preemptions. */
  readonly recomputedTokens: number;
  /** Number of tokens of the answer. */
  readonly outputTokens: number;
  /** Bytes of the body that were handed to the socket, without HTTP's framing. 0 in `replay`. */
  readonly bytes: number;
  /** The client's `X-Request-Id`, or a generated id. null for `/v1/responses` and `replay`. */
  readonly requestId: string | null;
  /** Time when the first token of the request had been handed to the socket. */
  readonly firstWrittenUs: number | null;
  /** Time when its last token had been handed to the socket. */
  readonly lastWrittenUs: number | null;
  /** `steps` that started more than 1 ms late between its first and last token, their total lateness `us`, and `rebasedUs`, by which engine time was moved forward. */
  readonly late: { readonly steps: number; readonly us: number; readonly rebasedUs: number };
  /** Number of preemptions of this request. */
  readonly preemptions: number;
  /** The first 1,024 preemptions: `us`, `resumedUs`, `cachedTokens`. */
  readonly preempted: readonly PreemptedEntry[];
  /** Steps that gave tokens to the request. Tokens came in steps `first` to `first + steps - 1`, one per step or `width` per step. */
  readonly runs: readonly (readonly [first: number, steps: number, width?: number])[];
  /** Number of further runs, which the row leaves out. */
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
  /** Plan with seed and key that orders the same faults again. */
  readonly plan: string;
  /** Time when the answer began. */
  readonly beganUs: number;
  /** End of the answer: `done`, `fin`, `rst` or `reset`, or `gone` if the client left first. */
  readonly end: "done" | "fin" | "rst" | "reset" | "gone";
  /**
   * The first 1,000 operations: time, kind ("bytes", "wait" or the end), offset on the wire, number of bytes (for a wait:
   * microseconds), and bytes that the socket accepted at once.
   */
  readonly operations: readonly (readonly [us: number, kind: string, offset: number, length: number, taken: number])[];
  /** Operations that were not recorded. */
  readonly unkept: number;
  /** Events of the answer: all (`came`), removed (`dropped`), written completely (`whole`), and cut off (`cut`). */
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
  /** Number of rows of requests in this answer. */
  readonly requests: number;
  /** Number of rows of steps in this answer. */
  readonly steps: number;
  /** Cursor for the next query. */
  readonly next: string;
  /** True if `limit` kept rows out of this answer. */
  readonly more: boolean;
  /** Number of rows after `since` that the server had already removed. */
  readonly missed: number;
  /** Largest number of rows that each worker keeps. */
  readonly keeps: number;
  /** Workers that did not answer within 5 s. Absent: all did. */
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
