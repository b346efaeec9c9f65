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

type Given = [
  messages: readonly TemplateMessage[],
  addGenerationPrompt: boolean,
  continueFinalMessage: boolean,
  tools: readonly unknown[] | null,
  /** Names that a model's template may read besides. */
  more?: Readonly<Record<string, unknown>>,
];

/** Throws `TemplateRefusal`. */
export interface RenderChat {
  (...given: Given): PromptPart[];
  /** Renders in pieces, so that the caller may do other work in between; absent: only all in one go. */
  readonly pieces?: (...given: Given) => Generator<void, PromptPart[], void>;
}

/** A model's template refused the conversation, or it has none. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}

/** Tokens of a message beside its content, when its role is one token: start, role, message, end. */
export const TOKENS_PER_MESSAGE = 4;
/** Tokens that ask for the answer: start, assistant, message. */
export const TOKENS_PER_GENERATION_PROMPT = 3;

/** Tools or messages that are written between two pieces. */
const A_PIECE = 64;

/**
 * The prompt as parts for the encoder. `continueFinalMessage`: the last message stays open, so the answer goes on with
 * it. Tools stand as JSON in a message of their own in front, tool calls as JSON in messages after their content.
 */
export const renderChat: RenderChat = Object.assign(
  (...[messages, addGenerationPrompt, continueFinalMessage, tools]: Given): PromptPart[] => {
    const parts: PromptPart[] = [];
    if (tools?.length) push(parts, "developer", listed(tools), HARMONY.end);
    say(parts, messages);
    close(parts, addGenerationPrompt, continueFinalMessage);
    return parts;
  },
  { pieces },
);

function* pieces(...given: Given): Generator<void, PromptPart[], void> {
  const [messages, addGenerationPrompt, continueFinalMessage, tools] = given;
  const parts: PromptPart[] = [];
  if (tools?.length) {
    const texts: string[] = [];
    for (let at = 0; at < tools.length; at += A_PIECE) {
      texts.push(listed(tools.slice(at, at + A_PIECE)));
      yield;
    }
    push(parts, "developer", texts.join("\n"), HARMONY.end);
  }
  for (let at = 0; at < messages.length; at += A_PIECE) {
    say(parts, messages.slice(at, at + A_PIECE));
    yield;
  }
  close(parts, addGenerationPrompt, continueFinalMessage);
  return parts;
}

const listed = (tools: readonly unknown[]) => tools.map((tool) => JSON.stringify(tool)).join("\n");

function say(parts: PromptPart[], messages: readonly TemplateMessage[]): void {
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
