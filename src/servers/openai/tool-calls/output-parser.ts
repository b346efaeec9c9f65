/**
 * How does a choice's text become its message, output by output or as a whole? Reasoning first, then tool calls, as vLLM 0.33
 * (`parser/abstract_parser.py`, `chat_completion/stream_processor.py`, `chat_completion/message_assembly.py`).
 */
import {
  type Delta,
  type Extracted,
  forced,
  keepsCalls,
  type Message,
  type ToolParser,
  type ToolUse,
} from "./output.ts";

type Told = (how: "Stream" | "Whole", called: boolean) => void;

/** One per choice. */
export class OutputParser {
  readonly #use: ToolUse;
  readonly #tools: ToolParser;
  readonly #keeps: boolean;
  readonly #told: Told;
  #outputs = 0;
  /** A call was shown. */
  called = false;

  /** `told` of each look. */
  constructor(use: ToolUse, tools: ToolParser, told: Told = () => {}) {
    this.#told = told;
    this.#use = use;
    this.#tools = tools;
    this.#keeps = keepsCalls(use);
  }

  /** Text that is not looked at passes as it is: no call can be in it. */
  get passes(): boolean {
    return this.#use.choice === "none" && !this.#tools.engineBased;
  }

  /** Text and ids of one output, `finished`: it is the last. Null: no chunk for it. */
  push(text: string, ids: readonly number[], finished: boolean): Delta | null {
    const first = this.#outputs === 0;
    this.#outputs += ids.length;
    if (first && text === "" && ids.length === 0) return { calls: [] };
    const delta = this.#shown(this.#parse(text, ids, finished));
    if (delta === null || delta.calls.length === 0) return delta;
    this.called = true;
    if (this.#use.parallel) return delta;
    return { ...delta, calls: delta.calls.filter(({ index }) => index === 0) };
  }

  #parse(text: string, ids: readonly number[], finished: boolean): Delta | null {
    if (this.passes) return text === "" ? null : { content: text, calls: [] };
    const found = this.#tools.push(text, ids);
    this.#told("Stream", found !== null && found.calls.length > 0);
    // Whatever calls it found: what is left of it is a chunk of its own, even with nothing in it.
    const delta = found !== null && this.#use.choice === "none" ? { ...found, calls: [] } : found;
    if (!finished) return delta;
    const last = delta?.calls.at(-1);
    if (last !== undefined) last.arguments = (last.arguments ?? "") + (this.#tools.unstreamed?.() ?? "");
    return joined(delta, this.#tools.finish?.() ?? null);
  }

  #shown(delta: Delta | null): Delta | null {
    if (delta === null || delta.calls.length === 0 || this.#keeps) return delta;
    return delta.content || delta.reasoning ? { ...delta, calls: [] } : null;
  }

  /** The whole text of a choice. */
  message(text: string): Message {
    const { choice, autoEnabled, parallel } = this.#use;
    const nothing = { reasoning: null, calls: [] };
    if (choice === "none") {
      const content = this.#tools.engineBased ? this.#extract(text).content : text;
      return { ...nothing, content };
    }
    if (!autoEnabled) return { ...nothing, content: forced(this.#use) ? text || "" : text };
    const found = this.#extract(text);
    const content = this.#contentOf(text, found.called, found.content);
    if (!this.#keeps) return { ...nothing, content };
    const calls = found.called ? found.calls : [];
    this.called = calls.length > 0;
    return {
      reasoning: null,
      content: forced(this.#use) ? (content ?? "") : content,
      calls: parallel ? calls : calls.slice(0, 1),
    };
  }

  #extract(text: string): Extracted {
    const found = this.#tools.extract(text);
    this.#told("Whole", found.called);
    return found;
  }

  #contentOf(text: string, called: boolean, content: string | null): string | null {
    if (called) return content !== null && content.trim() === "" ? null : content;
    if (forced(this.#use) && text.trim() === "") return null;
    return this.#tools.engineBased ? content || null : text;
  }
}

function joined(delta: Delta | null, rest: Delta | null): Delta | null {
  if (delta === null || rest === null) return delta ?? rest;
  const content = rest.content ? (delta.content ?? "") + rest.content : delta.content;
  return { ...delta, ...(content === undefined ? {} : { content }), calls: [...delta.calls, ...rest.calls] };
}
