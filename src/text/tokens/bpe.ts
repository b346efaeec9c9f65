/**
 * Encodes text as token ids: splits it into pieces, looks each piece up, and merges byte pairs of pieces that are no token.
 *
 * Our own encoder over the packed vocabulary, because gpt-tokenizer's costs 400 ms and 100 MB to load and takes time
 * quadratic in the longest piece (100 ms for 16 KB of punctuation); a test holds us to its ids.
 */
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

/** Finds spellings of special tokens in a text. */
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

/** No token has these bytes. */
const NO_ID = -1;

/** Tables that take 20 ms to make. Several threads may use one, because its memory is shared. */
export interface TokenIndex {
  /** Id plus one; 0 is empty. At most half full. */
  readonly slots: Int32Array;
  /** Id of each pair of bytes: merging asks for these most. */
  readonly pairs: Int32Array;
}

const shared = (size: number) => new Int32Array(new SharedArrayBuffer(size * Int32Array.BYTES_PER_ELEMENT));

/**
 * Ids by the bytes of their tokens, without special tokens. Open addressing over the table's own bytes: 2 MB for 200,000
 * tokens, against 60 MB for a Map of strings.
 */
class TokenIds {
  readonly #table: VocabularyTable;
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #pairs: Int32Array;

  /** `index`: of the same table. */
  constructor(table: VocabularyTable, index?: TokenIndex) {
    this.#table = table;
    this.#slots = index?.slots ?? shared(2 ** Math.ceil(Math.log2(2 * table.size + 1)));
    this.#pairs = index?.pairs ?? shared(65536).fill(NO_ID);
    this.#mask = this.#slots.length - 1;
    if (index === undefined) this.#fill(table);
  }

  get index(): TokenIndex {
    return { slots: this.#slots, pairs: this.#pairs };
  }

  #fill(table: VocabularyTable): void {
    const { offsets, bytes, flags, size } = table;
    for (let id = 0; id < size; id++) {
      const start = offsets[id]!;
      const end = offsets[id + 1]!;
      if (end === start || (flags[id]! & SPECIAL) !== 0) continue;
      let slot = this.#hash(bytes, start, end);
      while (this.#slots[slot] !== 0) slot = (slot + 1) & this.#mask;
      this.#slots[slot] = id + 1;
      if (end - start === 2) this.#pairs[(bytes[start]! << 8) | bytes[start + 1]!] = id;
    }
  }

  /** The id of `bytes[start … end - 1]`, or NO_ID. */
  find(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    if (length === 2) return this.#pairs[(bytes[start]! << 8) | bytes[start + 1]!]!;
    if (length > this.#table.maxTokenBytes) return NO_ID;
    const { offsets, bytes: known } = this.#table;
    for (let slot = this.#hash(bytes, start, end); ; slot = (slot + 1) & this.#mask) {
      const id = this.#slots[slot]! - 1;
      if (id < 0) return NO_ID;
      const at = offsets[id]!;
      if (offsets[id + 1]! - at !== length) continue;
      let same = 0;
      while (same < length && known[at + same] === bytes[start + same]) same++;
      if (same === length) return id;
    }
  }

  #hash(bytes: Uint8Array, start: number, end: number): number {
    let hash = 0x811c9dc5; // FNV-1a
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
    return (hash ^ (hash >>> 15)) & this.#mask;
  }
}

/** Rank and place in one number, ordered by rank, then place. Ranks stay below 2^21. */
const PLACES = 2 ** 32;
/** Below this many bytes looking at all neighbours each time is faster than a heap. */
const SMALL = 48;
/** Memory for pieces of so many bytes is kept. */
const KEPT_BYTES = 65_536;

/**
 * Merges the bytes of one piece into tokens, as tiktoken does: starts from single bytes, and while some neighbours together
 * are a token, joins those whose token has the lowest id, leftmost first. Ids are ranks in tiktoken vocabularies. A heap over
 * a linked list keeps this at n log n: a prompt may be 500 KB of one character, which is one piece.
 */
class Merger {
  readonly #ids: TokenIds;
  // Parts by the place of their first byte: where the next part begins, where the previous one does, and the rank of
  // this part joined with the next (NO_ID: no token, or no part begins here any more).
  #next = new Int32Array(SMALL + 1);
  #previous = new Int32Array(SMALL + 1);
  #ranks = new Int32Array(SMALL + 1);
  #heap: number[] = [];

  constructor(ids: TokenIds) {
    this.#ids = ids;
  }

  /** Appends the ids of `bytes[0 … length - 1]`. Every single byte must be a token. */
  merge(bytes: Uint8Array, length: number, out: (id: number) => void): void {
    this.#reserve(length);
    for (let at = 0; at < length; at++) {
      this.#next[at] = at + 1;
      this.#previous[at] = at - 1;
      this.#ranks[at] = at + 2 <= length ? this.#ids.find(bytes, at, at + 2) : NO_ID;
    }
    if (length <= SMALL) this.#scan(bytes, length);
    else this.#drain(bytes, length);
    for (let at = 0; at < length; at = this.#next[at]!) out(this.#ids.find(bytes, at, this.#next[at]!));
  }

  /** Gives back the memory of long pieces. */
  release(): void {
    if (this.#next.length <= KEPT_BYTES) return;
    this.#heap = [];
    this.#next = new Int32Array(0);
    this.#reserve(SMALL);
  }

  #scan(bytes: Uint8Array, length: number): void {
    for (;;) {
      let best = NO_ID;
      let lowest = Number.MAX_SAFE_INTEGER;
      for (let at = 0; at < length; at = this.#next[at]!) {
        const rank = this.#ranks[at]!;
        if (rank !== NO_ID && rank < lowest) {
          lowest = rank;
          best = at;
        }
      }
      if (best === NO_ID) return;
      this.#join(bytes, length, best);
    }
  }

  #drain(bytes: Uint8Array, length: number): void {
    for (let at = 0; at < length; at++) this.#offer(at);
    for (;;) {
      const key = this.#pop();
      if (key === undefined) return;
      const at = key % PLACES;
      // Stale: the part was joined away or joined on since this was offered.
      if (this.#ranks[at] !== Math.floor(key / PLACES)) continue;
      this.#join(bytes, length, at);
      this.#offer(at);
      if (this.#previous[at]! >= 0) this.#offer(this.#previous[at]!);
    }
  }

  /** The part at `at` swallows the next one. */
  #join(bytes: Uint8Array, length: number, at: number): void {
    const gone = this.#next[at]!;
    const next = this.#next[gone]!;
    this.#ranks[gone] = NO_ID;
    this.#next[at] = next;
    if (next < length) this.#previous[next] = at;
    this.#ranks[at] = next < length ? this.#ids.find(bytes, at, this.#next[next]!) : NO_ID;
    const previous = this.#previous[at]!;
    if (previous >= 0) this.#ranks[previous] = this.#ids.find(bytes, previous, next);
  }

  #offer(at: number): void {
    const rank = this.#ranks[at]!;
    if (rank === NO_ID) return;
    const key = rank * PLACES + at;
    const heap = this.#heap;
    let hole = heap.length;
    heap.push(key);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (heap[parent]! <= key) break;
      heap[hole] = heap[parent]!;
      hole = parent;
    }
    heap[hole] = key;
  }

  #pop(): number | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++;
      if (heap[child]! >= last) break;
      heap[hole] = heap[child]!;
      hole = child;
    }
    heap[hole] = last;
    return top;
  }

  #reserve(length: number): void {
    if (length < this.#next.length) return;
    const size = Math.max(length + 1, 2 * this.#next.length);
    this.#next = new Int32Array(size);
    this.#previous = new Int32Array(size);
    this.#ranks = new Int32Array(size);
  }
}
