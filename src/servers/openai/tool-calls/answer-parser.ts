/**
 * What of an answer is thinking, what text, what calls? One parser per choice, fed with each chunk as it would be sent: first
 * thinking, then, where the server has a tool parser, calls. vLLM 0.33: `parser/abstract_parser.py`, DelegatingParser.
 */
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { Delta, Message, ReasoningParser } from "./output.ts";
import { PartFinder } from "./part-finder.ts";
import { type ReasoningSetup, reasoningParser } from "./reasoning.ts";

/** What takes apart the text behind the thinking: calls, as `output-parser.ts` finds them. */
export interface CallFinder {
  push(text: string, ids: readonly number[], finished: boolean): Delta | null;
  message(text: string): Message;
}

/** How the answers of one request are taken apart. */
export interface ParserSetup {
  /** null: the server has no reasoning parser. */
  readonly reasoning: ReasoningSetup | null;
  /** The request leaves thinking on. */
  readonly thinks: boolean;
  /** `include_reasoning`. */
  readonly includeReasoning: boolean;
  /** One for each choice; null: the server has no tool parser. */
  readonly tools: (() => CallFinder) | null;
  /** Parts of an ordered answer, of which parsers see tool calls alone; null: the parsers decide. */
  readonly parts: readonly AnswerPart[] | null;
}

export class AnswerParser {
  readonly #setup: ParserSetup;
  readonly #reasoning: ReasoningParser | null;
  readonly #tools: CallFinder | null;
  readonly #parts: PartFinder | null;

  /** `thinkingIsOver`: the prompt ends the thinking itself. */
  constructor(setup: ParserSetup, thinkingIsOver: boolean) {
    const { reasoning, thinks, tools, parts } = setup;
    this.#setup = setup;
    this.#reasoning = reasoning && reasoningParser(reasoning, thinks, thinkingIsOver);
    this.#tools = tools?.() ?? null;
    this.#parts = parts && new PartFinder(parts, this.#tools);
  }

  /** Tokens of thinking so far; null: the server has no reasoning parser. */
  get reasoningTokens(): number | null {
    if (this.#parts !== null) return this.#setup.reasoning && this.#parts.reasoningTokens;
    return this.#reasoning?.reasoningTokens ?? null;
  }

  /** What a chunk's text is; null: there is nothing to send. `finished`: it is the last. */
  push(text: string, ids: readonly number[], finished: boolean): Delta | null {
    this.#reasoning?.count(ids);
    const delta = this.#parse(text, ids, finished);
    return this.#setup.includeReasoning ? delta : withoutReasoning(delta);
  }

  #parse(text: string, ids: readonly number[], finished: boolean): Delta | null {
    if (this.#parts !== null) return this.#parts.push(text, ids, finished);
    const reasoning = this.#reasoning;
    if (reasoning === null || reasoning.ended) return this.#behind(text, ids, finished);
    const thoughts = reasoning.push(text, ids);
    if (!reasoning.ended) return finished ? joined(thoughts, reasoning.finish?.() ?? null) : thoughts;
    if (this.#tools === null) return thoughts;
    const delta = this.#tools.push(thoughts?.content ?? "", ids, finished);
    return thoughts?.reasoning ? { calls: [], ...delta, reasoning: thoughts.reasoning } : delta;
  }

  #behind(text: string, ids: readonly number[], finished: boolean): Delta | null {
    return this.#tools === null ? { content: text, calls: [] } : this.#tools.push(text, ids, finished);
  }

  /** A whole answer. */
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
    // Where thinking left no text, none was found either.
    const nothing = content === null && message.content === "" && message.calls.length === 0;
    return { ...message, reasoning: shown, content: nothing ? null : message.content };
  }
}

function joined(all: Delta | null, more: Delta | null): Delta | null {
  if (all === null || more === null) return all ?? more;
  return { ...all, reasoning: (all.reasoning ?? "") + (more.reasoning ?? "") };
}

/** With `include_reasoning` false: what carries nothing else is not sent, the rest says that there is none. */
function withoutReasoning(delta: Delta | null): Delta | null {
  if (delta === null || (!delta.content && delta.calls.length === 0)) return null;
  return { ...delta, reasoning: null };
}
