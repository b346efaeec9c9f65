/** What do the loop and the reading thread say to each other? Types only. */

import type { PackedParts } from "../../../../text/tokens/packed-parts.ts";
import type { ModelTemplate } from "../../../../text/tokens/types.ts";
import type { BodyText } from "../../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../../pydantic/refusals.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../../request/request.ts";

/** Bodies that become requests to the engine; `response` and `message` are those of the other dialects. */
export type RequestKind = "chat" | "completion" | "batch" | "invocation" | "response" | "message";

/** First. */
export interface ThreadStart {
  /** null: the built-in one. */
  readonly template: ModelTemplate | null;
  /** Something looks at the tools. */
  readonly keepsTools: boolean;
}

/** A body comes, which is read as this. */
export interface ThreadOrder {
  readonly id: number;
  readonly kind: RequestKind | "text" | "tokens";
  readonly contentType: string | null;
  readonly limits: Limits;
}
export type ToThread =
  | ThreadStart
  | ThreadOrder
  | { readonly id: number; readonly part: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly ended: boolean };

/** A request without what nobody looks at any more, and its prompts. */
export interface ThreadRead {
  readonly request: ChatRequest | CompletionRequest;
  /** JSON of its tools, where somebody looks at them: a hundred thousand are taken over in pieces. */
  readonly tools: string | null;
  readonly prompts: readonly (PackedParts | Uint32Array)[];
  /** What its dialect's form needs besides; absent: nothing. */
  readonly repeated?: unknown;
}

/** What became of a body. */
export type ThreadAnswer =
  | { readonly error: ErrorAnswer }
  | { readonly read: ThreadRead }
  | { readonly text: BodyText }
  | { readonly tokens: Uint32Array<ArrayBuffer> };
/** An error whose body, as UTF-8, is in memory that is handed over. */
export interface LongThreadError {
  readonly long: Omit<ErrorAnswer, "body">;
  readonly bytes: Uint8Array<ArrayBuffer>;
}
export type FromThread =
  | ({ readonly id: number } & (ThreadAnswer | LongThreadError | { readonly failed: string }))
  /** So many bytes are live when it has nothing to do: the runtime keeps what nobody else does. */
  | { readonly keptBytes: number };
