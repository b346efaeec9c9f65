/** Types of requests and their records, shared by datasets, clients, measures and reports. */

import type { ReportRecord } from "../../report/result.ts";

export interface ConversationMessage {
  readonly role: string;
  readonly content: string;
}

/** One request of a dataset. */
export interface Turn {
  /**
   * Name of the conversation. Its turns are sent one after another, each `thinkUs` after the answer before. Null for a single
   * request.
   */
  readonly conversation: string | null;
  /**
   * Text, token ids (completions only), or messages. In later turns of a conversation only the new part, which is appended to
   * all turns and answers so far.
   */
  readonly prompt: string | readonly number[] | readonly ConversationMessage[];
  /** Lengths that the dataset states. Null if unknown; the server's usage then counts. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Microseconds after the dataset's first request. Null if the dataset has no times. */
  readonly arrivalUs: number | null;
  readonly thinkUs: number;
  /** True if the prompt is already the whole conversation so far, so that nothing is put before it. */
  readonly whole?: true;
  /** Additional fields of the request's body. They override all others. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** Why a request has no complete answer. */
export type FailureClass =
  | "connect"
  | "timeout"
  | "status"
  | "mid-stream end"
  | "error event"
  | "malformed"
  | "no token"
  /** The stream ended normally, but without the finish reason or last event that its API requires. */
  | "incomplete"
  | "cancelled"
  /** The run ended first. */
  | "unfinished";

/** Record of one request. */
export interface RequestRecord extends ReportRecord {
  scheduledUs?: number;
  /** Id that the server gave the answer, in APIs that do not return `requestId`. Null or missing otherwise. */
  readonly answerId?: string | null;
  /** Time of the last event of an answer, in APIs where this event has no output. NaN or missing in others. */
  readonly finishedUs?: number;
  readonly chunkUs: Float64Array;
  /** Number of tokens of each chunk. 0 if unknown. */
  readonly chunkTokens: Int32Array;
  /** True if the answer had usage. False: `inputTokens` is the dataset's length, and `outputTokens` the number of chunks. */
  readonly usage: boolean;
  /** Requested output tokens. Null if no limit was sent. */
  readonly wantedTokens: number | null;
  readonly cachedTokens: number;
  /** HTTP status. 0 if no response came. */
  readonly status: number;
  /** Number of retries (`--retries`). */
  readonly retries: number;
  readonly failure: { readonly kind: FailureClass; readonly message: string } | null;
  /** Disturbance on purpose. Such requests are not in any latency. Null if undisturbed. */
  readonly disturbed: "cancelled" | "slow reader" | null;
  /** True if the last event of the stream came. False if the stream ended normally, but without `[DONE]`. */
  readonly done: boolean;
}
