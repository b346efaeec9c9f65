/**
 * What text does a token id stand for?
 *
 * The built-in vocabulary is o200k_harmony (OpenAI's tiktoken, MIT licence), packed at build time from the data of
 * gpt-tokenizer (MIT licence) by `scripts/pack-vocabulary.ts`.
 */
import type { Vocabulary } from "./types.ts";
import { COMPLETE, packTable, readTable, SPECIAL, type VocabularyTable } from "./vocabulary-table.ts";

/** Control ids of o200k_harmony that the chat template and the engine use. */
export const HARMONY = { return: 200002, start: 200006, end: 200007, message: 200008, call: 200012 } as const;

/** The vocabulary in a packed file (`build/vocabulary.bin`). Keeps views on `bytes`. Throws when it is no such file. */
export function loadVocabulary(bytes: Uint8Array): Vocabulary {
  return new PackedVocabulary(readTable(bytes));
}

/** Loads the vocabulary with `<think>` and `</think>`, which o200k_harmony lacks, in place of its last two reserved ids. */
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

/** A vocabulary given token by token, for small ones. */
export function vocabularyOf(tokens: readonly Uint8Array[], specials: ReadonlySet<number>, eosId: number): Vocabulary {
  return loadVocabulary(packTable(tokens, specials, eosId, ""));
}

/**
 * Text between the quotes of a JSON string, as serde_json writes it (vLLM 0.33 prints chunks with pydantic): \\b \\f \\n
 * \\r \\t, other control characters \\u00xx in lower case, nothing above ASCII. JSON.stringify differs for lone
 * surrogates only, which decoded UTF-8 never holds.
 */
export function escapeJson(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text).slice(1, -1) : text;
}

/** What JSON escapes, and what `JSON.stringify` escapes besides: halves of a character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes exactly these
const NEEDS_ESCAPE = /["\\\x00-\x1f\ud800-\udfff]/;
const PAGE_BITS = 8;
const PAGE_MASK = (1 << PAGE_BITS) - 1;

class PackedVocabulary implements Vocabulary {
  readonly size: number;
  readonly eosId: number;
  readonly maxTokenBytes: number;
  readonly #table: VocabularyTable;
  readonly #pieces: Kept<string>;
  readonly #escaped: Kept<string>;
  readonly #plain: Kept<Uint8Array>;
  readonly #bytes: Kept<Uint8Array>;
  readonly #encoder = new TextEncoder();
  /** The bytes of all tokens. */
  readonly #all: Buffer;

  constructor(table: VocabularyTable) {
    this.#table = table;
    this.size = table.size;
    this.eosId = table.eosId;
    this.maxTokenBytes = table.maxTokenBytes;
    const { buffer, byteOffset, byteLength } = table.bytes;
    this.#all = Buffer.from(buffer, byteOffset, byteLength);
    this.#pieces = new Kept(table.size);
    this.#escaped = new Kept(table.size);
    this.#plain = new Kept(table.size);
    this.#bytes = new Kept(table.size);
  }

  bytesOf(id: number): Uint8Array {
    const { offsets, bytes } = this.#table;
    return id >= 0 && id < this.size ? bytes.subarray(offsets[id], offsets[id + 1]) : bytes.subarray(0, 0);
  }

  copyBytes(id: number, into: Uint8Array, at: number): number {
    const { offsets, bytes } = this.#table;
    if (id < 0 || id >= this.size) return at;
    let to = at;
    for (let from = offsets[id]!; from < offsets[id + 1]!; from++) into[to++] = bytes[from]!;
    return to;
  }

  isSpecial(id: number): boolean {
    return (this.#table.flags[id]! & SPECIAL) !== 0;
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
    if (id >= 0 && id < this.size && (this.#table.flags[id]! & COMPLETE) === 0) return undefined;
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

  /** A token costs no view of its bytes. */
  #text(id: number): string | undefined {
    if (id < 0 || id >= this.size) return "";
    const { flags, offsets } = this.#table;
    return (flags[id]! & COMPLETE) === 0 ? undefined : this.#all.toString("utf8", offsets[id], offsets[id + 1]);
  }

  #escape(id: number): string | undefined {
    const text = this.piece(id);
    return text === undefined ? undefined : this.#escaped.keep(id, escapeJson(text));
  }
}

/** So many are kept: log probabilities name every token there is, and a collection of garbage looks at each text. */
const KEPT_MOST = 32_768;

/** What stands for ids, in pages, because most are never printed: one slot per id would cost 1.6 MB at start. */
class Kept<T> {
  readonly pages: (T | undefined)[][];
  #count = 0;

  constructor(size: number) {
    this.pages = Array.from({ length: (size >> PAGE_BITS) + 1 }, () => []);
  }

  /** Stores it in its page, which grows as far as needed; ids outside are not kept. */
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
