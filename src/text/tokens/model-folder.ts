/**
 * What does a Hugging Face model folder say of its text? Its vocabulary as bytes per token, its ends, its special tokens,
 * its chat template. Reads `tokenizer.json`, `tokenizer_config.json`, and where they are there `chat_template.jinja`,
 * `generation_config.json` and `config.json`, as transformers does. Runs in the encoder's thread.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { byteCharacters } from "./byte-characters.ts";
import type { ModelTemplate } from "./types.ts";
import { packTable } from "./vocabulary-table.ts";

/** What of a folder the main thread needs; what it says in `generation` and `specials` is not looked at here. */
export interface ModelFolder extends ModelTemplate {
  /** As `loadVocabulary` takes it. */
  readonly vocabulary: Uint8Array<ArrayBuffer>;
  /** Ids that end an answer besides the end-of-sequence id: `generation_config.json` may name several. */
  readonly endIds: readonly number[];
  /** Tokens are spelled with a mark for each blank, and bytes as `<0xNN>`, in place of GPT-2's characters. */
  readonly blanks: boolean;
  /** How many tokens the tokenizer puts before a text, where it is asked to. */
  readonly front: number;
  /** `generation_config.json`. */
  readonly generation: Readonly<Record<string, unknown>>;
  readonly tokenizerInfo: TokenizerInfo;
}

/** What `GET /tokenizer_info` says: `tokenizer_class`, and the tokenizer's configuration. */
export type TokenizerInfo = Readonly<Record<string, unknown>> & { readonly tokenizer_class: string };

/** What is wrong with a folder, in words that follow its name. */
export class BrokenFolder extends Error {
  override readonly name = "BrokenFolder";
}

type Json = Readonly<Record<string, unknown>>;
interface Added {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

/** The folder's own texts, and what is made of them. Throws `BrokenFolder`. */
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
  const special = new Set(added.filter((one) => one.special).map(({ id }) => id));
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
    throw new BrokenFolder(`${name} is no JSON: ${(error as Error).message}`);
  }
  throw new BrokenFolder(`${name} holds no JSON object`);
}

function readOptional(path: string, name: string): Json {
  try {
    readFileSync(join(path, name));
  } catch {
    return {};
  }
  return readJson(path, name);
}

function addedTokens({ added_tokens: list }: Json): Added[] {
  if (list === undefined || list === null) return [];
  const fits = (one: Partial<Added>) => whole(one?.id) !== undefined && typeof one.content === "string";
  if (!Array.isArray(list) || !list.every(fits))
    throw new BrokenFolder('tokenizer.json: "added_tokens" is no list of {id, content, special}');
  return list as Added[];
}

/** The tokens as the vocabulary spells them, by id; holes where an id is not used. */
function tokenTexts({ model }: Json, added: readonly Added[]): string[] {
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

/** How this vocabulary spells bytes: GPT-2's characters, or SentencePiece's text with single bytes as `<0xNN>`. */
function speller(tokenizer: Json): (text: string) => Uint8Array {
  const all = parts(tokenizer);
  const utf8 = new TextEncoder();
  if (all.includes("ByteLevel")) {
    const bytes = new Map(byteCharacters().map((character, byte) => [character, byte]));
    return (text) => {
      const spelled = Array.from(text, (character) => bytes.get(character));
      // An ordinary token that is written as it is read.
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
    `tokenizer.json: pieces of this kind (${[...new Set(all)].join(", ") || "no decoder"}) are not known; ByteLevel, ByteFallback and Metaspace are`,
  );
}

/** The types of all that the tokenizer is put together from. */
function parts({ decoder, pre_tokenizer, normalizer }: Json): string[] {
  return [decoder, pre_tokenizer, normalizer].flatMap(kinds);
}

/** The types of a part and of those inside it. */
function kinds(part: unknown): string[] {
  if (typeof part !== "object" || part === null) return [];
  const { type, ...rest } = part as Json;
  const inside = [rest.decoders, rest.pretokenizers, rest.normalizers].flatMap((list) =>
    Array.isArray(list) ? list.flatMap(kinds) : [],
  );
  return typeof type === "string" ? [type, ...inside] : inside;
}

/** Files of the tokenizer, and what its class takes under another name. */
const NOT_TOLD = ["tokenizer_class", "vocab_file", "merges_file", "auto_map", "additional_special_tokens"];

/**
 * `init_kwargs` of transformers 5.20's tokenizer as vLLM 0.33 tells them (`entrypoints/serve/tokenize/serving.py`,
 * `TokenizerInfo`), seen with that version of transformers: texts in place of token objects, the class as vLLM wraps it.
 */
function tokenizerInfo(path: string, config: Json, added: readonly Added[], template: string | null): TokenizerInfo {
  const { tokenizer_class: given, additional_special_tokens: more } = config;
  const told = Object.entries(config).filter(([name]) => !NOT_TOLD.includes(name));
  const known = typeof given === "string" && !/^PreTrainedTokenizer(Fast)?$/.test(given) ? given : "TokenizersBackend";
  return {
    tokenizer_class: `Cached${known.replace(/Fast$/, "")}`,
    ...Object.fromEntries(told.map(([name, value]) => [name, contents(value)])),
    ...(template === null ? {} : { chat_template: template }),
    ...(more === undefined ? {} : { extra_special_tokens: contents(more) }),
    truncation_side: config.truncation_side ?? "left",
    name_or_path: path,
    is_local: true,
    added_tokens_decoder: Object.fromEntries(added.map(({ id, content }) => [id, content])),
    backend: "tokenizers",
  };
}

/** Python's `hasattr(value, "content")`: a token that is written as an object is its text. */
function contents(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(contents);
  if (typeof value !== "object" || value === null) return value;
  const { content } = value as { content?: unknown };
  if (typeof content === "string") return content;
  return Object.fromEntries(Object.entries(value).map(([name, inside]) => [name, contents(inside)]));
}

/** A text, or an object that holds one. */
function specialTexts(config: Json): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (!name.endsWith("_token")) continue;
    const text = typeof value === "string" ? value : (value as { content?: unknown } | null)?.content;
    if (typeof text === "string") texts[name] = text;
  }
  return texts;
}

/** A file of its own beats the configuration; of several templates the one named `default`. */
function templateOf(path: string, { chat_template: given }: Json): string | null {
  try {
    return readFileSync(join(path, "chat_template.jinja"), "utf8");
  } catch {
    if (!Array.isArray(given)) return typeof given === "string" ? given : null;
    const named = (given as { name?: unknown; template?: unknown }[]).find(({ name }) => name === "default");
    return typeof named?.template === "string" ? named.template : null;
  }
}

function ids(value: unknown): number[] {
  const list = Array.isArray(value) ? value : [value];
  return list.filter((id): id is number => whole(id) !== undefined);
}

function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
