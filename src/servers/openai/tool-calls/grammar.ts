/**
 * Types of a grammar, which describes a text format of tool calls for the declarative parser: the marks between its parts and
 * the reader of its arguments. Follows `ParserEngineConfig` of vLLM 0.33 (`parser/engine/parser_engine_config.py`).
 */
import type { PythonValue } from "../../pydantic/value.ts";
import type { Properties } from "./argument-types.ts";

/** The part of the answer that is being read. "preamble": before a name. "between": after a call. */
export type CallState = "content" | "preamble" | "name" | "arguments" | "between";

/** The effect of a mark in a state. */
export interface Move {
  /** The next state. */
  readonly to: CallState;
  /** Set if the mark ends the current call. */
  readonly ends?: true;
  /** Set if the mark begins a call. Applied after `ends`. */
  readonly begins?: true;
  /** Set if the mark belongs to the raw arguments. */
  readonly isArgument?: true;
}

/** Reads raw arguments into values by name, in order. `open`: includes an incomplete last value. Returns null if unreadable. */
type ArgumentReader = (raw: string, open: boolean, properties: Properties) => ReadonlyMap<string, PythonValue> | null;

/** A text format of tool calls. */
export interface CallGrammar {
  /** Marks that may be single tokens of the vocabulary. If so, the same text made of other tokens is plain text. */
  readonly tags: readonly string[];
  /** Marks that are always searched for in the text. */
  readonly marks: readonly string[];
  /** Moves by `<state> <mark>`. A mark without a move in a state is text of that state. */
  readonly moves: Readonly<Record<string, Move>>;
  /** Reads raw arguments. null: they are JSON and are sent unchanged. */
  readonly read: ArgumentReader | null;
  /** True if arguments are streamed. False: they are sent at the end of their call. */
  readonly streams: boolean;
  /** A piece of raw arguments without any of these characters is not read yet. "": each piece is read. */
  readonly structural: string;
  /** Reports whether raw arguments end in an incomplete string, each piece of which is read. Absent: they never do. */
  readonly isOpenText?: (raw: string) => boolean;
  /** Special tokens that belong to arguments and are not removed. */
  readonly keeps: readonly string[];
  /** True if calls of tools that the request does not have are left out. */
  readonly checksNames: boolean;
  /** True if whole answers with calls have no white space around their content. */
  readonly trimsContent: boolean;
  /** True if the text of the name is a header that also contains the call's id, such as `functions.f:0`. */
  readonly namesCarryIds: boolean;
  /** True if white space around the name is removed. */
  readonly trimsNames: boolean;
}
