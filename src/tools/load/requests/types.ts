/** Describes what is sent, and what came of it: the types that datasets, client, measures and reports share. */

import type { BadLine } from "../../../workloads/trace.ts";
import type { ReportRecord } from "../../report/result.ts";

export interface ConversationMessage {
  readonly role: string;
  readonly content: string;
}

/** One request as a dataset gives it. */
export interface Turn {
  /** Turns of one conversation are sent one after the other, each `thinkUs` after the answer before it. Null: it stands alone. */
  readonly conversation: string | null;
  /** Text, token ids (completions only), or messages. In a conversation's later turns: what is new, put behind all turns and answers so far. */
  readonly prompt: string | readonly number[] | readonly ConversationMessage[];
  /** As the dataset states them; null: unknown, the server's usage says. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Microseconds from the dataset's first request; null: it has no times of its own. */
  readonly arrivalUs: number | null;
  readonly thinkUs: number;
  /** The prompt is the whole conversation so far, as the dataset has it: no turns and answers go before it. */
  readonly whole?: true;
  /** Further fields of the request's body, merged last. */
  readonly extra: Readonly<Record<string, unknown>>;
}

export interface Dataset {
  readonly name: string;
  /** How many turns there are; null: as many as asked for. */
  readonly total: number | null;
  /** In order of arrival where there are times. The seed is for what is made up. */
  turns(seed: number): Iterable<Turn | BadLine>;
  close(): void;
}

/** Why a request gave no complete answer. */
export type FailureClass =
  | "connect"
  | "timeout"
  | "status"
  | "mid-stream end"
  | "error event"
  | "malformed"
  | "no token"
  /** The stream ended in order, but without the end that its API requires: a finish reason, or an event. */
  | "incomplete"
  | "cancelled"
  /** The run ended first. */
  | "unfinished";

/** What came of one request. */
export interface RequestRecord extends ReportRecord {
  scheduledUs?: number;
  /** The id that the server gave the answer, if its API has no other; null or missing: `requestId` names it. */
  readonly answerId?: string | null;
  /** When the event without output came that ends an answer of this API; NaN or missing: it has no such event. */
  readonly finishedUs?: number;
  readonly chunkUs: Float64Array;
  /** How many tokens each chunk carried (0: not said). */
  readonly chunkTokens: Int32Array;
  /** False: `inputTokens` and `outputTokens` are the dataset's length and the number of chunks. */
  readonly usage: boolean;
  /** What was asked for; null: no limit was sent. */
  readonly wantedTokens: number | null;
  readonly cachedTokens: number;
  /** HTTP status, 0: none came. */
  readonly status: number;
  /** How often it was sent again (`--retries`). */
  readonly retries: number;
  readonly failure: { readonly kind: FailureClass; readonly message: string } | null;
  /** What was done to it on purpose; its times are nobody's latencies. Null: nothing. */
  readonly disturbed: "cancelled" | "slow reader" | null;
  /** True if the last event of the stream came. False: the stream ended well, but without `[DONE]`. */
  readonly done: boolean;
}
