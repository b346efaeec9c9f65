/** Reads answers that are ordered as a list of parts: reasoning, content and tool calls (docs/how-to/scripts.md). */
import { type GivenCall, givenCallsIn } from "./given-calls.ts";

/** One part of an answer. */
export interface AnswerPart {
  readonly kind: "reasoning" | "content" | "calls";
  /** Text of the part. Calls have "" until they are written in the format of a tool parser. */
  readonly text: string;
  /** Tool calls of a part of kind `calls`. Absent for other parts. */
  readonly calls?: readonly GivenCall[];
  /** Number of tokens of the text. Absent until the text is encoded. */
  readonly tokens?: number;
}

/** Most parts of an answer. */
export const PARTS_MOST = 1000;

/**
 * Reads a list of `{"reasoning": TEXT}`, `{"content": TEXT}` and `{"tool_calls": CALLS}`. Returns the parts, or the message of
 * an error.
 */
export function answerPartsIn(value: unknown): AnswerPart[] | string {
  if (!Array.isArray(value) || value.length === 0 || value.length > PARTS_MOST)
    return `must be a list of 1 to ${PARTS_MOST} parts`;
  const parts: AnswerPart[] = [];
  for (const [at, part] of value.entries()) {
    const [entry, ...more] = typeof part === "object" && part !== null ? Object.entries(part) : [];
    const [kind, text] = entry ?? [];
    if (kind === "tool_calls" && more.length === 0) {
      const calls = givenCallsIn(text);
      if (!Array.isArray(calls)) return `[${[at, "tool_calls", ...calls.at].join(".")}]: ${calls.message}`;
      parts.push({ kind: "calls", text: "", calls });
      continue;
    }
    if ((kind !== "reasoning" && kind !== "content") || typeof text !== "string" || text === "" || more.length > 0)
      return `[${at}] must be {"reasoning": TEXT} or {"content": TEXT}, not empty, or {"tool_calls": CALLS}`;
    parts.push({ kind, text });
  }
  return parts;
}

/** Returns the texts of the parts, joined. */
export const textOfParts = (parts: readonly AnswerPart[]): string => parts.map(({ text }) => text).join("");

/** Sets the number of tokens of each part. `bytesOf`: number of bytes of the n-th of the `count` tokens of the whole text. */
export function countedParts(
  parts: readonly AnswerPart[],
  count: number,
  bytesOf: (n: number) => number,
): AnswerPart[] {
  let at = 0;
  return parts.map((part) => {
    const from = at;
    let left = Buffer.byteLength(part.text);
    while (left > 0 && at < count) left -= bytesOf(at++);
    return { ...part, tokens: at - from };
  });
}
