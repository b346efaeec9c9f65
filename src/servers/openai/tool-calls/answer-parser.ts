/**
 * Splits the text of a choice into reasoning, content and tool calls. The reasoning parser comes first, then the tool parser,
 * if the server has one. Like `DelegatingParser` of vLLM 0.33 (`parser/abstract_parser.py`).
 */
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { Delta, Message, ReasoningParser } from "./output.ts";
import { PartFinder } from "./part-finder.ts";
import { type ReasoningSetup, reasoningParser } from "./reasoning.ts";

/** Finds tool calls in the text after the reasoning. Implemented by `output-parser.ts`. */
export interface CallFinder {
  push(text: string, ids: readonly number[], finished: boolean): Delta | null;
  message(text: string): Message;
}

/** The parsers for the answers of one request. */
export interface ParserSetup {
  /** The reasoning parser. null if the server has none. */
  readonly reasoning: ReasoningSetup | null;
  /** False if the request switches reasoning off. */
  readonly thinks: boolean;
  /** The field `include_reasoning`. If false, reasoning is not shown. */
  readonly includeReasoning: boolean;
  /** Creates the tool parser of a choice. null if the server has no tool parser. */
  readonly tools: (() => CallFinder) | null;
  /** Parts of an ordered answer. Only its tool calls are then parsed. null: the parsers find the parts. */
  readonly parts: readonly AnswerPart[] | null;
}

/** Parses one choice: a stream by `push`, or a whole answer by `extract`. */
export class AnswerParser {
  readonly #setup: ParserSetup;
  readonly #reasoning: ReasoningParser | null;
  readonly #tools: CallFinder | null;
  readonly #parts: PartFinder | null;

  /** `thinkingIsOver`: the prompt has already closed the reasoning, so that the answer has none. */
  constructor(setup: ParserSetup, thinkingIsOver: boolean) {
    const { reasoning, thinks, tools, parts } = setup;
    this.#setup = setup;
    this.#reasoning = reasoning && reasoningParser(reasoning, thinks, thinkingIsOver);
    this.#tools = tools?.() ?? null;
    this.#parts = parts && new PartFinder(parts, this.#tools);
  }

  /** Reasoning tokens so far. null if the server has no reasoning parser. */
  get reasoningTokens(): number | null {
    if (this.#parts !== null) return this.#setup.reasoning && this.#parts.reasoningTokens;
    return this.#reasoning?.reasoningTokens ?? null;
  }

  /** Splits the text of a chunk. `finished`: it is the last chunk. Returns null if there is nothing to send. */
  push(text: string, ids: readonly number[], finished: boolean): Delta | null {
    this.#reasoning?.count(ids);
    const delta = this.#parse(text, ids, finished);
    return this.#setup.includeReasoning ? delta : withoutReasoning(delta);
  }

  #parse(text: string, ids: readonly number[], finished: boolean): Delta | null {
    if (this.#parts !== null) return this.#parts.push(text, ids, finished);
    const reasoning = this.#reasoning;
    if (reasoning === null || reasoning.ended) return this.#afterReasoning(text, ids, finished);
    const thoughts = reasoning.push(text, ids);
    if (!reasoning.ended) return finished ? joined(thoughts, reasoning.finish?.() ?? null) : thoughts;
    if (this.#tools === null) return thoughts;
    const delta = this.#tools.push(thoughts?.content ?? "", ids, finished);
    return thoughts?.reasoning ? { calls: [], ...delta, reasoning: thoughts.reasoning } : delta;
  }

  /** Splits text after the reasoning. */
  #afterReasoning(text: string, ids: readonly number[], finished: boolean): Delta | null {
    return this.#tools === null ? { content: text, calls: [] } : this.#tools.push(text, ids, finished);
  }

  /** Splits a whole answer. */
  extract(text: string, ids: readonly number[]): Message {
    if (this.#parts !== null) {
      const message = this.#parts.extract(text, ids);
      return this.#setup.includeReasoning ? message : { ...message, reasoning: null };
    }
    this.#reasoning?.count(ids);
    const { reasoning, content } = this.#reasoning?.extract(text) ?? { reasoning: null, content: text };
    const shown = this.#setup.includeReasoning ? reasoning : null;
    if (this.#tools === null) return { reasoning: shown, content, calls: [] };
    const message = this.#tools.message(content ?? "");
    // If no content follows the reasoning, the message's content is null instead of an empty text.
    const nothing = content === null && message.content === "" && message.calls.length === 0;
    return { ...message, reasoning: shown, content: nothing ? null : message.content };
  }
}

function joined(delta: Delta | null, rest: Delta | null): Delta | null {
  if (delta === null || rest === null) return delta ?? rest;
  return { ...delta, reasoning: (delta.reasoning ?? "") + (rest.reasoning ?? "") };
}

/** Removes the reasoning from a delta, for `include_reasoning: false`. Returns null if nothing else is left. */
function withoutReasoning(delta: Delta | null): Delta | null {
  if (delta === null || (!delta.content && delta.calls.length === 0)) return null;
  return { ...delta, reasoning: null };
}
