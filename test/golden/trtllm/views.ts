/** Reads the memory words that the core of TensorRT-LLM's policies adds. */
import { KvTotal, LINE_BYTES, type LineField, TrtWord } from "../../../assembly/trtllm/layout.ts";
import type { Core } from "../../../src/engine/wasm/core.ts";

export class TrtViews {
  readonly #words: Int32Array;
  readonly #totals: Float64Array;
  readonly #i32: Int32Array;

  constructor({ exports, views }: Core) {
    const { buffer } = exports.memory;
    this.#words = new Int32Array(buffer, exports.trtWordsAt!(), TrtWord.Count);
    this.#totals = new Float64Array(buffer, exports.kvTotalsAt!(), KvTotal.Count);
    this.#i32 = views.i32;
  }

  word(index: TrtWord): number {
    return this.#words[index]!;
  }

  /** Returns a copy of a list, from the words with its address and its length. */
  list(at: TrtWord, count: TrtWord): number[] {
    const from = (this.word(at) >>> 0) >> 2;
    return Array.from(this.#i32.subarray(from, from + this.word(count)));
  }

  /** Returns one field of the policies' state of a request. */
  line(field: LineField, slot: number): number {
    return this.#i32[this.#placeOf(field, slot)]!;
  }
  setLine(field: LineField, slot: number, value: number): void {
    this.#i32[this.#placeOf(field, slot)] = value;
  }
  #placeOf(field: LineField, slot: number): number {
    return ((this.word(TrtWord.LinesAt) >>> 0) >> 2) + slot * (LINE_BYTES >> 2) + field;
  }

  /** Returns the numbers of allocated, newly allocated, reused and missed blocks. */
  totals(): number[] {
    return Array.from(this.#totals.subarray(0, KvTotal.Missed + 1));
  }
}
