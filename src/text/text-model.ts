/** Loads the text of a server: the built-in vocabulary, or the one of a model's folder, behind one interface. */
import { UserError } from "../base/start-errors.ts";
import { type AnswerTables, loadAnswers } from "./answers/answers.ts";
import { wordTables } from "./answers/word-tables.ts";
import { type RenderChat, renderChat } from "./tokens/chat-template.ts";
import { createEncoder, EncoderFailure, openFolder } from "./tokens/encoder.ts";
import type { TokenizerInfo } from "./tokens/model-folder.ts";
import type { Encoder, ModelTemplate, Vocabulary } from "./tokens/types.ts";
import { loadThinkingVocabulary, loadVocabulary } from "./tokens/vocabulary.ts";

/** Vocabulary, encoder, chat template and default text of a server. */
export interface TextModel {
  readonly vocabulary: Vocabulary;
  readonly encoder: Encoder;
  readonly renderChat: RenderChat;
  /** Source of `renderChat`. Null for the built-in template. */
  readonly template: ModelTemplate | null;
  /** Tables that default answers are drawn from. */
  readonly answers: AnswerTables;
  /** IDs that end an answer, in addition to the end of sequence. */
  readonly endIds: readonly number[];
  /** True if the vocabulary spells tokens like SentencePiece, with a mark for each space, instead of like GPT-2. */
  readonly blanks: boolean;
  /** Content of the model's `generation_config.json`. Empty for the built-in model. */
  readonly generation: Readonly<Record<string, unknown>>;
  readonly tokenizerInfo: TokenizerInfo;
}

/** Information on the built-in tokenizer: that of gpt-oss, which has the same vocabulary. It has no Jinja template. */
const BUILT_IN_INFO: TokenizerInfo = {
  tokenizer_class: "CachedTokenizersBackend",
  bos_token: "<|startoftext|>",
  eos_token: "<|return|>",
  pad_token: "<|endoftext|>",
  clean_up_tokenization_spaces: false,
  truncation_side: "left",
  backend: "tokenizers",
};

/** Loads the built-in text from the build's two files. `thinks`: adds tokens around reasoning. `due`: see `createEncoder`. */
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
    // Imported here, because only servers with a folder need it.
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
