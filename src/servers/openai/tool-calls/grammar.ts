/**
 * Describes a text form of tool calls for the declarative parser: what delimits its parts, and how arguments become JSON.
 * Follows `ParserEngineConfig` of vLLM 0.33 (`parser/engine/parser_engine_config.py`).
 */
import type { PythonValue } from "../../pydantic/value.ts";
import type { Properties } from "./argument-types.ts";

export type CallState = "content" | "preamble" | "name" | "arguments" | "between";

/** What a mark does in a state. */
export interface Move {
  readonly to: CallState;
  /** The call under way ends. */
  readonly ends?: true;
  /** A call begins, after the end of the one before. */
  readonly begins?: true;
  /** The mark is part of the arguments' raw text. */
  readonly says?: true;
}

/** Reads raw arguments into values by name, in their order. `open`: with a value that has not ended. null: not readable yet. */
export type ArgumentReader = (
  raw: string,
  open: boolean,
  properties: Properties,
) => ReadonlyMap<string, PythonValue> | null;

export interface CallGrammar {
  /** Marks that may be single tokens of the vocabulary; if they are, the same text in other tokens is plain text. */
  readonly tags: readonly string[];
  /** Marks that are found in the text alone. */
  readonly marks: readonly string[];
  /** By `<state> <mark>`. A mark without a move in the state is text of that state. */
  readonly moves: Readonly<Record<string, Move>>;
  /** null: raw arguments are JSON, and pass as they come. */
  readonly read: ArgumentReader | null;
  /** Arguments leave while they are written; false: all at the end of their call. */
  readonly streams: boolean;
  /** Characters without which a piece of raw arguments is not looked at; "": each piece is. */
  readonly structural: string;
  /** Reports whether raw arguments end in an open text, whose pieces are all looked at; absent: never. */
  readonly isOpenText?: (raw: string) => boolean;
  /** Special tokens that are text of arguments, not markup to be dropped. */
  readonly keeps: readonly string[];
  /** Calls of tools that the request does not have are left out. */
  readonly checksNames: boolean;
  /** Content beside calls loses its outer white space in whole answers. */
  readonly trimsContent: boolean;
  /** The name is a header that holds the call's id as well, as `functions.f:0`. */
  readonly namesCarryIds: boolean;
  /** White space around the name is not part of it. */
  readonly trimsNames: boolean;
}
