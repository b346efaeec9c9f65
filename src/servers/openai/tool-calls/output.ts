/**
 * How does a model's text become a message? Types of what parsers of tool calls and reasoning make of it, and how the two
 * follow one another (vLLM 0.33, `parser/abstract_parser.py`, `DelegatingParser`).
 */

/** What one output adds to a tool call. Fields that are absent are not written. */
export interface CallDelta {
  readonly index: number;
  readonly id?: string;
  /** `"type":"function"`. */
  readonly typed?: boolean;
  readonly name?: string;
  arguments?: string;
}

/** What one output adds to a message. `undefined` is not written, null is. */
export interface Delta {
  content?: string | null;
  reasoning?: string | null;
  calls: CallDelta[];
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, where the model wrote such. */
  readonly arguments: string;
}

/** A whole message. */
export interface Message {
  readonly reasoning: string | null;
  readonly content: string | null;
  readonly calls: readonly ToolCall[];
}

/** Calls in a text, and what is left of it. `called`: at least one was found. */
export interface Extracted {
  readonly called: boolean;
  readonly calls: readonly ToolCall[];
  readonly content: string | null;
}

/** Finds tool calls; one per choice. */
export interface ToolParser {
  /** vLLM's declarative engine: it drops the markup of calls that came to nothing, and runs for `tool_choice` none as well. */
  readonly engineBased: boolean;
  /** Text and ids of one output; null: nothing to say yet. */
  push(text: string, ids: readonly number[]): Delta | null;
  /** What was held back, at the end of a stream. */
  finish?(): Delta | null;
  /** Arguments that were parsed and not streamed. */
  unstreamed?(): string;
  /** The calls of a whole text. */
  extract(text: string): Extracted;
}

/** Finds where reasoning ends; one per choice. */
export interface ReasoningParser {
  /** The prompt has closed the reasoning already. */
  readonly ended: boolean;
  /** `content` of the delta is text that stands after the reasoning, `ended` says so from then on. */
  push(text: string, ids: readonly number[]): Delta | null;
  /** What was held back, at the end of a stream or of the reasoning. */
  finish?(): Delta | null;
  extract(text: string): { readonly reasoning: string | null; readonly content: string | null };
  /** Ids of one output: tokens are counted apart from their text, a stop token has none. */
  count(ids: readonly number[]): void;
  /** Reasoning tokens among the ids counted so far. */
  readonly reasoningTokens: number;
}

/** What of a request its parsers must know. */
export interface ToolUse {
  /** Names of tools with the properties of their parameters; empty: none. */
  readonly tools: readonly ToolShape[];
  /** null: said so. */
  readonly choice: "none" | "auto" | "required" | { readonly name: string } | null;
  /** `parallel_tool_calls` is not false. */
  readonly parallel: boolean;
  /** `--enable-auto-tool-choice`. */
  readonly autoEnabled: boolean;
}

export interface ToolShape {
  readonly name: string;
  /** JSON Schema as it came; null: none. */
  readonly parameters: unknown;
}

/** A tool must be called. */
export function forced({ choice }: Pick<ToolUse, "choice">): boolean {
  return choice === "required" || (typeof choice === "object" && choice !== null);
}

/** Calls that were found are shown (`message_assembly.py`, `keeps_tool_calls`). */
export function keepsCalls(use: ToolUse): boolean {
  return forced(use) || (use.autoEnabled && use.choice === "auto" && use.tools.length > 0);
}
