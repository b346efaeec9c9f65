/** What is the text of a server made of? The built-in vocabulary, or that of a model's folder, behind one interface. */
import { UserError } from "../base/start-errors.ts";
import { type AnswerTables, loadAnswers } from "./answers/answers.ts";
import { wordTables } from "./answers/word-tables.ts";
import { type RenderChat, renderChat } from "./tokens/chat-template.ts";
import { createEncoder, EncoderFailure, openFolder } from "./tokens/encoder.ts";
import type { TokenizerInfo } from "./tokens/model-folder.ts";
import type { Encoder, ModelTemplate, Vocabulary } from "./tokens/types.ts";
import { loadThinkingVocabulary, loadVocabulary } from "./tokens/vocabulary.ts";

export interface TextModel {
  readonly vocabulary: Vocabulary;
  readonly encoder: Encoder;
  readonly renderChat: RenderChat;
  /** What it is made of; null: the built-in one. */
  readonly template: ModelTemplate | null;
  /** Tables of default text. */
  readonly answers: AnswerTables;
  /** Ids that end an answer besides the end of sequence. */
  readonly endIds: readonly number[];
  /** Tokens are spelled with a mark for each blank, as SentencePiece does, in place of GPT-2's characters for bytes. */
  readonly blanks: boolean;
  /** What the model's `generation_config.json` says; empty for the built-in one. */
  readonly generation: Readonly<Record<string, unknown>>;
  readonly tokenizerInfo: TokenizerInfo;
}

/** As gpt-oss's tokenizer, whose vocabulary it is; there is no template, for chats are not rendered by one. */
const BUILT_IN_INFO: TokenizerInfo = {
  tokenizer_class: "CachedTokenizersBackend",
  bos_token: "<|startoftext|>",
  eos_token: "<|return|>",
  pad_token: "<|endoftext|>",
  clean_up_tokenization_spaces: false,
  truncation_side: "left",
  backend: "tokenizers",
};

/** From the two files of the build. `thinks`: with tokens around what is thought. `due`: as `createEncoder`. */
export function builtInText(
  vocabulary: Uint8Array,
  answers: Uint8Array,
  thinks = false,
  due: SharedArrayBuffer | null = null,
): TextModel {
  return {
    vocabulary: thinks ? loadThinkingVocabulary(vocabulary) : loadVocabulary(vocabulary),
    encoder: createEncoder(vocabulary, due),
    renderChat,
    template: null,
    answers: loadAnswers(answers),
    endIds: [],
    blanks: false,
    generation: {},
    tokenizerInfo: BUILT_IN_INFO,
  };
}

/** Reads the folder of `--tokenizer`. Throws a `UserError` if it cannot be used. */
export async function folderText(path: string): Promise<TextModel> {
  const option = `--tokenizer ${path}`;
  const { encoder, folder } = await openFolder(path).catch((error: Error) => {
    if (error instanceof EncoderFailure) throw new UserError(option, error.message);
    throw error;
  });
  const vocabulary = loadVocabulary(folder.vocabulary);
  const { endIds, generation, blanks, tokenizerInfo } = folder;
  try {
    // Loaded where a folder is given, and only there.
    const { modelTemplate } = await import("./tokens/model-template.ts");
    const renderChat = modelTemplate(folder);
    const { chatTemplate, specials } = folder;
    const template = { chatTemplate, specials };
    const answers = wordTables(vocabulary);
    return { vocabulary, encoder, renderChat, template, answers, endIds, blanks, generation, tokenizerInfo };
  } catch (error) {
    encoder.close();
    throw new UserError(option, `the chat template cannot be read: ${(error as Error).message}`);
  }
}
