/** Encodes with a model's own tokenizer: `@huggingface/tokenizers` with the folder's files. Runs in the encoder's thread. */
import { Tokenizer } from "@huggingface/tokenizers";
import { BrokenFolder, type ModelFolder, readModelFolder } from "./model-folder.ts";
import type { PromptPart } from "./types.ts";

/** A model's tokenizer and the content of its folder. */
export interface Model {
  readonly folder: ModelFolder;
  /** Encodes a prompt. Parts that are numbers are IDs. */
  encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial: boolean): Uint32Array<ArrayBuffer>;
}

/** Opens the folder of a model. Throws `BrokenFolder`. */
export function openModel(path: string): Model {
  const { tokenizer: json, config, folder } = readModelFolder(path);
  const tokenizer = createTokenizer(json, config);
  return {
    folder: { ...folder, front: frontOf(tokenizer) },
    encode: (parts, _, addSpecial) => {
      if (parts.length === 1 && typeof parts[0] === "string")
        return Uint32Array.from(tokenizer.encode(parts[0], { add_special_tokens: addSpecial }).ids);
      const ids = parts.map((part) =>
        typeof part === "number" ? [part] : tokenizer.encode(part, { add_special_tokens: false }).ids,
      );
      return Uint32Array.from(ids.flat());
    },
  };
}

/** Returns the number of tokens that the tokenizer adds before a text. Found by a test, because configurations differ. */
function frontOf(tokenizer: Tokenizer): number {
  const text = "a";
  const plain = tokenizer.encode(text, { add_special_tokens: false }).ids;
  const whole = tokenizer.encode(text, { add_special_tokens: true }).ids;
  const at = whole.findIndex((_, i) => plain.every((id, j) => whole[i + j] === id));
  return Math.max(at, 0);
}

function createTokenizer(json: object, config: object): Tokenizer {
  try {
    return new Tokenizer(json, config);
  } catch (error) {
    throw new BrokenFolder(`tokenizer.json cannot be used: ${(error as Error).message}`);
  }
}
