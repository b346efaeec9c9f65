/**
 * Converts token IDs to text with a packed vocabulary, and caches the texts.
 *
 * The built-in vocabulary is o200k_harmony (OpenAI's tiktoken, MIT licence). `scripts/pack-vocabulary.ts` packs it at build time
 * from the data of gpt-tokenizer (MIT licence).
 */
import type { Vocabulary } from "./types.ts";
import { COMPLETE, packTable, readTable, SPECIAL, type VocabularyTable } from "./vocabulary-table.ts";

/** IDs of control tokens of o200k_harmony that the chat template and the engine use. */
export const HARMONY = { return: 200002, start: 200006, end: 200007, message: 200008, call: 200012 } as const;

/** Loads a packed file (`build/vocabulary.bin`). Keeps views of `bytes`. Throws if it is another file. */
export function loadVocabulary(bytes: Uint8Array): Vocabulary {
  return new PackedVocabulary(readTable(bytes));
}

/** Loads the vocabulary with `<think>` and `</think>`, which o200k_harmony lacks, as its last two reserved IDs. */
export function loadThinkingVocabulary(bytes: Uint8Array): Vocabulary {
  const table = readTable(bytes);
  const start = table.size - 2;
  const from = table.offsets[start]!;
  const [offsets, flags] = [table.offsets.slice(), table.flags.slice()];
  offsets.set([from + THINK.length, from + 2 * THINK.length + 1], start + 1);
  flags.fill(COMPLETE, start);
  const texts = new Uint8Array(from + 2 * THINK.length + 1);
  texts.set(table.bytes.subarray(0, from));
  texts.set(new TextEncoder().encode(`${THINK}</think>`), from);
  return new PackedVocabulary({ ...table, offsets, flags, bytes: texts });
}

const THINK = "<think>";

/** Makes a small vocabulary of its tokens. */
export function vocabularyOf(tokens: readonly Uint8Array[], specials: ReadonlySet<number>, eosId: number): Vocabulary {
  return loadVocabulary(packTable(tokens, specials, eosId, ""));
}

/**
 * Escapes a text for JSON like serde_json, which vLLM 0.33 uses through pydantic: \b \f \n \r \t, other control
 * characters as \u00xx in lower case, nothing above ASCII. JSON.stringify differs only for lone surrogates, which decoded
 * UTF-8 never has.
 */
export function escapeJson(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text).slice(1, -1) : text;
}

/** Returns a text as a JSON string, with its quotation marks. */
export const quotedJson = (text: string) => `"${escapeJson(text)}"`;
/** Returns a text as a JSON string, or `null` if the text is null or undefined. */
export const quotedOrNull = (text: string | null | undefined) => (text == null ? "null" : quotedJson(text));

/** Characters that JSON escapes, and surrogates, which `JSON.stringify` also escapes if they are alone. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes exactly these
const NEEDS_ESCAPE = /["\\\x00-\x1f\ud800-\udfff]/;
const PAGE_BITS = 8;
const PAGE_MASK = (1 << PAGE_BITS) - 1;

class PackedVocabulary implements Vocabulary {
  readonly size: number;
  readonly eosId: number;
  readonly maxTokenBytes: number;
  readonly #pieces: PagedCache<string>;
  readonly #escaped: PagedCache<string>;
  readonly #plain: PagedCache<Uint8Array>;
  readonly #bytes: PagedCache<Uint8Array>;
  readonly #encoder = new TextEncoder();
  /** The bytes of all tokens. */
  readonly #all: Buffer;

  constructor(private readonly table: VocabularyTable) {
    this.size = table.size;
    this.eosId = table.eosId;
    this.maxTokenBytes = table.maxTokenBytes;
    const { buffer, byteOffset, byteLength } = table.bytes;
    this.#all = Buffer.from(buffer, byteOffset, byteLength);
    this.#pieces = new PagedCache(table.size);
    this.#escaped = new PagedCache(table.size);
    this.#plain = new PagedCache(table.size);
    this.#bytes = new PagedCache(table.size);
  }

  bytesOf(id: number): Uint8Array {
    const { offsets, bytes } = this.table;
    return id >= 0 && id < this.size ? bytes.subarray(offsets[id], offsets[id + 1]) : bytes.subarray(0, 0);
  }

  copyBytes(id: number, into: Uint8Array, at: number): number {
    const { offsets, bytes } = this.table;
    if (id < 0 || id >= this.size) return at;
    let to = at;
    for (let from = offsets[id]!; from < offsets[id + 1]!; from++) into[to++] = bytes[from]!;
    return to;
  }

  isSpecial(id: number): boolean {
    return (this.table.flags[id]! & SPECIAL) !== 0;
  }

  piece(id: number): string | undefined {
    return this.#pieces.pages[id >> PAGE_BITS]?.[id & PAGE_MASK] ?? this.#decode(id);
  }

  freshPiece(id: number): string | undefined {
    return this.#pieces.pages[id >> PAGE_BITS]?.[id & PAGE_MASK] ?? this.#text(id);
  }

  escapedPiece(id: number): string | undefined {
    return this.#escaped.pages[id >> PAGE_BITS]?.[id & PAGE_MASK] ?? this.#escape(id);
  }

  pieceBytes(id: number): Uint8Array | undefined {
    return this.#plain.pages[id >> PAGE_BITS]?.[id & PAGE_MASK] ?? this.#view(id);
  }

  escapedBytes(id: number): Uint8Array | undefined {
    return this.#bytes.pages[id >> PAGE_BITS]?.[id & PAGE_MASK] ?? this.#encode(id);
  }

  #view(id: number): Uint8Array | undefined {
    if (id >= 0 && id < this.size && (this.table.flags[id]! & COMPLETE) === 0) return undefined;
    return this.#plain.keep(id, this.bytesOf(id));
  }

  #encode(id: number): Uint8Array | undefined {
    const text = this.escapedPiece(id);
    return text === undefined ? undefined : this.#bytes.keep(id, this.#encoder.encode(text));
  }

  #decode(id: number): string | undefined {
    const text = this.#text(id);
    return text === undefined || text === "" ? text : this.#pieces.keep(id, text);
  }

  /** Decodes a token without making a view of its bytes. Returns undefined if it is not complete. */
  #text(id: number): string | undefined {
    if (id < 0 || id >= this.size) return "";
    const { flags, offsets } = this.table;
    return (flags[id]! & COMPLETE) === 0 ? undefined : this.#all.toString("utf8", offsets[id], offsets[id + 1]);
  }

  #escape(id: number): string | undefined {
    const text = this.piece(id);
    return text === undefined ? undefined : this.#escaped.keep(id, escapeJson(text));
  }
}

/** Most values of a cache. Log probabilities can name every token, and a collection of garbage visits each text. */
const KEPT_MOST = 32_768;

/** Caches values by token ID, in pages, because most tokens are never used. A slot per ID would take 1.6 MB at the start. */
class PagedCache<T> {
  readonly pages: (T | undefined)[][];
  #count = 0;

  constructor(size: number) {
    this.pages = Array.from({ length: (size >> PAGE_BITS) + 1 }, () => []);
  }

  /** Stores a value in its page, which grows as needed, and returns it. Does not store values of unknown IDs. */
  keep(id: number, value: T): T {
    if (++this.#count > KEPT_MOST) {
      this.#count = 1;
      for (const full of this.pages) full.length = 0;
    }
    const page = this.pages[id >> PAGE_BITS];
    const slot = id & PAGE_MASK;
    while (page && page.length <= slot) page.push(undefined);
    if (page) page[slot] = value;
    return value;
  }
}
