/**
 * What is an answer made of besides plain text? Pieces of thinking, text and tool calls, as vLLM 0.33's parsers hand them
 * on (`generate/base/protocol.py`, DeltaMessage); every dialect writes them in its own form. Types only.
 */

/** A piece of an answer. A member that is absent is not written, null is. */
export interface Delta {
  readonly content?: string | null;
  readonly reasoning?: string | null;
  readonly toolCalls?: readonly ToolCallDelta[];
}

/** A piece of a tool call: the first one has its id and name. */
export interface ToolCallDelta {
  /** Place among the calls of the answer. */
  readonly index: number;
  readonly id?: string;
  readonly type?: "function";
  readonly name?: string;
  readonly arguments?: string;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

/** A whole answer. */
export interface Parsed {
  readonly reasoning: string | null;
  readonly content: string | null;
  /** null and empty: none. */
  readonly toolCalls: readonly ToolCall[] | null;
}
