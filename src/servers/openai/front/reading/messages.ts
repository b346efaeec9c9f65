/** Types of the messages between the event loop and the reading thread. */

import type { PackedParts } from "../../../../text/tokens/packed-parts.ts";
import type { ModelTemplate, PromptPart } from "../../../../text/tokens/types.ts";
import type { BodyText } from "../../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../../pydantic/refusals.ts";
import type { GenerationRequest, Limits } from "../../request/request.ts";

/** Bodies that become requests to the engine. `response`: of `/v1/responses`. `message`: of `/v1/messages`. */
export type RequestKind = "chat" | "completion" | "batch" | "invocation" | "response" | "message";

/** The first message to the thread. */
export interface ThreadStart {
  /** Chat template of the model. Null: the built-in one. */
  readonly template: ModelTemplate | null;
  /** True if the server needs the tools of a request after its prompt is rendered. */
  readonly keepsTools: boolean;
}

/** Announces a body, and says how to read it. */
export interface ThreadOrder {
  readonly id: number;
  /** `text`: only decode the body. `tokens`: read the ids of `/detokenize`. `prompt`: render the prompt of `/tokenize`. */
  readonly kind: RequestKind | "text" | "tokens" | "prompt";
  readonly contentType: string | null;
  readonly limits: Limits;
}
/** A message to the thread: the start, an announcement, a part of a body, or its end. `ended` false: the body is given up. */
export type ToThread =
  | ThreadStart
  | ThreadOrder
  | { readonly id: number; readonly part: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly ended: boolean };

/** A request and its prompts. Fields that are not needed after rendering the prompts are left out. */
interface ThreadRequest {
  readonly request: GenerationRequest;
  /** JSON of its tools, or null if they are not needed. A text, because the loop reads a hundred thousand tools in pieces. */
  readonly tools: string | null;
  readonly prompts: readonly (PackedParts | Uint32Array)[];
  /** Values of the body that its dialect repeats in the answer. Absent: none. */
  readonly repeated?: unknown;
}

/** A rendered prompt of `/tokenize`. `P`: its parts, packed on the way between threads. */
export interface PromptToEncode<P = readonly PromptPart[]> {
  readonly parts: P;
  /** True if the text of a special token becomes this token. */
  readonly allowSpecial: boolean;
  /** True to add the tokens that the tokenizer puts before a text. */
  readonly addSpecial: boolean;
  /** True if the answer lists the text of each token, too. */
  readonly withTexts: boolean;
}

/** The result of reading a body: a refusal, a request, plain text, token ids, or a prompt. */
export type ThreadAnswer =
  | { readonly error: ErrorAnswer }
  | { readonly read: ThreadRequest }
  | { readonly text: BodyText }
  | { readonly tokens: Uint32Array<ArrayBuffer> }
  | { readonly prompt: PromptToEncode<PackedParts> };
/** An error with a long body. `bytes`: the body in UTF-8. Their memory moves to the loop's thread. */
interface LongThreadError {
  readonly long: Omit<ErrorAnswer, "body">;
  readonly bytes: Uint8Array<ArrayBuffer>;
}
/** A message from the thread: the answer to a body, or the state of its heap. */
export type FromThread =
  | ({ readonly id: number } & (ThreadAnswer | LongThreadError | { readonly failed: string }))
  /** Bytes that a garbage collection left on the thread's heap. */
  | { readonly keptBytes: number };
