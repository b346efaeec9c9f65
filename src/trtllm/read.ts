/** Which bodies are chat, which completions, and what form has the answer? */
import type { BodyReader, Form } from "../answer/form.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "../dialects/openai/fields.ts";
import { applyCompletionRules, checkChatLogprobs, checkMessages, normalizeMessages } from "../dialects/openai/rules.ts";
import { toChat, toChatPieces, toCompletion } from "../dialects/openai/translate.ts";
import { type BodyKind, type ReadBody, readerOf } from "../python/read-body.ts";
import type { ChatRequest, CompletionRequest, Int, Limits } from "../python/request.ts";
import { validator } from "../python/validate.ts";
import { get } from "../python/value.ts";
import { asTrtllm } from "./errors.ts";
import { CHAT_NAMES, COMPLETION_NAMES, toVllm } from "./fields.ts";
import { TrtllmChatForm, TrtllmCompletionForm } from "./form.ts";

const chat: BodyKind<typeof chatFields, ChatRequest> = {
  validator: validator(chatFields),
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
const completion: BodyKind<typeof completionFields, CompletionRequest> = {
  validator: validator(completionFields),
  rules(body) {
    toVllm(body, COMPLETION_NAMES);
    applyCompletionRules(body);
  },
  translate: (values, body, limits, exact) =>
    toCompletion(cut(values as CompletionValues, limits), body, limits, exact),
};

/** The two readers of a server. `served`: the model's own name; `nextId`: the number of a request. */
export function trtllmReaders(
  served: string,
  nextId: () => number,
): { readonly chat: BodyReader; readonly completion: BodyReader } {
  const formed = (read: ReadBody<ChatRequest | CompletionRequest>): ReturnType<BodyReader["read"]> => {
    if ("error" in read) return { error: asTrtllm(read.error) };
    const { request } = read;
    return { request, form: formOf(request, served, nextId) };
  };
  return { chat: readerOf(chat, formed), completion: readerOf(completion, formed) };
}

function formOf(request: ChatRequest | CompletionRequest, served: string, nextId: () => number): Form {
  const { model, stream } = request;
  const named = { model: model ?? "", stream, served, nextId };
  if (request.kind === "completion") return new TrtllmCompletionForm(named);
  const { toolChoice } = request;
  return new TrtllmChatForm(named, typeof toolChoice === "object" ? toolChoice : null);
}

/** More tokens than the context has are no mistake: the answer ends there. */
function cut<V extends { readonly max_tokens: Int | null }>(values: V, { maxModelLen }: Limits): V {
  const most = (given: Int | null | undefined) => (given && given > maxModelLen ? maxModelLen : given);
  const changed = Object.create(values) as Record<string, unknown>;
  for (const name of ["max_tokens", "max_completion_tokens"])
    if (name in values) changed[name] = most((values as Record<string, unknown>)[name] as Int | null);
  return changed as V;
}
