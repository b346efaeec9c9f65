/** Which bodies are chat, which completions, and what form has the answer? */

import type { Pieces } from "../../../base/pieces.ts";
import type { ChatChanges } from "../../openai/pipeline/dialect.ts";
import type { BodyReader, Form } from "../../openai/pipeline/form.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../../openai/request/request.ts";
import { type BodyKind, type ReadBody, readerOf } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, Refused } from "../../pydantic/refusals.ts";
import { FAIL } from "../../pydantic/types.ts";
import { validator } from "../../pydantic/validate.ts";
import type { PythonDict } from "../../pydantic/value.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "./fields.ts";
import { ChatForm, CompletionForm } from "./form.ts";
import { applyChatRules, applyCompletionRules } from "./rules.ts";
import { toChat, toChatPieces, toCompletion } from "./translate.ts";

const chat: BodyKind<typeof chatFields, ChatRequest, Limits> = {
  validator: validator(chatFields),
  rules: applyChatRules,
  translate: (values, body, limits, exact) => toChat(values as ChatValues, body, limits, exact),
  translatePieces: (values, body, limits, exact) => toChatPieces(values as ChatValues, body, limits, exact),
};
const completion: BodyKind<typeof completionFields, CompletionRequest, Limits> = {
  validator: validator(completionFields),
  rules: applyCompletionRules,
  translate: (values, body, limits, exact) => toCompletion(values as CompletionValues, body, limits, exact),
};

/** Reads a body of `/v1/chat/completions` as a request with every default filled in, or the answer that vLLM gives before it renders and tokenizes. */
export const { read: readChat, pieces: chatPieces } = readerOf(chat, (read) => read);
/** Reads a body of `/v1/completions`, alike. */
export const { read: readCompletion, pieces: completionPieces } = readerOf(completion, (read) => read);

export const chatReader: BodyReader = { ...readerOf(chat, formed), thread: "chat", formOf };
export const completionReader: BodyReader = { ...readerOf(completion, formed), thread: "completion", formOf };

/** The form of the answer, beside the request. */
export function formed(read: ReadBody<ChatRequest | CompletionRequest>): ReturnType<BodyReader["read"]> {
  if ("error" in read) return read;
  const { request } = read;
  return { request, form: formOf(request) };
}

export function formOf(request: ChatRequest | CompletionRequest): Form {
  return request.kind === "chat" ? new ChatForm(request) : new CompletionForm(request);
}

/** Makes a request of a chat that another dialect made. `exact` false: what is not plainly right is only said to be so. Throws `Refused`. */
export function* chatValuePieces(
  body: PythonDict,
  limits: Limits,
  exact: boolean,
  changes?: ChatChanges,
): Pieces<ChatRequest> {
  applyChatRules(body, changes?.tools === undefined);
  yield;
  const values = yield* chat.validator.pieces(body, exact);
  if (values === FAIL) throw new NotPlain();
  yield;
  if (Object.hasOwn(values, "error")) throw new Refused((values as { readonly error: ErrorAnswer }).error);
  return yield* toChatPieces(values as ChatValues, body, limits, exact, changes);
}

/** Thrown to leave the fast path: the exact parser decides. */
class NotPlain {}
