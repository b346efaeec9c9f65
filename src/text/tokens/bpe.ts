/**
 * Encodes text as token IDs: splits it into pieces, looks each piece up, and merges byte pairs of pieces that are no token.
 *
 * It reads the packed vocabulary, because gpt-tokenizer's encoder takes 400 ms and 100 MB to load, and time quadratic in the
 * longest piece (100 ms for 16 KB of punctuation). A test compares the IDs of both.
 */
import type { PromptPart } from "./types.ts";
import { readTable, SPECIAL, type VocabularyTable } from "./vocabulary-table.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool"];
const ROLE_CHARACTERS = Math.max(...ROLES.map((role) => role.length));
/** Pieces, mostly words, that are encoded between two calls of `pass`, in about 50 us. */
const PIECES = 64;
/**
 * UTF-16 units at which a piece is cut, because merging takes up to 30 bytes of memory per byte of a piece. Only a text without
 * words and lines has such a piece. Its IDs differ from tiktoken's at the cuts.
 */
const PIECE_CHARACTERS_MOST = 2 ** 20;
/** Most numbers of a buffer that is kept. A longer buffer is freed after its prompt. */
const KEPT_NUMBERS = 65_536;
/** IDs above which the result is a view of its larger buffer, because cutting the buffer copies it. */
const CUT_NUMBERS = 2 ** 20;

/** Encodes with one vocabulary. */
export class BpeEncoder {
  readonly #ids: TokenIds;
  readonly #merger: Merger;
  readonly #split: RegExp;
  readonly #specials: Specials;
  readonly #utf8 = new TextEncoder();
  /** IDs of texts that nearly every prompt has. */
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
   * `vocabulary`: a packed vocabulary with a split pattern. `index`: the index of another encoder with the same vocabulary.
   * `pass` is called between pieces of long texts.
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

  /** The index, which encoders of other threads can use. */
  get index(): TokenIndex {
    return this.#ids.index;
  }

  /** Like `Encoder.encode`. The result has its own buffer, which may be longer than the result. */
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
    // The unused rest of the buffer was never written, so it takes no memory.
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
      // The pattern should match anywhere. If it does not, one character is a piece.
      const end = this.#split.test(text) ? this.#split.lastIndex : start + 1;
      for (; end - start > PIECE_CHARACTERS_MOST; this.#pass()) {
        const cut = start + PIECE_CHARACTERS_MOST;
        // Do not split a surrogate pair.
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
    // Frees the memory at once.
    this.#out.buffer.transfer(0);
    this.#out = wider;
  }
}

/** Finds spellings of special tokens in a text. */
class Specials {
  readonly #ids = new Map<string, number>();
  readonly #lengths: number[];
  /** Common prefix of all spellings. Undefined if there are none. */
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

  /** Finds the next spelling from offset `from`. */
  next(text: string, from: number): { at: number; end: number; id: number } | undefined {
    if (this.#prefix === undefined) return undefined;
    for (let at = text.indexOf(this.#prefix, from); at >= 0; at = text.indexOf(this.#prefix, at + 1)) {
      for (const length of this.#lengths) {
        const id = this.#ids.get(text.slice(at, at + length));
        if (id !== undefined) return { at, end: at + length, id };
      }
      // An empty prefix is found at the end without end.
      if (at >= text.length) return undefined;
    }
    return undefined;
  }
}

/** Result if no token has the bytes. */
const NO_ID = -1;

/** Tables that find tokens. They take 20 ms to make, so that threads share them in shared memory. */
export interface TokenIndex {
  /** Hash table of IDs plus one. 0 is an empty slot. At most half full. */
  readonly slots: Int32Array;
  /** ID of each pair of bytes, which merging needs most. */
  readonly pairs: Int32Array;
}

const shared = (size: number) => new Int32Array(new SharedArrayBuffer(size * Int32Array.BYTES_PER_ELEMENT));

/**
 * Finds the IDs of tokens by their bytes, except special tokens. A hash table with open addressing that refers to the bytes of
 * the vocabulary: 2 MB for 200,000 tokens, instead of 60 MB for a Map of strings.
 */
class TokenIds {
  readonly #table: VocabularyTable;
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #pairs: Int32Array;

  /** `index`: the index of the same vocabulary, if it was made before. */
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

  /** Returns the ID of the bytes from `start` to `end - 1`, or NO_ID. */
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

/** A key of the heap is rank times PLACES plus place, so that keys sort by rank, then place. Ranks are below 2^21. */
const PLACES = 2 ** 32;
/** Bytes of the longest piece for which comparing all pairs each time is faster than a heap. */
const SMALL = 48;
/** Bytes of the longest piece whose memory is kept. */
const KEPT_BYTES = 65_536;

/**
 * Merges the bytes of one piece into tokens like tiktoken. Starts from single bytes, and joins the neighbours whose token has the
 * lowest ID, leftmost first, until no neighbours are a token. IDs are ranks in tiktoken's vocabularies. A heap over a linked list
 * takes n log n steps, because a prompt may be 500 KB of one character, which is one piece.
 */
class Merger {
  // Indexed by the first byte of a part: the start of the next part, the start of the previous part, and the rank of this part
  // joined with the next. The rank is NO_ID if the joined part is no token, or if no part starts here any longer.
  #next = new Int32Array(SMALL + 1);
  #previous = new Int32Array(SMALL + 1);
  #ranks = new Int32Array(SMALL + 1);
  #heap: number[] = [];

  constructor(private readonly ids: TokenIds) {}

  /** Calls `out` with the IDs of the first `length` bytes. Every single byte must be a token. */
  merge(bytes: Uint8Array, length: number, out: (id: number) => void): void {
    this.#reserve(length);
    for (let at = 0; at < length; at++) {
      this.#next[at] = at + 1;
      this.#previous[at] = at - 1;
      this.#ranks[at] = at + 2 <= length ? this.ids.find(bytes, at, at + 2) : NO_ID;
    }
    if (length <= SMALL) this.#scan(bytes, length);
    else this.#drain(bytes, length);
    for (let at = 0; at < length; at = this.#next[at]!) out(this.ids.find(bytes, at, this.#next[at]!));
  }

  /** Frees the memory of long pieces. */
  release(): void {
    if (this.#next.length <= KEPT_BYTES) return;
    this.#heap = [];
    this.#next = new Int32Array(0);
    this.#reserve(SMALL);
  }

  /** Merges by comparing all pairs each time. */
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

  /** Merges with a heap of pairs. */
  #drain(bytes: Uint8Array, length: number): void {
    for (let at = 0; at < length; at++) this.#add(at);
    for (;;) {
      const key = this.#pop();
      if (key === undefined) return;
      const at = key % PLACES;
      // Outdated: the part was joined with another since it was added.
      if (this.#ranks[at] !== Math.floor(key / PLACES)) continue;
      this.#join(bytes, length, at);
      this.#add(at);
      if (this.#previous[at]! >= 0) this.#add(this.#previous[at]!);
    }
  }

  /** Joins the part at `at` with the next one. */
  #join(bytes: Uint8Array, length: number, at: number): void {
    const gone = this.#next[at]!;
    const next = this.#next[gone]!;
    this.#ranks[gone] = NO_ID;
    this.#next[at] = next;
    if (next < length) this.#previous[next] = at;
    this.#ranks[at] = next < length ? this.ids.find(bytes, at, this.#next[next]!) : NO_ID;
    const previous = this.#previous[at]!;
    if (previous >= 0) this.#ranks[previous] = this.ids.find(bytes, previous, next);
  }

  /** Adds the pair at `at` to the heap, if it is a token. */
  #add(at: number): void {
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

  /** Removes the lowest key of the heap. Returns undefined if it is empty. */
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
