/** Which bodies are chat, which completions? */

import { type Kind, type Read, readBody } from "../read-body.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../request.ts";
import { validator } from "../validate.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "./fields.ts";
import { applyChatRules, applyCompletionRules } from "./rules.ts";
import { toChat, toCompletion } from "./translate.ts";

const chat: Kind<typeof chatFields, ChatRequest> = {
  validator: validator(chatFields),
  rules: applyChatRules,
  translate: (values, body, limits, exact) => toChat(values as ChatValues, body, limits, exact),
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
