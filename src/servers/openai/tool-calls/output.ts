/**
 * Types of parsers for reasoning and tool calls, and of their results. The parsers are combined like in `DelegatingParser` of
 * vLLM 0.33 (`parser/abstract_parser.py`).
 */

/** The part that one output adds to a tool call. Absent fields are not written. */
export interface CallDelta {
  readonly index: number;
  readonly id?: string;
  /** True if `"type":"function"` is written. */
  readonly typed?: boolean;
  readonly name?: string;
  arguments?: string;
}

/** The part that one output adds to a message. `undefined` is not written, null is. */
export interface Delta {
  content?: string | null;
  reasoning?: string | null;
  calls: CallDelta[];
}

/** A complete tool call. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments as JSON, unless the model wrote something else. */
  readonly arguments: string;
}

/** A whole message. */
export interface Message {
  readonly reasoning: string | null;
  readonly content: string | null;
  readonly calls: readonly ToolCall[];
}

/** The calls in a whole text and the rest of the text. `called`: a call was found. */
export interface ExtractedCalls {
  readonly called: boolean;
  readonly calls: readonly ToolCall[];
  readonly content: string | null;
}

/** Finds the tool calls of one choice. */
export interface ToolParser {
  /** True for vLLM's declarative engine. It removes the markup of failed calls and also runs for `tool_choice` none. */
  readonly engineBased: boolean;
  /** Parses the text and ids of one output. Returns null if nothing can be sent yet. */
  push(text: string, ids: readonly number[]): Delta | null;
  /** Returns the withheld text at the end of a stream. */
  finish?(): Delta | null;
  /** Returns the rest of the arguments' JSON that was not streamed. */
  unstreamed?(): string;
  /** Finds the calls in a whole text. */
  extract(text: string): ExtractedCalls;
}

/** Finds the end of the reasoning of one choice. */
export interface ReasoningParser {
  /** True if the reasoning has ended. True from the start if the prompt has closed it. */
  readonly ended: boolean;
  /** Parses the text and ids of one output. The delta's `content` is text after the reasoning. `ended` is then true. */
  push(text: string, ids: readonly number[]): Delta | null;
  /** Returns the withheld text, at the end of a stream or of the reasoning. */
  finish?(): Delta | null;
  /** Splits a whole text. */
  extract(text: string): { readonly reasoning: string | null; readonly content: string | null };
  /** Counts the tokens of one output. Separate from their text, because a stop token has no text. */
  count(ids: readonly number[]): void;
  /** Reasoning tokens among the ids counted so far. */
  readonly reasoningTokens: number;
}

/** The fields of a request that its tool parser needs. */
export interface ToolUse {
  /** The tools of the request. */
  readonly tools: readonly ToolShape[];
  /** The field `tool_choice`, which may be null. */
  readonly choice: "none" | "auto" | "required" | { readonly name: string } | null;
  /** False if `parallel_tool_calls` is false. Only the first call is then shown. */
  readonly parallel: boolean;
  /** True if the server has the option `--enable-auto-tool-choice`. */
  readonly autoEnabled: boolean;
}

/** Name and parameters of a tool. */
export interface ToolShape {
  readonly name: string;
  /** JSON Schema from the request. null: none. */
  readonly parameters: unknown;
}

/** Reports whether the request requires a tool call. */
export function forced({ choice }: Pick<ToolUse, "choice">): boolean {
  return choice === "required" || (typeof choice === "object" && choice !== null);
}

/** Reports whether calls that are found are shown (`message_assembly.py`, `keeps_tool_calls`). */
export function keepsCalls(use: ToolUse): boolean {
  return forced(use) || (use.autoEnabled && use.choice === "auto" && use.tools.length > 0);
}
