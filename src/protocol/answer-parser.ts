/**
 * What of an answer is thinking, what text, what calls? One parser per choice, fed with each chunk as it would be sent: first
 * thinking, then, where the server has a tool parser, calls. vLLM 0.33: `parser/abstract_parser.py`, DelegatingParser.
 */
import type { Delta, Message, ReasoningParser, ToolParser } from "./output.ts";
import { type ReasoningSetup, reasoningParser } from "./reasoning.ts";

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

  /** `thinkingIsOver`: the prompt ends the thinking itself. */
  constructor(setup: ParserSetup, thinkingIsOver: boolean) {
    const { reasoning, thinks, tools } = setup;
    this.#setup = setup;
    this.#reasoning = reasoning && reasoningParser(reasoning, thinks, thinkingIsOver);
    this.#tools = tools?.() ?? null;
  }

  /** Tokens of thinking so far; null: the server has no reasoning parser. */
  get reasoningTokens(): number | null {
    return this.#reasoning?.reasoningTokens ?? null;
  }

  /** What a chunk's text is; null: there is nothing to send. */
  push(given: string, ids: readonly number[], finished: boolean): Delta | null {
    const reasoning = this.#reasoning;
    reasoning?.count(ids);
    let text = given;
    let delta: Delta | null = null;
    let justEnded = false;
    const thinking = reasoning !== null && !reasoning.ended;
    if (thinking) {
      delta = reasoning.push(text, ids);
      justEnded = reasoning.ended;
      if (justEnded) text = delta?.content ?? "";
    }
    if (!thinking || justEnded) {
      if (this.#tools !== null) {
        const thoughts = delta?.reasoning;
        delta = this.#tools.push(text, ids);
        if (thoughts && !delta?.reasoning) delta = { calls: [], ...delta, reasoning: thoughts };
      } else if (delta === null && !justEnded) delta = { content: text, calls: [] };
    }
    if (finished) delta = this.#ended(delta);
    return this.#setup.includeReasoning ? delta : withoutReasoning(delta);
  }

  /** A whole answer. */
  extract(text: string, ids: readonly number[]): Message {
    this.#reasoning?.count(ids);
    const { reasoning, content } = this.#reasoning?.extract(text) ?? { reasoning: null, content: text };
    const shown = this.#setup.includeReasoning ? reasoning : null;
    if (this.#tools === null) return { reasoning: shown, content, calls: [] };
    const found = this.#tools.extract(content ?? "");
    if (found.called)
      return { reasoning: shown, content: found.content?.trim() ? found.content : null, calls: found.calls };
    return { reasoning: shown, content: this.#tools.engineBased ? found.content || null : content, calls: [] };
  }

  #ended(delta: Delta | null): Delta | null {
    const last = delta?.calls.at(-1);
    if (last !== undefined) last.arguments = (last.arguments ?? "") + (this.#tools?.unstreamed() ?? "");
    const { ended = true } = this.#reasoning ?? {};
    const held = [ended ? null : this.#reasoning?.finish(), this.#tools?.engineBased ? this.#tools.finish() : null];
    return held.reduce<Delta | null>((all, more) => (more ? joined(all, more) : all), delta);
  }
}

function joined(all: Delta | null, { content, reasoning, calls }: Delta): Delta {
  if (all === null) return { content, reasoning, calls };
  if (content) all.content = (all.content ?? "") + content;
  if (reasoning) all.reasoning = (all.reasoning ?? "") + reasoning;
  all.calls.push(...calls);
  return all;
}

/** With `include_reasoning` false: what carries nothing else is not sent, the rest says that there is none. */
function withoutReasoning(delta: Delta | null): Delta | null {
  if (delta === null || (!delta.content && delta.calls.length === 0)) return null;
  delta.reasoning = null;
  return delta;
}
