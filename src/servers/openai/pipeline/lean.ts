/** What of a request is needed behind its prompts? In the reading thread: what is left out here, the loop never sees. */

import { atOnce } from "../../../base/pieces.ts";
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import { packed } from "../../../text/tokens/packed-parts.ts";
import type { ThreadAnswer, ThreadStart } from "../front/reading/messages.ts";
import { promptPieces } from "../request/prompts.ts";
import type { ChatMessage, ChatRequest, CompletionRequest, Limits } from "../request/request.ts";

export function leanAnswer(
  request: ChatRequest | CompletionRequest,
  keeps: ThreadStart,
  renderChat: RenderChat,
  limits: Limits,
): ThreadAnswer {
  const prompts = atOnce(promptPieces(request, renderChat, limits));
  if ("error" in prompts) return prompts;
  const lean = request.kind === "chat" ? leanChat(request) : leanCompletion(request);
  const tools = request.kind === "chat" ? toolsOf(request, keeps) : null;
  return { read: { request: lean, tools, prompts: prompts.map((one) => (Array.isArray(one) ? packed(one) : one)) } };
}

function toolsOf({ tools, toolChoice }: ChatRequest, { keepsTools }: ThreadStart): string | null {
  return keepsTools && toolChoice !== "none" && tools !== null ? JSON.stringify(tools) : null;
}

function leanChat(request: ChatRequest): ChatRequest {
  const { messages, conversations, tools } = request;
  return {
    ...request,
    messages: lastOf(messages),
    ...(conversations && { conversations: conversations.map((one) => one.slice(-1)) }),
    tools: tools && [],
    templateNames: null,
  };
}

/** Who spoke last, and the last of the user's: an answer may go on with them, or say them again. */
function lastOf(messages: readonly ChatMessage[]): ChatMessage[] {
  const last = messages.at(-1);
  const user = messages.findLast(({ role }) => role === "user");
  return [...new Set([user, last])].flatMap((one) => (one === undefined ? [] : [{ ...one, toolCalls: null }]));
}

function leanCompletion(request: CompletionRequest): CompletionRequest {
  if (request.echo) return request;
  return { ...request, prompts: request.prompts.map((prompt) => (typeof prompt === "string" ? "" : prompt)) };
}
