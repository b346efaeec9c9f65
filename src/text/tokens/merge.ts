/**
 * Into which tokens does one piece of text merge?
 *
 * Byte pair encoding as tiktoken does it: start from single bytes, and while some neighbours together are a token, join
 * those whose token has the lowest id, leftmost first. Ids are ranks in tiktoken vocabularies. A heap over a linked list
 * keeps this at n log n: a prompt may be 500 KB of one character, which is one piece.
 */
import { NO_ID, type TokenIds } from "./token-ids.ts";

/** Rank and place in one number, ordered by rank, then place. Ranks stay below 2^21. */
const PLACES = 2 ** 32;
/** Below this many bytes looking at all neighbours each time is faster than a heap. */
const SMALL = 48;
/** Memory for pieces of so many bytes is kept. */
const KEPT_BYTES = 65_536;

export class Merger {
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
