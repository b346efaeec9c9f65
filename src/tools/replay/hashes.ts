/** Makes the words that identify the blocks of a traced prompt: two per full engine block, from the trace's ids or unique. */
import { TRACE_BLOCK, type TraceRequest } from "../../workloads/trace.ts";

export class PromptHashes {
  #words = new Uint32Array(1024);

  /** `blockSize`: tokens of an engine's block; `idTokens`: tokens per id of a trace. Neither need divide the other. */
  constructor(
    readonly blockSize: number,
    readonly idTokens = TRACE_BLOCK,
  ) {}

  /**
   * Returns low and high word per full block, in a buffer that the next call overwrites. A block's words follow from the ids
   * of all tokens up to its end, and from its position. Blocks that ids do not cover fully are unique to the request. `order`:
   * number of the request.
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

  /** Chains ids over the blocks, as an engine chains its blocks. Returns the number of blocks that ids cover. */
  #shared(ids: readonly number[], full: number): number {
    const { blockSize, idTokens } = this;
    const words = this.#words;
    const known = Math.min(Math.floor((ids.length * idTokens) / blockSize), full);
    let lo = 0x243f6a88;
    let hi = 0x85a308d3;
    for (let block = 0, at = 0, part = 0; block < known; block++) {
      const end = (block + 1) * blockSize;
      part = at * idTokens < end ? 0 : part + 1;
      // A block in which the tokens of no new id begin repeats the id of its last token, so that each block hashes at least one
      // id.
      at = Math.min(at, Math.ceil(end / idTokens) - 1);
      for (; at * idTokens < end; at++) {
        const id = ids[at]!;
        // For each id a bijection of (lo, hi), so that different prefixes never get equal words here.
        hi ^= Math.floor(id / 2 ** 32);
        lo = Math.imul(lo ^ id, 0x85ebca6b);
        lo = Math.imul(lo ^ (lo >>> 13), 0xc2b2ae35);
        lo ^= lo >>> 16;
        hi = Math.imul(hi + lo, 0x9e3779b1);
        hi ^= hi >>> 15;
        hi = Math.imul(hi, 0x2c1b3c6d) + part;
        lo = (lo + hi) | 0;
      }
      words[2 * block] = lo;
      words[2 * block + 1] = hi;
    }
    return known;
  }
}
