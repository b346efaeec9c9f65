/**
 * Reads the folder of a Hugging Face model: vocabulary, special tokens, ends of sequence and chat template. Like transformers,
 * it reads `tokenizer.json`, `tokenizer_config.json`, and if they exist `chat_template.jinja`, `generation_config.json` and
 * `config.json`. Runs in the encoder's thread.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { byteCharacters } from "./byte-characters.ts";
import type { ModelTemplate } from "./types.ts";
import { packTable } from "./vocabulary-table.ts";

/** The content of a folder that the main thread needs. `generation` and `specials` are not checked. */
export interface ModelFolder extends ModelTemplate {
  /** Packed vocabulary, for `loadVocabulary`. */
  readonly vocabulary: Uint8Array<ArrayBuffer>;
  /** IDs that end an answer, in addition to the end of sequence. `generation_config.json` can name several. */
  readonly endIds: readonly number[];
  /** True if tokens are spelled with a mark per space and bytes as `<0xNN>`, instead of with GPT-2's characters. */
  readonly blanks: boolean;
  /** Number of tokens that the tokenizer adds before a text if special tokens are requested. */
  readonly front: number;
  /** Content of `generation_config.json`. */
  readonly generation: Readonly<Record<string, unknown>>;
  readonly tokenizerInfo: TokenizerInfo;
}

/** The answer of `GET /tokenizer_info`: `tokenizer_class`, and the tokenizer's configuration. */
export type TokenizerInfo = Readonly<Record<string, unknown>> & { readonly tokenizer_class: string };

/** Error in a folder. The message follows the folder's name. */
export class BrokenFolder extends Error {
  override readonly name = "BrokenFolder";
}

type Json = Readonly<Record<string, unknown>>;
/** An entry of `added_tokens`. */
interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

/** Reads a folder. Returns its two tokenizer files and its content. Throws `BrokenFolder`. */
export function readModelFolder(path: string): {
  readonly tokenizer: Json;
  readonly config: Json;
  folder: Omit<ModelFolder, "front">;
} {
  const tokenizer = readJson(path, "tokenizer.json");
  const config = readJson(path, "tokenizer_config.json");
  const model = readOptional(path, "config.json");
  const generation = readOptional(path, "generation_config.json");
  const added = addedTokens(tokenizer);
  const texts = tokenTexts(tokenizer, added);
  const size = Math.max(texts.length, whole(model.vocab_size) ?? 0);
  const bytesOf = speller(tokenizer);
  const special = new Set(added.filter((token) => token.special).map(({ id }) => id));
  const written = new Map(added.map(({ id, content }) => [id, content]));
  const utf8 = new TextEncoder();
  const tokens = Array.from({ length: size }, (_, id) => {
    const plain = written.get(id);
    if (plain !== undefined) return utf8.encode(plain);
    const text = texts[id];
    return text === undefined ? new Uint8Array() : bytesOf(text);
  });
  const specials = specialTexts(config);
  const ends = ids(generation.eos_token_id ?? model.eos_token_id);
  const named = specials.eos_token === undefined ? undefined : texts.indexOf(specials.eos_token);
  const eosId = named !== undefined && named >= 0 ? named : ends[0];
  if (eosId === undefined || eosId >= size)
    throw new BrokenFolder('no end of sequence: tokenizer_config.json needs an "eos_token" that is in the vocabulary');
  return {
    tokenizer,
    config,
    folder: {
      vocabulary: packTable(tokens, special, eosId, ""),
      endIds: ends.filter((id) => id !== eosId),
      chatTemplate: templateOf(path, config),
      specials,
      blanks: !parts(tokenizer).includes("ByteLevel"),
      generation,
      tokenizerInfo: tokenizerInfo(path, config, added, templateOf(path, config)),
    },
  };
}

function readJson(path: string, name: string): Json {
  let text: string;
  try {
    text = readFileSync(join(path, name), "utf8");
  } catch (error) {
    const { code } = error as { code?: string };
    throw new BrokenFolder(`${name} cannot be read (${code ?? String(error)}); a folder with ${name} is needed`);
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  } catch (error) {
    throw new BrokenFolder(`${name} is not JSON: ${(error as Error).message}`);
  }
  throw new BrokenFolder(`${name} is not a JSON object`);
}

function readOptional(path: string, name: string): Json {
  try {
    readFileSync(join(path, name));
  } catch {
    return {};
  }
  return readJson(path, name);
}

function addedTokens({ added_tokens: list }: Json): AddedToken[] {
  if (list === undefined || list === null) return [];
  const fits = (token: Partial<AddedToken>) => whole(token?.id) !== undefined && typeof token.content === "string";
  if (!Array.isArray(list) || !list.every(fits))
    throw new BrokenFolder('tokenizer.json: "added_tokens" is no list of {id, content, special}');
  return list as AddedToken[];
}

/** Returns the tokens by ID, as the vocabulary spells them. Unused IDs are holes. */
function tokenTexts({ model }: Json, added: readonly AddedToken[]): string[] {
  const { vocab } = (model ?? {}) as { vocab?: unknown };
  const texts: string[] = [];
  if (Array.isArray(vocab)) {
    for (const [id, entry] of vocab.entries()) texts[id] = String((entry as unknown[])[0]);
  } else if (typeof vocab === "object" && vocab !== null) {
    for (const [text, id] of Object.entries(vocab)) if (whole(id) !== undefined) texts[id as number] = text;
  } else {
    throw new BrokenFolder('tokenizer.json has no "model" with a "vocab"');
  }
  for (const { id, content } of added) texts[id] = content;
  if (texts.length === 0) throw new BrokenFolder("tokenizer.json: the vocabulary is empty");
  return texts;
}

/** Returns a function that decodes a token's spelling: GPT-2's characters, or SentencePiece's text. Throws `BrokenFolder`. */
function speller(tokenizer: Json): (text: string) => Uint8Array {
  const all = parts(tokenizer);
  const utf8 = new TextEncoder();
  if (all.includes("ByteLevel")) {
    const bytes = new Map(byteCharacters().map((character, byte) => [character, byte]));
    return (text) => {
      const spelled = Array.from(text, (character) => bytes.get(character));
      // A token that the vocabulary spells as plain text.
      return spelled.includes(undefined) ? utf8.encode(text) : Uint8Array.from(spelled as number[]);
    };
  }
  if (all.includes("ByteFallback") || all.includes("Metaspace")) {
    return (text) => {
      const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(text);
      return byte ? Uint8Array.of(Number.parseInt(byte[1]!, 16)) : utf8.encode(text.replaceAll("▁", " "));
    };
  }
  throw new BrokenFolder(
    `tokenizer.json: tokens of this kind (${[...new Set(all)].join(", ") || "no decoder"}) are not supported; ByteLevel, ByteFallback and Metaspace are`,
  );
}

/** Returns the types of all components of the tokenizer. */
function parts({ decoder, pre_tokenizer, normalizer }: Json): string[] {
  return [decoder, pre_tokenizer, normalizer].flatMap(kinds);
}

/** Returns the types of a component and of those inside it. */
function kinds(part: unknown): string[] {
  if (typeof part !== "object" || part === null) return [];
  const { type, ...rest } = part as Json;
  const inside = [rest.decoders, rest.pretokenizers, rest.normalizers].flatMap((list) =>
    Array.isArray(list) ? list.flatMap(kinds) : [],
  );
  return typeof type === "string" ? [type, ...inside] : inside;
}

/** Members of the configuration that `/tokenizer_info` omits or names differently. */
const OMITTED_NAMES = ["tokenizer_class", "vocab_file", "merges_file", "auto_map", "additional_special_tokens"];

/**
 * Returns `init_kwargs` of transformers' tokenizer as vLLM reports them: with texts instead of token objects, and the name of
 * vLLM's wrapper class. Source: vLLM 0.33 (`entrypoints/serve/tokenize/serving.py`, TokenizerInfo), run with transformers 5.20.
 */
function tokenizerInfo(
  path: string,
  config: Json,
  added: readonly AddedToken[],
  template: string | null,
): TokenizerInfo {
  const { tokenizer_class: className, additional_special_tokens: more } = config;
  const members = Object.entries(config).filter(([name]) => !OMITTED_NAMES.includes(name));
  const known =
    typeof className === "string" && !/^PreTrainedTokenizer(Fast)?$/.test(className) ? className : "TokenizersBackend";
  return {
    tokenizer_class: `Cached${known.replace(/Fast$/, "")}`,
    ...Object.fromEntries(members.map(([name, value]) => [name, contents(value)])),
    ...(template === null ? {} : { chat_template: template }),
    ...(more === undefined ? {} : { extra_special_tokens: contents(more) }),
    truncation_side: config.truncation_side ?? "left",
    name_or_path: path,
    is_local: true,
    added_tokens_decoder: Object.fromEntries(added.map(({ id, content }) => [id, content])),
    backend: "tokenizers",
  };
}

/** Replaces each object that has `content`, which is a token, by its text, at any depth. */
function contents(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(contents);
  if (typeof value !== "object" || value === null) return value;
  const { content } = value as { content?: unknown };
  if (typeof content === "string") return content;
  return Object.fromEntries(Object.entries(value).map(([name, inside]) => [name, contents(inside)]));
}

/** Returns the texts of the special tokens by name, such as `bos_token`. */
function specialTexts(config: Json): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (!name.endsWith("_token")) continue;
    const text = typeof value === "string" ? value : (value as { content?: unknown } | null)?.content;
    if (typeof text === "string") texts[name] = text;
  }
  return texts;
}

/** Returns the chat template of the file, or of the configuration. Of several templates it is the one named `default`. */
function templateOf(path: string, { chat_template: template }: Json): string | null {
  try {
    return readFileSync(join(path, "chat_template.jinja"), "utf8");
  } catch {
    if (!Array.isArray(template)) return typeof template === "string" ? template : null;
    const named = (template as { name?: unknown; template?: unknown }[]).find(({ name }) => name === "default");
    return typeof named?.template === "string" ? named.template : null;
  }
}

function ids(value: unknown): number[] {
  const list = Array.isArray(value) ? value : [value];
  return list.filter((id): id is number => whole(id) !== undefined);
}

/** Returns the value if it is a whole number of at least 0, else undefined. */
function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
