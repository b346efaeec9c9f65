/**
 * Reads the bodies of two more routes: `/v1/chat/completions/batch`, which has several conversations, and SageMaker's
 * `/invocations`, which accepts a chat or a completion. Source: vLLM 0.33, `chat_completion/batch_serving.py` and
 * `entrypoints/serve/sagemaker/api_router.py`.
 */

import { jsonObjectIn } from "../../../base/json-object.ts";
import type { BodyReader } from "../../openai/pipeline/form.ts";
import { badRequest, validationError } from "../../openai/request/errors.ts";
import type { ChatMessage, ChatRequest, GenerationRequest, Limits } from "../../openai/request/request.ts";
import { placeIn } from "../../pydantic/json.ts";
import { asText, type Body, isJson, jsonFailure, type ReadBody } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, errorAnswer } from "../../pydantic/refusals.ts";
import type { LineError } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { formOf, readChat, readCompletion, withForm } from "./read.ts";

/** Most conversations of a batch. vLLM has no limit. */
const MAX_CONVERSATIONS = 1024;

export const batchReader: BodyReader = { read: (...input) => withForm(readBatch(...input)), thread: "batch", formOf };
export const invocationReader: BodyReader = {
  read: (...input) => withForm(readInvocation(...input)),
  thread: "invocation",
  formOf,
};

/** Reads a batch as one request: that of the first conversation, with the list of all conversations. */
export function readBatch(body: Body, contentType: string | null, limits: Limits): ReadBody<ChatRequest> {
  const parsed = jsonObjectIn(asText(body).python);
  const lists = parsed?.messages;
  // The chat's reader writes the errors of messages that are no list and of other content types.
  if (!Array.isArray(lists) || !isJson(contentType)) return readChat(body, contentType, limits);
  const errors = shapeErrors(lists);
  if (errors.length > 0) return { error: validationErrors(errors) };
  if (lists.length > MAX_CONVERSATIONS)
    return { error: badRequest(`a batch has at most ${MAX_CONVERSATIONS} conversations`, "messages") };
  const refusal = batchError(parsed!);
  if (refusal !== null) return { error: refusal };
  const conversations: (readonly ChatMessage[])[] = [];
  let first: ChatRequest | null = null;
  for (const messages of lists) {
    const chat = Buffer.from(JSON.stringify({ ...parsed, messages, stream: false, stream_options: undefined }));
    const read = readChat(chat, contentType, limits);
    if ("error" in read) return read;
    first ??= read.request;
    conversations.push(read.request.messages);
  }
  return { request: { ...first!, conversations } };
}

/** Returns the errors of a batch that lacks conversations or has one without messages. */
function shapeErrors(lists: readonly unknown[]): LineError[] {
  const empty = (loc: (string | number)[]): LineError => ({
    type: "too_short",
    loc,
    message: "List should have at least 1 item after validation, not 0",
    input: [],
    context: { field_type: "List", min_length: 1, actual_length: 0 },
  });
  if (lists.length === 0) return [empty(["body", "messages"])];
  return lists.flatMap((list, i): LineError[] => {
    const loc = ["body", "messages", i];
    if (!Array.isArray(list))
      return [{ type: "list_type", loc, message: "Input should be a valid list", input: list as PythonValue }];
    return list.length === 0 ? [empty(loc)] : [];
  });
}

/** Returns the error of the batch's own validator, or null. It does not refuse streams: a batch ignores `stream`. */
function batchError({ use_beam_search: beams, n = 1 }: Record<string, unknown>): ErrorAnswer | null {
  if (beams)
    return validationError(
      "Batch chat completions do not support beam search. Please set `use_beam_search` to False.",
      "use_beam_search",
    );
  if (n === null || n === 1) return null;
  return validationError("Batch chat completions do not support `n > 1`. Please set `n` to 1.", "n", String(n));
}

/**
 * Reads a body of `/invocations` as a chat if it fits the fields of a chat, else as a completion. Ignores `model`, because
 * SageMaker names adapters in a header.
 */
export function readInvocation(body: Body, contentType: string | null, limits: Limits): ReadBody<GenerationRequest> {
  const parsed = jsonObjectIn(asText(body).python);
  if (parsed === null) return unreadable(body, contentType, limits);
  const { model: _, ...rest } = parsed;
  const withoutModel = Buffer.from(JSON.stringify(rest));
  for (const read of [readChat, readCompletion]) {
    const request = read(withoutModel, contentType, limits);
    if (!("error" in request) || !request.error.body.includes(FIELD_ERROR)) return request;
  }
  return { error: noHandler };
}

/** Text that every error about wrong fields contains and no other error contains. */
const FIELD_ERROR = '"type":"Bad Request"';

/** Returns the error for a body that is no JSON object. Invalid JSON has this route's own error, other bodies that of a chat. */
function unreadable(body: Body, contentType: string | null, limits: Limits): ReadBody<ChatRequest> {
  const failure = jsonFailure(body);
  const read = readChat(body, contentType, limits);
  if (failure === null || !("error" in read) || !read.error.body.includes("json_invalid")) return read;
  const where = placeIn(asText(body).python ?? "", failure.position);
  return { error: errorAnswer(`JSON decode error: ${failure.message}: ${where}`, "Bad Request", null, 400) };
}

const noHandler = badRequest(
  "Cannot find suitable handler for request. Expected one of: ['ChatCompletionRequest', 'CompletionRequest']",
);
