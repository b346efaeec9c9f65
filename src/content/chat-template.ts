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
  /** The same, left now and then; absent: all in one go. */
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
  (...given: Given): PromptPart[] => {
    const work = pieces(...given);
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
    }
  },
  { pieces },
);

function* pieces(...given: Given): Generator<void, PromptPart[], void> {
  const [messages, addGenerationPrompt, continueFinalMessage, tools] = given;
  const parts: PromptPart[] = [];
  if (tools?.length) {
    let text = "";
    for (const [i, tool] of tools.entries()) {
      text += (i > 0 ? "\n" : "") + JSON.stringify(tool);
      if ((i + 1) % A_PIECE === 0) yield;
    }
    push(parts, "developer", text, HARMONY.end);
  }
  for (const [i, { role, content, toolCalls }] of messages.entries()) {
    if (content !== null || !toolCalls?.length) push(parts, role, content ?? "", HARMONY.end);
    for (const call of toolCalls ?? []) push(parts, role, JSON.stringify(call), HARMONY.call);
    if ((i + 1) % A_PIECE === 0) yield;
  }
  if (continueFinalMessage) parts.pop();
  if (addGenerationPrompt) parts.push(HARMONY.start, "assistant", HARMONY.message);
  return parts;
}

function push(parts: PromptPart[], role: string, content: string, end: number): void {
  parts.push(HARMONY.start, role, HARMONY.message, content, end);
}
