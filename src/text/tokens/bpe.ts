/**
 * Which token ids does a prompt have?
 *
 * Our own encoder over the packed vocabulary, because gpt-tokenizer's costs 400 ms and 100 MB to load and takes time
 * quadratic in the longest piece (100 ms for 16 KB of punctuation); a test holds us to its ids.
 */
import { Merger } from "./merge.ts";
import { NO_ID, TokenIds, type TokenIndex } from "./token-ids.ts";
import type { PromptPart } from "./types.ts";
import { readTable, SPECIAL, type VocabularyTable } from "./vocabulary-table.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool"];
const ROLE_CHARACTERS = Math.max(...ROLES.map((role) => role.length));
/** Pieces, words mostly, that are encoded between two calls of `pass`: some 50 us. */
const PIECES = 64;
/**
 * Longer pieces are cut here: merging takes up to 30 bytes of memory for each byte of a piece. A piece is this long only if
 * it has neither words nor lines, and then the ids differ from tiktoken's at the cuts.
 */
const PIECE_CHARACTERS_MOST = 2 ** 20;
/** Larger memory is given back when a prompt is done. */
const KEPT_NUMBERS = 65_536;
/** More ids stay in the memory in which they were collected. */
const CUT_NUMBERS = 2 ** 20;

export class BpeEncoder {
  readonly #ids: TokenIds;
  readonly #merger: Merger;
  readonly #split: RegExp;
  readonly #specials: Specials;
  readonly #utf8 = new TextEncoder();
  /** Ids of texts that stand in nearly every prompt. */
  readonly #usual = new Map<string, Uint32Array>();
  readonly #pass: () => void;
  #scratch = new Uint8Array(256);
  #out = new Uint32Array(1024);
  #count = 0;
  readonly #append = (id: number): void => {
    if (this.#count === this.#out.length) this.#grow();
    this.#out[this.#count++] = id;
  };

  /**
   * Over a packed vocabulary that has a split pattern; `index` as another encoder over it made it. `pass` is called between
   * pieces of long texts.
   */
  constructor(vocabulary: Uint8Array, index?: TokenIndex, pass: () => void = () => {}) {
    this.#pass = pass;
    const table = readTable(vocabulary);
    this.#ids = new TokenIds(table, index);
    this.#merger = new Merger(this.#ids);
    this.#split = new RegExp(table.splitPattern, "uy");
    this.#specials = new Specials(table);
    for (const role of ROLES) this.#usual.set(role, this.encode([role], false));
  }

  get index(): TokenIndex {
    return this.#ids.index;
  }

  /** The ids of the parts, one after the other, in memory of their own, which may be longer. Contract as `Encoder.encode`. */
  encode(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array<ArrayBuffer> {
    this.#count = 0;
    for (const part of parts) {
      if (typeof part === "number") this.#append(part);
      else if (allowSpecial) this.#withSpecials(part);
      else {
        const usual = part.length <= ROLE_CHARACTERS ? this.#usual.get(part) : undefined;
        if (usual === undefined) this.#text(part);
        else for (const id of usual) this.#append(id);
      }
    }
    if (this.#scratch.length > KEPT_NUMBERS) this.#scratch = new Uint8Array(256);
    this.#merger.release();
    if (this.#out.length <= KEPT_NUMBERS) return this.#out.slice(0, this.#count);
    const { buffer } = this.#out;
    this.#out = new Uint32Array(1024);
    // Cutting makes a copy. What nobody wrote to takes no memory.
    if (this.#count > CUT_NUMBERS) return new Uint32Array(buffer, 0, this.#count);
    return new Uint32Array(buffer.transfer(this.#count * Uint32Array.BYTES_PER_ELEMENT));
  }

  #withSpecials(text: string): void {
    let from = 0;
    for (let found = this.#specials.next(text, 0); found; found = this.#specials.next(text, from)) {
      this.#text(text.slice(from, found.at));
      this.#append(found.id);
      from = found.end;
    }
    this.#text(text.slice(from));
  }

  #text(text: string): void {
    for (let start = 0, pieces = 1; start < text.length; pieces++) {
      if (pieces % PIECES === 0) this.#pass();
      this.#split.lastIndex = start;
      // The pattern matches at any place of any text; were it not so, one character is a piece.
      const end = this.#split.test(text) ? this.#split.lastIndex : start + 1;
      for (; end - start > PIECE_CHARACTERS_MOST; this.#pass()) {
        const cut = start + PIECE_CHARACTERS_MOST;
        // A pair of surrogates is one character.
        const isInPair = (text.charCodeAt(cut) & 0xfc00) === 0xdc00;
        const to = isInPair ? cut - 1 : cut;
        this.#piece(text, start, to);
        start = to;
      }
      this.#piece(text, start, end);
      start = end;
    }
  }

  #piece(text: string, start: number, end: number): void {
    if (this.#scratch.length < 3 * (end - start)) this.#scratch = new Uint8Array(4 * (end - start));
    let length = 0;
    for (let at = start; at < end; at++) {
      const code = text.charCodeAt(at);
      if (code >= 0x80) {
        length = this.#utf8.encodeInto(text.slice(start, end), this.#scratch).written;
        break;
      }
      this.#scratch[length++] = code;
    }
    const id = this.#ids.find(this.#scratch, 0, length);
    if (id !== NO_ID) this.#append(id);
    else this.#merger.merge(this.#scratch, length, this.#append);
  }

  #grow(): void {
    const wider = new Uint32Array(2 * this.#out.length);
    wider.set(this.#out);
    this.#out.buffer.transfer(0); // frees it at once
    this.#out = wider;
  }
}

/** Where does the next spelling of a special token stand? */
class Specials {
  readonly #ids = new Map<string, number>();
  readonly #lengths: number[];
  /** What all spellings begin with. */
  #prefix: string | undefined;

  constructor({ size, offsets, flags, bytes }: VocabularyTable) {
    const decoder = new TextDecoder();
    for (let id = 0; id < size; id++) {
      if ((flags[id]! & SPECIAL) === 0) continue;
      const spelling = decoder.decode(bytes.subarray(offsets[id], offsets[id + 1]));
      if (spelling === "") continue;
      this.#ids.set(spelling, id);
      this.#prefix ??= spelling;
      while (!spelling.startsWith(this.#prefix)) this.#prefix = this.#prefix.slice(0, -1);
    }
    this.#lengths = [...new Set([...this.#ids.keys()].map((spelling) => spelling.length))].sort((a, b) => b - a);
  }

  next(text: string, from: number): { at: number; end: number; id: number } | undefined {
    if (this.#prefix === undefined) return undefined;
    for (let at = text.indexOf(this.#prefix, from); at >= 0; at = text.indexOf(this.#prefix, at + 1)) {
      for (const length of this.#lengths) {
        const id = this.#ids.get(text.slice(at, at + length));
        if (id !== undefined) return { at, end: at + length, id };
      }
      if (at >= text.length) return undefined; // an empty prefix is found at the end for ever
    }
    return undefined;
  }
}
