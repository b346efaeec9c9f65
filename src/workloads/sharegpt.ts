/**
 * Reads ShareGPT files: conversations, of which the first two turns are a prompt and its answer, as in vLLM 0.33
 * (`benchmarks/datasets`, ShareGPT). Rows of OpenAI `messages` are read, too. There are no times and no token counts.
 */
import { jsonObjectIn, looseObject } from "../base/json-object.ts";
import type { Element } from "./elements.ts";
import type { TraceItem } from "./trace.ts";

export const SHAREGPT_EXPECTED =
  'a conversation such as {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]} or {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}';

/** Returns a stated estimate: a token for each four bytes of UTF-8 begun, at least one. */
export function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / 4));
}

export interface PromptAndAnswer {
  readonly prompt: string;
  readonly answer: string;
}

/** `passOver` is called with the reason for each conversation that has no prompt or no answer. Every arrival is at 0. */
export function* sharegpt(found: Iterable<Element>, passOver: (reason: string) => void): Generator<TraceItem> {
  for (const { line, text } of found) {
    const pair = pairOf(text);
    if (pair === null) yield { line, expected: SHAREGPT_EXPECTED };
    else if (typeof pair === "string") passOver(pair);
    else {
      const [promptTokens, outputTokens] = [estimateTokens(pair.prompt), estimateTokens(pair.answer)];
      yield { line, arrivalUs: 0, promptTokens, outputTokens, blockIds: null };
    }
  }
}

/** Returns prompt and answer of a row, the reason why it has none, or null if it is not a conversation. */
export function pairOf(text: string | null): PromptAndAnswer | string | null {
  const { conversations, conversation, messages } = jsonObjectIn(text) ?? {};
  const turns = conversations ?? conversation;
  if (turns === undefined && messages !== undefined) return pairOfMessages(messages);
  if (!Array.isArray(turns)) return null;
  const values = turns.slice(0, 2).map((turn) => turn?.value ?? turn?.content);
  if (!values.every((value) => typeof value === "string")) return null;
  return values.length < 2 ? "fewer than two turns" : { prompt: values[0]!, answer: values[1]! };
}

/** The prompt is the text of all messages before the first answer of the assistant. */
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

/** Content is a text, null (a tool call), or parts, of which those with text count. */
function textOf(content: unknown): string | null {
  if (content === null || typeof content === "string") return content ?? "";
  if (!Array.isArray(content)) return null;
  return content.map((part) => looseObject(part)?.text ?? "").join("");
}
