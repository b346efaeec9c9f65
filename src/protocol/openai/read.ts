/** Which bodies are chat, which completions? */

import type { ChatChanges } from "../dialect.ts";
import { Refused } from "../errors.ts";
import type { Pieces } from "../pieces.ts";
import type { PythonDict } from "../python-value.ts";
import { type Kind, type Read, readBody, readBodyPieces } from "../read-body.ts";
import type { ChatRequest, CompletionRequest, ErrorAnswer, Limits } from "../request.ts";
import { FAIL } from "../types.ts";
import { validator } from "../validate.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "./fields.ts";
import { applyChatRules, applyCompletionRules } from "./rules.ts";
import { toChat, toChatPieces, toCompletion } from "./translate.ts";

const chat: Kind<typeof chatFields, ChatRequest> = {
  validator: validator(chatFields),
  rules: applyChatRules,
  translate: (values, body, limits, exact) => toChat(values as ChatValues, body, limits, exact),
  translatePieces: (values, body, limits, exact) => toChatPieces(values as ChatValues, body, limits, exact),
};
const completion: Kind<typeof completionFields, CompletionRequest> = {
  validator: validator(completionFields),
  rules: applyCompletionRules,
  translate: (values, body, limits, exact) => toCompletion(values as CompletionValues, body, limits, exact),
};

/** Body of `/v1/chat/completions`: a request with every default filled in, or the answer that vLLM gives before it renders and tokenizes. */
export function readChat(body: Uint8Array, contentType: string | null, limits: Limits): Read<ChatRequest> {
  return readBody(chat, body, contentType, limits);
}

/** Body of `/v1/completions`, likewise. */
export function readCompletion(body: Uint8Array, contentType: string | null, limits: Limits): Read<CompletionRequest> {
  return readBody(completion, body, contentType, limits);
}

/** Both in pieces, for large bodies. */
export const chatPieces = (body: Uint8Array, type: string | null, limits: Limits): Pieces<Read<ChatRequest>> =>
  readBodyPieces(chat, body, type, limits);
export const completionPieces = (
  body: Uint8Array,
  type: string | null,
  limits: Limits,
): Pieces<Read<CompletionRequest>> => readBodyPieces(completion, body, type, limits);

/** A chat that another dialect made, likewise. `exact` false: what is not plainly right is only said to be so. Throws `Refused`. */
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

/** Ends the fast path. */
class NotPlain {}
