/**
 * Reduces a request to the parts that are needed after its prompts are made. Runs in the reading thread, so that the main
 * thread does not receive large unused objects.
 */

import { atOnce } from "../../../base/pieces.ts";
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import { packed } from "../../../text/tokens/packed-parts.ts";
import type { ThreadAnswer, ThreadStart } from "../front/reading/messages.ts";
import { promptPieces } from "../request/prompts.ts";
import type { ChatMessage, ChatRequest, CompletionRequest, GenerationRequest, Limits } from "../request/request.ts";

/** Makes the prompts of a request. Returns them with the reduced request, or an error. `start.keepsTools`: keeps the tools. */
export function leanAnswer(
  request: GenerationRequest,
  start: ThreadStart,
  renderChat: RenderChat,
  limits: Limits,
): ThreadAnswer {
  const prompts = atOnce(promptPieces(request, renderChat, limits));
  if ("error" in prompts) return prompts;
  const lean = request.kind === "chat" ? leanChat(request) : leanCompletion(request);
  const tools = request.kind === "chat" ? toolsOf(request, start) : null;
  return {
    read: { request: lean, tools, prompts: prompts.map((prompt) => (Array.isArray(prompt) ? packed(prompt) : prompt)) },
  };
}

function toolsOf({ tools, toolChoice }: ChatRequest, { keepsTools }: ThreadStart): string | null {
  return keepsTools && toolChoice !== "none" && tools !== null ? JSON.stringify(tools) : null;
}

function leanChat(request: ChatRequest): ChatRequest {
  const { messages, conversations, tools } = request;
  return {
    ...request,
    messages: lastOf(messages),
    ...(conversations && { conversations: conversations.map((messages) => messages.slice(-1)) }),
    tools: tools && [],
    templateNames: null,
  };
}

/** Returns the last message of all and the last of the user, because an answer may continue or repeat them. */
function lastOf(messages: readonly ChatMessage[]): ChatMessage[] {
  const last = messages.at(-1);
  const user = messages.findLast(({ role }) => role === "user");
  return [...new Set([user, last])].flatMap((message) =>
    message === undefined ? [] : [{ ...message, toolCalls: null }],
  );
}

function leanCompletion(request: CompletionRequest): CompletionRequest {
  if (request.echo) return request;
  return { ...request, prompts: request.prompts.map((prompt) => (typeof prompt === "string" ? "" : prompt)) };
}
