/**
 * Reads ShareGPT files. The first two turns of a conversation are a prompt and its answer, as in vLLM 0.33
 * (`benchmarks/datasets`, ShareGPT). Rows of OpenAI `messages` are accepted, too. There are no times and no token
 * counts.
 */
import { jsonObjectIn, looseObject } from "../base/json-object.ts";
import type { Element } from "./elements.ts";
import type { TraceItem } from "./trace.ts";

export const SHAREGPT_EXPECTED =
  'a conversation such as {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]} or {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}';

/** Estimates tokens: one per four bytes of UTF-8, rounded up, at least one. */
export function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / 4));
}

export interface PromptAndAnswer {
  readonly prompt: string;
  readonly answer: string;
}

/** `skipRow` is called with the reason for each conversation without a prompt or answer. Every request arrives at 0. */
export function* sharegpt(objects: Iterable<Element>, skipRow: (reason: string) => void): Generator<TraceItem> {
  for (const { line, text } of objects) {
    const pair = pairOf(text);
    if (pair === null) yield { line, expected: SHAREGPT_EXPECTED };
    else if (typeof pair === "string") skipRow(pair);
    else {
      const [promptTokens, outputTokens] = [estimateTokens(pair.prompt), estimateTokens(pair.answer)];
      yield { line, arrivalUs: 0, promptTokens, outputTokens, blockIds: null };
    }
  }
}

/** Returns prompt and answer of a row, the reason why one is missing, or null if the row is not a conversation. */
export function pairOf(text: string | null): PromptAndAnswer | string | null {
  const { conversations, conversation, messages } = jsonObjectIn(text) ?? {};
  const turns = conversations ?? conversation;
  if (turns === undefined && messages !== undefined) return pairOfMessages(messages);
  if (!Array.isArray(turns)) return null;
  const values = turns.slice(0, 2).map((turn) => turn?.value ?? turn?.content);
  if (!values.every((value) => typeof value === "string")) return null;
  return values.length < 2 ? "fewer than two turns" : { prompt: values[0]!, answer: values[1]! };
}

/** Returns the text of all messages before the assistant's first answer as the prompt. */
function pairOfMessages(messages: unknown): PromptAndAnswer | string | null {
  if (!Array.isArray(messages)) return null;
  const before: string[] = [];
  for (const message of messages) {
    const { role, content = null } = looseObject(message) ?? {};
    const text = textOf(content);
    if (typeof role !== "string" || text === null) return null;
    if (role !== "assistant") before.push(text);
    else if (before.length === 0) return "the assistant speaks first";
    else return text === "" ? "the first answer has no text" : { prompt: before.join("\n\n"), answer: text };
  }
  return "no answer of the assistant";
}

/** Content is a text, null (a tool call), or a list of parts, whose texts are joined. */
function textOf(content: unknown): string | null {
  if (content === null || typeof content === "string") return content ?? "";
  if (!Array.isArray(content)) return null;
  return content.map((part) => looseObject(part)?.text ?? "").join("");
}
