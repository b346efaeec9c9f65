/**
 * What else asks for chat and completions? `/v1/chat/completions/batch`, several conversations in one request, and
 * `/invocations` of SageMaker, which is whichever of the two a body is (vLLM 0.33, `chat_completion/batch_serving.py`,
 * `entrypoints/serve/sagemaker/api_router.py`).
 */

import type { BodyReader } from "../../openai/pipeline/form.ts";
import { badRequest, validationError } from "../../openai/request/errors.ts";
import type { ChatMessage, ChatRequest, CompletionRequest, Limits } from "../../openai/request/request.ts";
import { placeIn } from "../../pydantic/json.ts";
import { asText, type Body, isJson, jsonFailure, type ReadBody } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, errorAnswer } from "../../pydantic/refusals.ts";
import type { LineError } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { formed, formOf, readChat, readCompletion } from "./read.ts";

/** Most conversations of one batch; vLLM has no such limit. */
const MOST = 1024;

export const batchReader: BodyReader = { read: (...given) => formed(readBatch(...given)), thread: "batch", formOf };
export const invocationReader: BodyReader = {
  read: (...given) => formed(readInvocation(...given)),
  thread: "invocation",
  formOf,
};

/** A batch as one request: all of it but its conversations comes from the first. */
export function readBatch(body: Body, contentType: string | null, limits: Limits): ReadBody<ChatRequest> {
  const parsed = plain(body);
  const lists = parsed?.messages;
  // Whatever is no list, or of another type, is what chat says of it.
  if (!Array.isArray(lists) || !isJson(contentType)) return readChat(body, contentType, limits);
  const misshapen = shapeErrors(lists);
  if (misshapen.length > 0) return { error: validationErrors(misshapen) };
  if (lists.length > MOST) return { error: badRequest(`at most ${MOST} conversations make a batch`, "messages") };
  const wrong = limitsOfBatch(parsed!);
  if (wrong !== null) return { error: wrong };
  const conversations: (readonly ChatMessage[])[] = [];
  let first: ChatRequest | null = null;
  for (const messages of lists) {
    const one = Buffer.from(JSON.stringify({ ...parsed, messages, stream: false, stream_options: undefined }));
    const read = readChat(one, contentType, limits);
    if ("error" in read) return read;
    first ??= read.request;
    conversations.push(read.request.messages);
  }
  return { request: { ...first!, conversations } };
}

/** At least one conversation, of at least one message each. */
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

/** What the batch's own validator refuses; it knows no streams, and passes over what asks for them. */
function limitsOfBatch({ use_beam_search: beams, n = 1 }: Record<string, unknown>): ErrorAnswer | null {
  if (beams)
    return validationError(
      "Batch chat completions do not support beam search. Please set `use_beam_search` to False.",
      "use_beam_search",
    );
  if (n === null || n === 1) return null;
  return validationError("Batch chat completions do not support `n > 1`. Please set `n` to 1.", "n", String(n));
}

/**
 * What a body for `/invocations` is read as: the first kind of request whose fields it fits. A model is not looked at:
 * SageMaker names adapters in a header of its own.
 */
export function readInvocation(
  body: Body,
  contentType: string | null,
  limits: Limits,
): ReadBody<ChatRequest | CompletionRequest> {
  const parsed = plain(body);
  if (parsed === null) return unreadable(body, contentType, limits);
  const { model: _, ...rest } = parsed;
  const given = Buffer.from(JSON.stringify(rest));
  for (const read of [readChat, readCompletion]) {
    const request = read(given, contentType, limits);
    if (!("error" in request) || !request.error.body.includes(OF_FIELDS)) return request;
  }
  return { error: noHandler };
}

/** How the type of errors in single fields is called. */
const OF_FIELDS = '"type":"Bad Request"';

function unreadable(body: Body, contentType: string | null, limits: Limits): ReadBody<ChatRequest> {
  const failure = jsonFailure(body);
  const other = readChat(body, contentType, limits);
  if (failure === null || !("error" in other) || !other.error.body.includes("json_invalid")) return other;
  const where = placeIn(asText(body).python ?? "", failure.position);
  return { error: errorAnswer(`JSON decode error: ${failure.message}: ${where}`, "Bad Request", null, 400) };
}

const noHandler = badRequest(
  "Cannot find suitable handler for request. Expected one of: ['ChatCompletionRequest', 'CompletionRequest']",
);

function plain(body: Body): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(asText(body).python ?? "");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
