/**
 * What else asks for chat and completions? `/v1/chat/completions/batch`, several conversations in one request, and
 * `/invocations` of SageMaker, which is whichever of the two a body is (vLLM 0.33, `chat_completion/batch_serving.py`,
 * `entrypoints/serve/sagemaker/api_router.py`).
 */
import { badRequest, validationRefusal } from "./errors.ts";
import { type Read, readChat } from "./read.ts";
import type { ChatMessage, ChatRequest, Limits } from "./request.ts";

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
  if (parsed!.stream === true)
    return { error: validationRefusal("Batch chat completions do not support streaming.", "stream").answer };
  const conversations: (readonly ChatMessage[])[] = [];
  let first: ChatRequest | null = null;
  for (const messages of lists) {
    const one = Buffer.from(JSON.stringify({ ...parsed, messages }));
    const read = readChat(one, contentType, limits);
    if ("error" in read) return read;
    first ??= read.request;
    conversations.push(read.request.messages);
  }
  return { request: { ...first!, conversations } };
}

/** What a body for `/invocations` asks for. */
export function invoked(body: Uint8Array): "chat" | "completion" {
  return plain(body)?.messages === undefined ? "completion" : "chat";
}

function plain(body: Uint8Array): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
