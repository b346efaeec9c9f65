/** Reads bodies of chats and completions. Each reader checks a body and chooses the form of the answer. */

import type { BodyReader, Form } from "../openai/pipeline/form.ts";
import type { ChatRequest, CompletionRequest, GenerationRequest, Limits } from "../openai/request/request.ts";
import { asText, type Body, type BodyKind, namesJson, type ReadBody, readerOf } from "../pydantic/read-body.ts";
import { validator } from "../pydantic/validate.ts";
import { get, type Int } from "../pydantic/value.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "../vllm/openai/fields.ts";
import { applyCompletionRules, checkChatLogprobs, checkMessages, normalizeMessages } from "../vllm/openai/read.ts";
import { toChat, toChatPieces, toCompletion } from "../vllm/openai/translate.ts";
import { asTrtllm, uncaught, wrongFields } from "./errors.ts";
import { CHAT_NAMES, COMPLETION_NAMES, toVllm } from "./fields.ts";
import { TrtllmChatForm, TrtllmCompletionForm } from "./form.ts";

const chat: BodyKind<typeof chatFields, ChatRequest, Limits> = {
  validator: validator(chatFields, wrongFields),
  rules(body) {
    toVllm(body, CHAT_NAMES);
    const messages = get(body, "messages");
    checkMessages(messages);
    checkChatLogprobs(body);
    normalizeMessages(messages);
  },
  translate: (values, body, limits, exact) => toChat(cut(values as ChatValues, limits), body, limits, exact),
  translatePieces: (values, body, limits, exact) =>
    toChatPieces(cut(values as ChatValues, limits), body, limits, exact),
};
const completion: BodyKind<typeof completionFields, CompletionRequest, Limits> = {
  validator: validator(completionFields, wrongFields),
  rules(body) {
    toVllm(body, COMPLETION_NAMES);
    applyCompletionRules(body);
  },
  translate: (values, body, limits, exact) =>
    toCompletion(cut(values as CompletionValues, limits), body, limits, exact),
};

/**
 * Returns the readers for chats and for completions. `served`: name of the served model. `nextId`: returns the number of the
 * next request.
 */
export function trtllmReaders(
  served: string,
  nextId: () => number,
): { readonly chat: BodyReader; readonly completion: BodyReader } {
  const formed = (read: ReadBody<GenerationRequest>): ReturnType<BodyReader["read"]> => {
    if ("error" in read) return { error: asTrtllm(read.error) };
    const { request } = read;
    return { request, form: formOf(request, served, nextId) };
  };
  return { chat: byFastApi(readerOf(chat, formed)), completion: byFastApi(readerOf(completion, formed)) };
}

/**
 * Reads a body without a content type as JSON, as FastAPI 0.121 does. A body with another content type does not count as an
 * object and gets status 500.
 */
export function byFastApi({ read, pieces }: BodyReader): BodyReader {
  const isOther = (body: Body, type: string | null) => Boolean(type) && !namesJson(type) && !asText(body).empty;
  const json = "application/json";
  return {
    read: (body, type, limits) => (isOther(body, type) ? { error: uncaught } : read(body, json, limits)),
    ...(pieces && {
      *pieces(body: Body, type: string | null, limits: Limits) {
        return isOther(body, type) ? { error: uncaught } : yield* pieces(body, json, limits);
      },
    }),
  };
}

function formOf(request: GenerationRequest, served: string, nextId: () => number): Form {
  const { model, stream } = request;
  const identity = { model: model ?? "", stream, served, nextId };
  if (request.kind === "completion") return new TrtllmCompletionForm(identity);
  const { toolChoice } = request;
  return new TrtllmChatForm(identity, typeof toolChoice === "object" ? toolChoice : null);
}

/**
 * Limits token counts to the context length, because trtllm-serve accepts larger counts and ends the answer at the context
 * length.
 */
function cut<V extends { readonly max_tokens: Int | null }>(values: V, { maxModelLen }: Limits): V {
  const most = (given: Int | null | undefined) => (given && given > maxModelLen ? maxModelLen : given);
  const changed = Object.create(values) as Record<string, unknown>;
  for (const name of ["max_tokens", "max_completion_tokens"])
    if (name in values) changed[name] = most((values as Record<string, unknown>)[name] as Int | null);
  return changed as V;
}
