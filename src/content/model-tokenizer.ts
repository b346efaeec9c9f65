/** Which ids does a model's own tokenizer give? `@huggingface/tokenizers` over the folder's files; in the encoder's thread. */
import { Tokenizer } from "@huggingface/tokenizers";
import { BrokenFolder, type ModelFolder, readModelFolder } from "./model-folder.ts";
import type { PromptPart } from "./types.ts";

export interface Model {
  readonly folder: ModelFolder;
  /** Parts that are numbers stand for themselves. */
  encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial: boolean): Uint32Array<ArrayBuffer>;
}

/** Throws `BrokenFolder`. */
export function openModel(path: string): Model {
  const { tokenizer: json, config, folder } = readModelFolder(path);
  const tokenizer = made(json, config);
  return {
    folder,
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

function made(json: object, config: object): Tokenizer {
  try {
    return new Tokenizer(json, config);
  } catch (error) {
    throw new BrokenFolder(`tokenizer.json cannot be used: ${(error as Error).message}`);
  }
}
