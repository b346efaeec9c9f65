/** Which id do these bytes have? The inverse of a vocabulary, without special tokens. */
import { SPECIAL, type VocabularyTable } from "./vocabulary-table.ts";

/** No token has these bytes. */
export const NO_ID = -1;

/** What it costs 20 ms to make: another thread's may be used, over the same memory. */
export interface TokenIndex {
  /** Id plus one; 0 is empty. At most half full. */
  readonly slots: Int32Array;
  /** Id of each pair of bytes: merging asks for these most. */
  readonly pairs: Int32Array;
}

const shared = (size: number) => new Int32Array(new SharedArrayBuffer(size * Int32Array.BYTES_PER_ELEMENT));

/** Open addressing over the table's own bytes: 2 MB for 200,000 tokens, against 60 MB for a Map of strings. */
export class TokenIds {
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
