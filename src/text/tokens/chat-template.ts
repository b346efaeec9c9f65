/**
 * Renders conversations with the built-in template, in the form of OpenAI's harmony: `<|start|>role<|message|>content<|end|>` per
 * message, and `<|start|>assistant<|message|>` for the answer. A prompt with its answer is the start of the next turn's prompt,
 * so that a conversation finds its blocks in the prefix cache. Control tokens are IDs, so that a user's text cannot become one.
 */
import type { PromptPart } from "./types.ts";
import { HARMONY } from "./vocabulary.ts";

/** A message as templates read it. The prompt has unknown roles unchanged. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | null;
  readonly toolCalls?: readonly unknown[] | null;
  /** The next members are only for templates of models. */
  readonly name?: string | null;
  readonly toolCallId?: string | null;
  /** True if the calls are from items of a response. Then the name comes before the arguments. */
  readonly callsAsMade?: boolean;
}

type ChatInput = [
  messages: readonly TemplateMessage[],
  addGenerationPrompt: boolean,
  continueFinalMessage: boolean,
  tools: readonly unknown[] | null,
  /** Other variables for a model's template. */
  variables?: Readonly<Record<string, unknown>>,
];

/** Renders a conversation as a prompt. Throws `TemplateRefusal`. */
export interface RenderChat {
  (...input: ChatInput): PromptPart[];
  /** Renders in pieces, so that the caller can do other work between them. Absent if that is not supported. */
  readonly pieces?: (...input: ChatInput) => Generator<void, PromptPart[], void>;
}

/** Error of a model's template that refuses the conversation, or of a model without a template. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}

/** Tools or messages in a piece. */
const ITEMS_OF_A_PIECE = 64;

/**
 * Renders a prompt as parts for the encoder. With `continueFinalMessage` the last message lacks its end, so that the answer
 * continues it. Tools are JSON in a message before all others. Tool calls are JSON in messages after the content.
 */
export const renderChat: RenderChat = Object.assign(
  (...[messages, addGenerationPrompt, continueFinalMessage, tools]: ChatInput): PromptPart[] => {
    const parts: PromptPart[] = [];
    if (tools?.length) push(parts, "developer", listed(tools), HARMONY.end);
    addMessages(parts, messages);
    close(parts, addGenerationPrompt, continueFinalMessage);
    return parts;
  },
  { pieces },
);

function* pieces(...input: ChatInput): Generator<void, PromptPart[], void> {
  const [messages, addGenerationPrompt, continueFinalMessage, tools] = input;
  const parts: PromptPart[] = [];
  if (tools?.length) {
    const texts: string[] = [];
    for (let at = 0; at < tools.length; at += ITEMS_OF_A_PIECE) {
      texts.push(listed(tools.slice(at, at + ITEMS_OF_A_PIECE)));
      yield;
    }
    push(parts, "developer", texts.join("\n"), HARMONY.end);
  }
  for (let at = 0; at < messages.length; at += ITEMS_OF_A_PIECE) {
    addMessages(parts, messages.slice(at, at + ITEMS_OF_A_PIECE));
    yield;
  }
  close(parts, addGenerationPrompt, continueFinalMessage);
  return parts;
}

const listed = (tools: readonly unknown[]) => tools.map((tool) => JSON.stringify(tool)).join("\n");

function addMessages(parts: PromptPart[], messages: readonly TemplateMessage[]): void {
  for (const { role, content, toolCalls } of messages) {
    if (content !== null || !toolCalls?.length) push(parts, role, content ?? "", HARMONY.end);
    for (const call of toolCalls ?? []) push(parts, role, JSON.stringify(call), HARMONY.call);
  }
}

function close(parts: PromptPart[], addGenerationPrompt: boolean, continueFinalMessage: boolean): void {
  if (continueFinalMessage) parts.pop();
  if (addGenerationPrompt) parts.push(HARMONY.start, "assistant", HARMONY.message);
}

function push(parts: PromptPart[], role: string, content: string, end: number): void {
  parts.push(HARMONY.start, role, HARMONY.message, content, end);
}
