/** Creates the parsers of tool calls (`--tool-call-parser`) with the tokens that they need from the vocabulary. */

import type { Ids } from "../../../base/random.ts";
import type { ToolFormat } from "../../../text/grammar/parsers.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { EngineParser } from "./engine-parser.ts";
import { GRAMMARS } from "./grammars.ts";
import { HarmonyParser } from "./harmony.ts";
import { HermesParser } from "./hermes.ts";
import { HUNYUAN_MARKS, HunyuanParser } from "./hunyuan.ts";
import { LlamaParser } from "./llama.ts";
import { TAG as MISTRAL_TAG, MistralParser } from "./mistral.ts";
import type { ToolParser, ToolUse } from "./output.ts";
import { PoolsideParser } from "./poolside.ts";
import { PYTHONIC_MARKS, PythonicParser } from "./pythonic.ts";
import { tokensOf } from "./tokens.ts";
import { WholeMarks } from "./whole-marks.ts";

/** A format's parser, ready for a vocabulary. */
export interface ToolParserKind {
  readonly name: ToolFormat;
  /** True if special tokens are shown as text in requests with tools, as by `adjust_request` in vLLM. */
  readonly showsSpecial: boolean;
  /** True if special tokens are also shown in requests without tools, as in vLLM's declarative engine. */
  readonly alwaysShowsSpecial: boolean;
  /** Creates the parser of a choice. */
  make(use: ToolUse): ToolParser;
}

/** Formats whose parsers do not need special tokens in the text. */
const WITHOUT_SPECIAL: readonly ToolFormat[] = ["llama3_json", "minimax_m3"];

/** Returns a format's parser. Searches the vocabulary once. `newId`: creates the random part of call ids. */
export function toolParserKind(name: ToolFormat, vocabulary: Vocabulary, newId: Ids): ToolParserKind {
  const showsSpecial = !WITHOUT_SPECIAL.includes(name);
  const alwaysShowsSpecial = showsSpecial && name in GRAMMARS && name !== "kimi_k2";
  return { name, showsSpecial, alwaysShowsSpecial, make: makerOf(name, vocabulary, newId) };
}

function makerOf(name: ToolFormat, vocabulary: Vocabulary, newId: Ids): ToolParserKind["make"] {
  const callId = () => `chatcmpl-tool-${newId(8)}`;
  switch (name) {
    case "hermes":
      return () => new HermesParser(callId);
    case "llama3_json":
      return () => new LlamaParser(callId);
    case "mistral": {
      const spelled = tokensOf(vocabulary, [MISTRAL_TAG]).size === 0;
      return (use) => new MistralParser(() => mistralId(newId), use, spelled);
    }
    case "lfm2":
      return withWholeMarks(PYTHONIC_MARKS, vocabulary, () => new PythonicParser(callId));
    case "openai":
      return () => new HarmonyParser(callId);
    case "poolside_v1":
      return (use) => new PoolsideParser(callId, use);
    case "hy_v3":
      return withWholeMarks(HUNYUAN_MARKS, vocabulary, (use) => new HunyuanParser(callId, use));
    default: {
      const grammar = GRAMMARS[name];
      const configured = new Set([...grammar.tags, ...grammar.marks, ...grammar.keeps]);
      const dropped = specialTexts(vocabulary).filter((text) => !configured.has(text));
      const tokens = { tags: tokensOf(vocabulary, grammar.tags), dropped };
      return (use) => new EngineParser(grammar, callId, use, tokens);
    }
  }
}

/** Wraps a parser that expects each mark in one piece, unless all marks are single tokens. */
function withWholeMarks(
  marks: readonly string[],
  vocabulary: Vocabulary,
  make: ToolParserKind["make"],
): ToolParserKind["make"] {
  return tokensOf(vocabulary, marks).size === marks.length ? make : (use) => new WholeMarks(make(use), marks);
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Returns an id of nine letters or digits. */
function mistralId(newId: Ids): string {
  const bytes = Buffer.from(newId(9), "hex");
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("");
}

/** Returns the texts of all special tokens. */
function specialTexts(vocabulary: Vocabulary): string[] {
  const texts: string[] = [];
  for (let id = 0; id < vocabulary.size; id++)
    if (vocabulary.isSpecial(id)) {
      const text = Buffer.from(vocabulary.bytesOf(id)).toString();
      if (text !== "") texts.push(text);
    }
  return texts;
}
