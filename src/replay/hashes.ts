/** What identifies the blocks of a traced prompt? Two words per full engine block, made from the trace's ids, or from nothing. */
import { TRACE_BLOCK, type TraceRequest } from "../traces/trace.ts";

export class PromptHashes {
  readonly #perId: number;
  #words = new Uint32Array(1024);

  /** `blockSize` divides the 512 tokens of a trace's block wherever the trace has ids. */
  constructor(readonly blockSize: number) {
    this.#perId = TRACE_BLOCK / blockSize;
  }

  /**
   * Low and high word per full block; a view of a buffer that the next call uses again. A block's words follow from the ids
   * up to it and from its place in the last one. What no id stands for is the request's own: `order` is its number.
   */
  of({ promptTokens, blockIds }: TraceRequest, order: number): Uint32Array {
    const full = Math.floor(promptTokens / this.blockSize);
    if (2 * full > this.#words.length) this.#words = new Uint32Array(4 * full);
    const words = this.#words;
    let block = blockIds === null ? 0 : this.#shared(blockIds, full);
    for (; block < full; block++) {
      words[2 * block] = order;
      words[2 * block + 1] = block | 0x80000000;
    }
    return words.subarray(0, 2 * full);
  }

  /** Chained over the blocks, as an engine chains them; gives the number of blocks that ids stand for. */
  #shared(ids: readonly number[], full: number): number {
    const words = this.#words;
    const known = Math.min(ids.length * this.#perId, full);
    let lo = 0x243f6a88;
    let hi = 0x85a308d3;
    for (let at = 0, block = 0; block < known; at++) {
      const id = ids[at]!;
      hi ^= Math.floor(id / 2 ** 32);
      for (let part = 0; part < this.#perId && block < known; part++, block++) {
        // One to one in (lo, hi) for each id, so that different beginnings stay different.
        lo = Math.imul(lo ^ id, 0x85ebca6b);
        lo = Math.imul(lo ^ (lo >>> 13), 0xc2b2ae35);
        lo ^= lo >>> 16;
        hi = Math.imul(hi + lo, 0x9e3779b1);
        hi ^= hi >>> 15;
        hi = Math.imul(hi, 0x2c1b3c6d) + part;
        lo = (lo + hi) | 0;
        words[2 * block] = lo;
        words[2 * block + 1] = hi;
      }
    }
    return known;
  }
}
