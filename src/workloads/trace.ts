/** Types of a trace: requests in order of arrival, and bad lines; and helpers of the readers. */
import { shownJson } from "../base/json-object.ts";
import type { Identities } from "./identities.ts";
import type { SkippedRows } from "./skipped-rows.ts";
import type { Timestamps, TimestampUnit } from "./timestamps.ts";

/** Tokens per hash id of a Mooncake trace, and of a trace that does not state it. */
export const TRACE_BLOCK = 512;

/** Options of the user for reading rows. Undefined: the default of the format. */
export interface TraceOptions {
  readonly timestampUnit?: TimestampUnit | undefined;
  /** Prompt tokens per hash id. */
  readonly hashBlockTokens?: number | undefined;
  /** Models and log types of BurstGPT rows to accept. */
  readonly models?: readonly string[] | undefined;
  readonly logTypes?: readonly string[] | undefined;
}

/** Properties of rows with hash ids. */
export interface RowShape {
  /** Prompt tokens per hash id. */
  readonly blockTokens: number;
  readonly times: Timestamps;
  readonly ids: Identities;
}

export interface TraceRequest {
  /** Line in the file, counted from 1. 0 if there is no file. */
  readonly line: number;
  /** Whole microseconds. Readers count from the start of the file's clock; `requests` shifts the first request to 0. */
  readonly arrivalUs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /**
   * Content of the prompt's blocks of `Trace.blockTokens` tokens. Equal ids after equal ids mean equal content. The
   * last block may be partial. Null: unknown.
   */
  readonly blockIds: readonly number[] | null;
  /** Number of the LoRA adapter. Absent or 0: none. */
  readonly adapter?: number;
  /** Name of the conversation. Absent: a single request. */
  readonly conversation?: string;
  /** True if an earlier request has the same conversation. The request is sent after that one has ended, but not before `arrivalUs`. */
  readonly follows?: boolean;
  /** Pause after the end of the previous request, in whole microseconds. Absent: none. */
  readonly thinkUs?: number;
}

/** A piece of a trace that is not a request: its line, and the text that was expected. */
export interface BadLine {
  readonly line: number;
  readonly expected: string;
}

export type TraceItem = TraceRequest | BadLine;

/** When requests are sent: at their own times, or whenever fewer than `concurrency` requests are in progress. */
export type Pace = { readonly kind: "open" } | { readonly kind: "closed"; readonly concurrency: number };

export interface Trace {
  readonly format: string;
  readonly pace: Pace;
  /** Prompt tokens per id of `blockIds`. */
  readonly blockTokens: number;
  /** True if requests may have `blockIds`. */
  readonly hasIds: boolean;
  /** Span of the requests read so far. Null if the trace has no times. */
  readonly times: Timestamps | null;
  /** Size of the file in bytes, and bytes read so far. Both are 0 if there is no file. */
  readonly bytes: number;
  bytesRead(): number;
  /** Reads the trace. May be called once. The seed is for generated times or requests. */
  items(seed: number): Iterable<TraceItem>;
  /** Number of requests if it is known in advance, else null. */
  readonly total: number | null;
  /** Number of LoRA adapters that the requests use. */
  readonly adapters: number;
  /** Counts rows that are well formed but contain no request to send, such as a conversation without an answer. */
  readonly passed: SkippedRows;
  close(): void;
}

/** The trace cannot be used. The message is one line for the user. */
export class TraceError extends Error {
  override readonly name = "TraceError";
}

export function isCount(value: unknown, least: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least;
}

/** Formats an error with the condition and the value: `"input_length": a whole number of at least 1, not 0`. */
export function notThis(condition: string, value: unknown): string {
  if (value === undefined) return `${condition}; it is missing`;
  const shown = typeof value === "bigint" ? String(value) : shownJson(value);
  return `${condition}, not ${shown.length > 60 ? `${shown.slice(0, 60)}…` : shown}`;
}
