/** Types of a trace: requests in order of arrival, and the lines that hold no request; and helpers of the readers. */
import { shownJson } from "../base/json-object.ts";
import type { Identities } from "./identities.ts";
import type { PassedOver } from "./passed-over.ts";
import type { Timestamps, TimestampUnit } from "./timestamps.ts";

/** Tokens per hash id of a Mooncake trace, and of a trace that does not say. */
export const TRACE_BLOCK = 512;

/** What the user says of the rows; undefined: as the format has it. */
export interface TraceOptions {
  readonly timestampUnit?: TimestampUnit | undefined;
  /** Prompt tokens per hash id. */
  readonly hashBlockTokens?: number | undefined;
  /** Models and log types of BurstGPT rows that are taken. */
  readonly models?: readonly string[] | undefined;
  readonly logTypes?: readonly string[] | undefined;
}

/** How rows with hash ids are read. */
export interface RowShape {
  /** Prompt tokens per hash id. */
  readonly blockTokens: number;
  readonly times: Timestamps;
  readonly ids: Identities;
}

export interface TraceRequest {
  /** Where it stands in its file, from 1; 0 where there is no file. */
  readonly line: number;
  /** Whole microseconds; readers of files begin where the file does, `ordered` moves the first to 0. */
  readonly arrivalUs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Content of the prompt's blocks of `Trace.blockTokens` tokens: equal ids after an equal beginning are equal content. The last may be partial. Null: unknown. */
  readonly blockIds: readonly number[] | null;
  /** Number of its LoRA adapter; absent or 0: none. */
  readonly adapter?: number;
  /** Name of its conversation; absent: it stands alone. */
  readonly conversation?: string;
  /** True if a request of its conversation stands ahead of it: it is sent when that one has ended, but not before `arrivalUs`. */
  readonly follows?: boolean;
  /** Pause after the end of the request that it follows, in whole microseconds; absent: none. */
  readonly thinkUs?: number;
}

/** A piece of a trace that is no request: where, and what stands there in a good one. */
export interface BadLine {
  readonly line: number;
  readonly expected: string;
}

export type TraceItem = TraceRequest | BadLine;

/** When the next request is sent: at its own time, or as soon as fewer than `concurrency` are under way. */
export type Pace = { readonly kind: "open" } | { readonly kind: "closed"; readonly concurrency: number };

export interface Trace {
  readonly format: string;
  readonly pace: Pace;
  /** Prompt tokens per id of `blockIds`. */
  readonly blockTokens: number;
  /** True if requests may have `blockIds`. */
  readonly hasIds: boolean;
  /** Span of the requests that were read so far. Null: the trace has no times of its own. */
  readonly times: Timestamps | null;
  /** Bytes of the file, and how many of them have been read; 0 and 0 where there is no file. */
  readonly bytes: number;
  bytesRead(): number;
  /** Once; the seed is for what is made up, times or whole requests. */
  items(seed: number): Iterable<TraceItem>;
  /** How many there will be, where that is known beforehand. */
  readonly total: number | null;
  /** LoRA adapters that its requests use. */
  readonly adapters: number;
  /** Rows that are well formed and hold no request to send (a conversation without an answer). */
  readonly passed: PassedOver;
  close(): void;
}

/** The trace cannot be used: one line for the user. */
export class TraceError extends Error {
  override readonly name = "TraceError";
}

export function isCount(value: unknown, least: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least;
}

/** Returns a refusal that names the condition and the value: `"input_length": a whole number of at least 1, not 0`. */
export function notThis(condition: string, value: unknown): string {
  if (value === undefined) return `${condition}; it is missing`;
  const shown = typeof value === "bigint" ? String(value) : shownJson(value);
  return `${condition}, not ${shown.length > 60 ? `${shown.slice(0, 60)}…` : shown}`;
}
