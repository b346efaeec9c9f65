/**
 * Turns the text after the reasoning into the deltas of a stream or a whole message, and decides which calls are shown. As in
 * vLLM 0.33 (`parser/abstract_parser.py`, `chat_completion/stream_processor.py`, `chat_completion/message_assembly.py`).
 */
import {
  type Delta,
  type ExtractedCalls,
  forced,
  keepsCalls,
  type Message,
  type ToolParser,
  type ToolUse,
} from "./output.ts";

/** Called for each text in which calls were searched for. `called`: a call was found. */
type SearchListener = (how: "Stream" | "Whole", called: boolean) => void;

/** The parser of one choice. */
export class OutputParser {
  readonly #keeps: boolean;
  /** Number of tokens so far. */
  #tokens = 0;
  /** True once a call was shown. */
  called = false;

  constructor(
    private readonly use: ToolUse,
    private readonly tools: ToolParser,
    private readonly onSearch: SearchListener = () => {},
  ) {
    this.#keeps = keepsCalls(use);
  }

  /** True if text is shown unparsed, because no call may be in it. */
  get passes(): boolean {
    return this.use.choice === "none" && !this.tools.engineBased;
  }

  /** Parses the text and ids of one output. `finished`: it is the last. Returns null if no chunk is sent for it. */
  push(text: string, ids: readonly number[], finished: boolean): Delta | null {
    const first = this.#tokens === 0;
    this.#tokens += ids.length;
    if (first && text === "" && ids.length === 0) return { calls: [] };
    const delta = this.#shown(this.#parse(text, ids, finished));
    if (delta === null || delta.calls.length === 0) return delta;
    this.called = true;
    if (this.use.parallel) return delta;
    return { ...delta, calls: delta.calls.filter(({ index }) => index === 0) };
  }

  #parse(text: string, ids: readonly number[], finished: boolean): Delta | null {
    if (this.passes) return text === "" ? null : { content: text, calls: [] };
    const found = this.tools.push(text, ids);
    this.onSearch("Stream", found !== null && found.calls.length > 0);
    // With `tool_choice` none, vLLM drops the calls but still sends a chunk, even an empty one.
    const delta = found !== null && this.use.choice === "none" ? { ...found, calls: [] } : found;
    if (!finished) return delta;
    const last = delta?.calls.at(-1);
    if (last !== undefined) last.arguments = (last.arguments ?? "") + (this.tools.unstreamed?.() ?? "");
    return joined(delta, this.tools.finish?.() ?? null);
  }

  /** Removes calls that must not be shown. Returns null if nothing else is left. */
  #shown(delta: Delta | null): Delta | null {
    if (delta === null || delta.calls.length === 0 || this.#keeps) return delta;
    return delta.content || delta.reasoning ? { ...delta, calls: [] } : null;
  }

  /** Parses the whole text of a choice. */
  message(text: string): Message {
    const { choice, autoEnabled, parallel } = this.use;
    const nothing = { reasoning: null, calls: [] };
    if (choice === "none") {
      const content = this.tools.engineBased ? this.#extract(text).content : text;
      return { ...nothing, content };
    }
    if (!autoEnabled) return { ...nothing, content: forced(this.use) ? text || "" : text };
    const found = this.#extract(text);
    const content = this.#contentOf(text, found.called, found.content);
    if (!this.#keeps) return { ...nothing, content };
    const calls = found.called ? found.calls : [];
    this.called = calls.length > 0;
    return {
      reasoning: null,
      content: forced(this.use) ? (content ?? "") : content,
      calls: parallel ? calls : calls.slice(0, 1),
    };
  }

  #extract(text: string): ExtractedCalls {
    const found = this.tools.extract(text);
    this.onSearch("Whole", found.called);
    return found;
  }

  /** Returns the content of a message. `content`: the text that the tool parser left. */
  #contentOf(text: string, called: boolean, content: string | null): string | null {
    if (called) return content !== null && content.trim() === "" ? null : content;
    if (forced(this.use) && text.trim() === "") return null;
    return this.tools.engineBased ? content || null : text;
  }
}

function joined(delta: Delta | null, rest: Delta | null): Delta | null {
  if (delta === null || rest === null) return delta ?? rest;
  const content = rest.content ? (delta.content ?? "") + rest.content : delta.content;
  return { ...delta, ...(content === undefined ? {} : { content }), calls: [...delta.calls, ...rest.calls] };
}
