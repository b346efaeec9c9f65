/** Finds prompts that may ask for JSON in words (`--answers prompted-json`). The encoder's thread then writes the JSON. */

import type { PromptedJson } from "../../../text/grammar/prompted-json.ts";
import type { OrderedCalls } from "./constrained.ts";
import type { ChatMessage, GenerationRequest } from "./request.ts";

/** Options for prompts that ask for JSON. */
export interface PromptedJsonOptions {
  /** True if the answer is JSON even without a sign of JSON in the prompt, because a fixture orders it. */
  readonly always: boolean;
  /** Called with the reason why no JSON fits a schema in a prompt. */
  readonly notice: (why: string) => void;
}

/** Most characters of a prompt that are searched: half of them at its beginning, half at its end. */
export const PROMPT_MOST = 524_288;

/**
 * Returns the form of the answer to each prompt of the request, or null for a prompt without any sign of JSON. `share`: of
 * answers that call a tool, unless `calls` decides it.
 */
export function promptedJson(
  request: GenerationRequest,
  { always }: PromptedJsonOptions,
  mustBeObject: boolean,
  share: number,
  calls: OrderedCalls,
): (PromptedJson | null)[] {
  const prompts =
    request.kind === "chat"
      ? (request.conversations ?? [request.messages]).map((messages) => ({ texts: textsOf(messages), messages }))
      : request.prompts.map((prompt) => ({ texts: typeof prompt === "string" ? [prompt] : [], messages: [] }));
  return prompts.map(({ texts, messages }) => {
    const seen = bothEnds(texts);
    if (!always && !seen.some(hasSign)) return null;
    const called = Array.isArray(calls)
      ? calls
      : calls === true
        ? 1
        : calls === false || isAnswered(messages)
          ? 0
          : share;
    return { kind: "prompted", texts: seen, mustBeObject, always, calls: called };
  });
}

const INSTRUCTING = ["system", "developer", "user"];

/** Returns the texts that may ask for JSON. Answers and results of tools are only data. */
function textsOf(messages: readonly ChatMessage[]): string[] {
  return messages.flatMap(({ role, content }) => (INSTRUCTING.includes(role) && content ? [content] : []));
}

const hasSign = (text: string) => text.includes("{") || /json/i.test(text);

/** Returns the beginning and the end of the texts. Leaves out the middle if they are too long together. */
function bothEnds(texts: readonly string[]): string[] {
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= PROMPT_MOST) return [...texts];
  const [from, to] = [PROMPT_MOST / 2, length - PROMPT_MOST / 2];
  let at = 0;
  return texts.flatMap((text) => {
    const begin = at;
    at += text.length;
    const ends = [text.slice(0, Math.max(0, from - begin)), text.slice(Math.max(0, to - begin))];
    return ends.filter((end) => end !== "");
  });
}

/** Reports whether the conversation ends with the result of a tool, perhaps as text in a format of Qwen-Agent. */
function isAnswered(messages: readonly ChatMessage[]): boolean {
  const last = messages.at(-1);
  if (last === undefined || last.role === "tool") return true;
  const text = last.content ?? "";
  return text.trimStart().startsWith("<tool_response>") || text.trimEnd().endsWith("✿RETURN✿");
}
