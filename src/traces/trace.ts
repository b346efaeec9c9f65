/** What is a trace to whoever replays it? Requests in order of arrival, and the lines that are none. Types and two helpers. */

/** Tokens that one id of `blockIds` stands for, in every format that has them. */
export const TRACE_BLOCK = 512;

export interface TraceRequest {
  /** Where it stands in its file, from 1; 0 where there is no file. */
  readonly line: number;
  /** Whole microseconds; readers of files begin where the file does, `ordered` moves the first to 0. */
  readonly arrivalUs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** What the prompt's blocks of 512 tokens hold: equal ids after an equal beginning are equal content. The last may be partial. Null: unknown. */
  readonly blockIds: readonly number[] | null;
  /** Number of its LoRA adapter; absent or 0: none. */
  readonly adapter?: number;
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
  /** Bytes of the file, and how many of them have been read; 0 and 0 where there is no file. */
  readonly bytes: number;
  bytesRead(): number;
  /** Once; the seed is for what is made up, times or whole requests. */
  items(seed: number): Iterable<TraceItem>;
  /** How many there will be, where that is known beforehand. */
  readonly total: number | null;
  /** LoRA adapters that its requests use. */
  readonly adapters: number;
  /** Pieces that are well formed and hold no request (a conversation without an answer). */
  passedOver(): number;
  close(): void;
}

/** The trace cannot be used: one line for the user. */
export class TraceError extends Error {
  override readonly name = "TraceError";
}

export function isCount(value: unknown, least: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least;
}
