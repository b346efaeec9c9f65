/** Finds the texts of a request that may ask for JSON in words (`--answers prompted-json`); other threads look into them. */

import type { PromptedJson } from "../../../text/grammar/prompted-json.ts";
import type { OrderedCalls } from "./constrained.ts";
import type { ChatMessage, ChatRequest, CompletionRequest } from "./request.ts";

/** What is to be done with prompts that ask for JSON. */
export interface PromptedWish {
  /** True if an answer is JSON although its prompt asks for none: a fixture says so. */
  readonly always: boolean;
  /** Hears why a schema of a prompt cannot be answered to. */
  readonly notice: (why: string) => void;
}

/** Characters of a prompt that are looked at, half of them at its beginning and half at its end. */
export const PROMPT_MOST = 524_288;

/** Returns what is to be written for each prompt of the request; null for a prompt without any sign of JSON. */
export function promptedJson(
  request: ChatRequest | CompletionRequest,
  { always }: PromptedWish,
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

/** Answers and results of tools are data. */
function textsOf(messages: readonly ChatMessage[]): string[] {
  return messages.flatMap(({ role, content }) => (INSTRUCTING.includes(role) && content ? [content] : []));
}

const hasSign = (text: string) => text.includes("{") || /json/i.test(text);

/** Leaves the middle of long texts out. */
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

/** True if the conversation ends with what a tool gave, in the forms of Qwen-Agent: who has been told does not ask again. */
function isAnswered(messages: readonly ChatMessage[]): boolean {
  const last = messages.at(-1);
  if (last === undefined || last.role === "tool") return true;
  const text = last.content ?? "";
  return text.trimStart().startsWith("<tool_response>") || text.trimEnd().endsWith("✿RETURN✿");
}
