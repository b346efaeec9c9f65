/**
 * How does a conversation become one prompt?
 *
 * In the form of OpenAI's harmony: `<|start|>role<|message|>content<|end|>` per message, and `<|start|>assistant<|message|>`
 * to ask for the answer. A prompt with its answer is then the beginning of the next turn's prompt, so a conversation
 * finds its own blocks in the prefix cache. Control tokens are ids: what a user writes can never become one.
 */
import type { PromptPart } from "./types.ts";
import { HARMONY } from "./vocabulary.ts";

/** What the template reads of a message. Other roles than the usual stand in the prompt as they are. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | null;
  readonly toolCalls?: readonly unknown[] | null;
  /** Only templates of models read these. */
  readonly name?: string | null;
  readonly toolCallId?: string | null;
  /** Calls were made of a response's items: the name stands in front. */
  readonly callsAsMade?: boolean;
}

/** Throws `TemplateRefusal`. `more`: names that a model's template may read besides. */
export type RenderChat = (
  messages: readonly TemplateMessage[],
  addGenerationPrompt: boolean,
  continueFinalMessage: boolean,
  tools: readonly unknown[] | null,
  more?: Readonly<Record<string, unknown>>,
) => PromptPart[];

/** A model's template refused the conversation, or it has none. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}

/** Tokens of a message beside its content, when its role is one token: start, role, message, end. */
export const TOKENS_PER_MESSAGE = 4;
/** Tokens that ask for the answer: start, assistant, message. */
export const TOKENS_PER_GENERATION_PROMPT = 3;

/**
 * The prompt as parts for the encoder. `continueFinalMessage`: the last message stays open, so the answer goes on with
 * it. Tools stand as JSON in a message of their own in front, tool calls as JSON in messages after their content.
 */
export function renderChat(
  messages: readonly TemplateMessage[],
  addGenerationPrompt: boolean,
  continueFinalMessage: boolean,
  tools: readonly unknown[] | null,
): PromptPart[] {
  const parts: PromptPart[] = [];
  if (tools?.length) push(parts, "developer", tools.map((tool) => JSON.stringify(tool)).join("\n"), HARMONY.end);
  for (const { role, content, toolCalls } of messages) {
    if (content !== null || !toolCalls?.length) push(parts, role, content ?? "", HARMONY.end);
    for (const call of toolCalls ?? []) push(parts, role, JSON.stringify(call), HARMONY.call);
  }
  if (continueFinalMessage) parts.pop();
  if (addGenerationPrompt) parts.push(HARMONY.start, "assistant", HARMONY.message);
  return parts;
}

function push(parts: PromptPart[], role: string, content: string, end: number): void {
  parts.push(HARMONY.start, role, HARMONY.message, content, end);
}
