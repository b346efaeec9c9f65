/**
 * What does a ShareGPT file say? Conversations; the first two turns of each are a prompt and its answer, as vLLM's
 * benchmark takes them (vLLM 0.33 `benchmarks/datasets`, ShareGPT). It has no times and, without a tokenizer, no token counts.
 */
import { jsonObjectIn } from "../config/json-object.ts";
import type { Element } from "./elements.ts";
import type { TraceItem } from "./trace.ts";

const EXPECTED =
  'a conversation such as {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}';

/** A stated estimate: a token for each four bytes of UTF-8 begun, at least one. */
export function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / 4));
}

/** `passOver` is told of each conversation with fewer than two turns. Every arrival is at 0. */
export function* sharegpt(found: Iterable<Element>, passOver: () => void): Generator<TraceItem> {
  for (const { line, text } of found) {
    const turns = turnsOf(text);
    if (turns === null) yield { line, expected: EXPECTED };
    else if (turns.length < 2) passOver();
    else {
      const [prompt, answer] = turns as [string, string];
      const [promptTokens, outputTokens] = [estimateTokens(prompt), estimateTokens(answer)];
      yield { line, arrivalUs: 0, promptTokens, outputTokens, blockIds: null };
    }
  }
}

/** At most two; null where it is no conversation. */
function turnsOf(text: string | null): string[] | null {
  const { conversations, conversation } = jsonObjectIn(text) ?? {};
  const turns = conversations ?? conversation;
  if (!Array.isArray(turns)) return null;
  const values = turns.slice(0, 2).map((turn) => turn?.value ?? turn?.content);
  return values.every((value) => typeof value === "string") ? values : null;
}
