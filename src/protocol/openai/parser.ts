/**
 * What of an answer is thinking, what text, what calls? One parser per choice, fed with each chunk as it would be sent: first
 * thinking, then, where the server has a tool parser, calls. vLLM 0.33: `parser/abstract_parser.py`, DelegatingParser.
 */
import type { Delta, Parsed, ToolCall } from "../delta.ts";
import { ReasoningCount, type ReasoningParser, type ReasoningSetup, reasoningParser } from "./reasoning.ts";

/** One answer's calls, in what follows its thinking. */
export interface ToolParser {
  /** What a step's text is; null: nothing to be sent. */
  step(text: string, ids: readonly number[]): Delta | null;
  /** Arguments that are parsed and not sent, when the answer ends. */
  rest(): string;
  /** Of a whole text; null where thinking left none. */
  whole(content: string | null): { readonly content: string | null; readonly toolCalls: readonly ToolCall[] | null };
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
  readonly tools: (() => ToolParser) | null;
}

export class AnswerParser {
  readonly #setup: ParserSetup;
  readonly #reasoning: ReasoningParser | null;
  readonly #tools: ToolParser | null;
  readonly #count: ReasoningCount | null;
  #thought: boolean;

  /** `thinkingIsOver`: the prompt ends the thinking itself. */
  constructor(setup: ParserSetup, thinkingIsOver: boolean) {
    const { reasoning, thinks, tools } = setup;
    this.#setup = setup;
    this.#reasoning = reasoning && reasoningParser(reasoning, thinks);
    this.#tools = tools?.() ?? null;
    this.#count = reasoning && new ReasoningCount(reasoning, thinkingIsOver);
    this.#thought = reasoning === null || thinkingIsOver;
  }

  /** Tokens of thinking so far; null: the server has no reasoning parser. */
  get reasoningTokens(): number | null {
    return this.#count?.tokens ?? null;
  }

  /** Tokens are counted apart from their text: a stop token has none. */
  count(ids: readonly number[]): void {
    this.#count?.add(ids, 0, ids.length);
  }

  /** The piece that a chunk's text is; null: there is nothing to send. */
  step(given: string, ids: readonly number[], finished: boolean): Delta | null {
    let text = given;
    let delta: Delta | null = null;
    let justEnded = false;
    if (!this.#thought && this.#reasoning !== null) {
      delta = this.#reasoning.step(text, ids);
      justEnded = this.#reasoning.ended;
      this.#thought = justEnded;
      if (justEnded) text = delta?.content ?? "";
    }
    if (this.#thought && this.#tools !== null) {
      const thoughts = delta?.reasoning;
      delta = this.#tools.step(text, ids);
      if (thoughts && !delta?.reasoning) delta = { ...delta, reasoning: thoughts };
    } else if (delta === null && this.#thought && !justEnded) {
      delta = { content: text };
    }
    if (finished) delta = this.#ended(delta);
    return this.#setup.includeReasoning ? delta : withoutReasoning(delta);
  }

  /** A whole answer. */
  whole(text: string): Parsed {
    const { reasoning, content } = this.#split(text);
    const found = this.#tools?.whole(content) ?? { content, toolCalls: null };
    return { reasoning: this.#setup.includeReasoning ? reasoning : null, ...found };
  }

  #split(text: string): { readonly reasoning: string | null; readonly content: string | null } {
    return this.#reasoning === null ? { reasoning: null, content: text } : this.#reasoning.split(text);
  }

  #ended(delta: Delta | null): Delta | null {
    const calls = delta?.toolCalls;
    if (delta !== null && calls !== undefined && calls.length > 0) {
      const last = calls.at(-1)!;
      const rest = this.#tools?.rest() ?? "";
      return { ...delta, toolCalls: calls.with(-1, { ...last, arguments: (last.arguments ?? "") + rest }) };
    }
    const held = this.#thought ? "" : (this.#reasoning?.rest() ?? "");
    return held === "" ? delta : { ...delta, reasoning: (delta?.reasoning ?? "") + held };
  }
}

/** With `include_reasoning` false: what carries nothing else is not sent, the rest says that there is none. */
function withoutReasoning(delta: Delta | null): Delta | null {
  if (delta === null || (!delta.content && !delta.toolCalls?.length)) return null;
  return { ...delta, reasoning: null };
}
