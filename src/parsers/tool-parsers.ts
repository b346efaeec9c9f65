/** Which parsers of tool calls are there (`--tool-call-parser`), and what does each need of the vocabulary? */
import type { ToolParserName } from "../config/parsers.ts";
import type { Vocabulary } from "../content/types.ts";
import type { Ids } from "../host/random.ts";
import { HermesParser } from "./hermes.ts";
import { LlamaParser } from "./llama.ts";
import { TAG as MISTRAL_TAG, MistralParser } from "./mistral.ts";
import type { ToolParser, ToolUse } from "./output.ts";
import { TAGS as QWEN_TAGS, QwenParser, type QwenTokens } from "./qwen.ts";
import { tokensOf } from "./tokens.ts";

/** Makes a parser per choice. */
export interface ToolParserKind {
  readonly name: ToolParserName;
  /** Special tokens are text for it where tools may be called, as its `adjust_request` has it. */
  readonly showsSpecial: boolean;
  make(use: ToolUse): ToolParser;
}

/** Looks through the vocabulary once. `newId`: of the ids of calls. */
export function toolParserKind(name: ToolParserName, vocabulary: Vocabulary, newId: Ids): ToolParserKind {
  const showsSpecial = name !== "llama3_json";
  const callId = () => `chatcmpl-tool-${newId(8)}`;
  switch (name) {
    case "hermes":
      return { name, showsSpecial, make: () => new HermesParser(callId) };
    case "llama3_json":
      return { name, showsSpecial, make: () => new LlamaParser(callId) };
    case "mistral": {
      const spelled = tokensOf(vocabulary, [MISTRAL_TAG]).size === 0;
      return { name, showsSpecial, make: (use) => new MistralParser(() => mistralId(newId), use, spelled) };
    }
    case "qwen3_coder": {
      const tokens: QwenTokens = { tags: tokensOf(vocabulary, QWEN_TAGS), dropped: specialTexts(vocabulary) };
      return { name, showsSpecial, make: (use) => new QwenParser(callId, use, tokens) };
    }
  }
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Nine letters or digits. */
function mistralId(newId: Ids): string {
  const bytes = Buffer.from(newId(9), "hex");
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("");
}

function specialTexts(vocabulary: Vocabulary): string[] {
  const texts: string[] = [];
  for (let id = 0; id < vocabulary.size; id++)
    if (vocabulary.isSpecial(id)) {
      const text = Buffer.from(vocabulary.bytesOf(id)).toString();
      if (text !== "") texts.push(text);
    }
  return texts;
}
