/**
 * What else asks for chat and completions? `/v1/chat/completions/batch`, several conversations in one request, and
 * `/invocations` of SageMaker, which is whichever of the two a body is (vLLM 0.33, `chat_completion/batch_serving.py`,
 * `entrypoints/serve/sagemaker/api_router.py`).
 */
import { badRequest, validationError } from "./errors.ts";
import { type Read, readChat, readCompletion } from "./read.ts";
import type { ChatMessage, ChatRequest, CompletionRequest, ErrorAnswer, Limits } from "./request.ts";

/** Most conversations of one batch; vLLM has no such limit. */
const MOST = 1024;

/** A batch as one request: all of it but its conversations comes from the first. */
export function readBatch(body: Uint8Array, contentType: string | null, limits: Limits): Read<ChatRequest> {
  const parsed = plain(body);
  const lists = parsed?.messages;
  // Whatever is no list of conversations is what chat says of it.
  if (!Array.isArray(lists) || lists.length === 0 || !lists.every(Array.isArray))
    return readChat(body, contentType, limits);
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

/** What a body for `/invocations` is read as: the first kind of request that it fits. */
export function readInvocation(
  body: Uint8Array,
  contentType: string | null,
  limits: Limits,
): Read<ChatRequest | CompletionRequest> {
  const parsed = plain(body);
  if (parsed?.messages !== undefined) return readChat(body, contentType, limits);
  if (parsed !== null && parsed.prompt === undefined && parsed.prompt_embeds === undefined) return { error: noHandler };
  return readCompletion(body, contentType, limits);
}

const noHandler = badRequest(
  "Cannot find suitable handler for request. Expected one of: ['ChatCompletionRequest', 'CompletionRequest']",
);

function plain(body: Uint8Array): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
