/**
 * Views of the core's memory. They are created once after `init` and stay live, because the memory does not grow
 * afterwards. The address of a per-step list (plan rows) changes with each step and is in the words.
 */
import {
  Coast,
  FINE_WIDTH,
  type Field,
  HISTOGRAM_WIDTH,
  Histogram,
  OUT_WORDS,
  ROW_BYTES,
  SLOTS,
  Submit,
  Total,
  Word,
} from "../../../assembly/layout.ts";
import { KvTotal } from "../../../assembly/trtllm/layout.ts";
import type { CoreExports } from "./core.ts";

export class CoreViews {
  readonly words: Int32Array;
  readonly totals: Float64Array;
  /** Only with TensorRT-LLM's policies. */
  readonly kvTotals: Float64Array | null;
  /** View of the whole memory of the core, from which lists are read whose address changes at run time. */
  readonly i32: Int32Array;
  readonly u32: Uint32Array;
  readonly bounds: Float64Array;
  readonly buckets: Float64Array;
  readonly sums: Float64Array;
  /** Fine buckets, FINE_WIDTH per histogram. */
  readonly fine: Float64Array;
  /** Outbox rows (OUT_WORDS each) and tokens. Valid until the next update. */
  readonly out: Int32Array;
  readonly tokens: Int32Array;
  /** Indices of the rows that end a request. */
  readonly outEnds: Int32Array;
  readonly cachedPrompt: Int32Array;
  readonly createdPrompt: Int32Array;
  readonly deferred: Int32Array;
  /** Time at which each slot's request was first scheduled. */
  readonly scheduledUs: Float64Array;
  /** Arguments and results of `coast`. */
  readonly coast: Float64Array;
  /** Arguments of `submit`. */
  readonly submit: Float64Array;
  /** The input buffer: prompts, stop ids and fed ids. */
  readonly input: Int32Array;

  readonly #rowsAt: number;

  constructor({ memory, wordsAt, totalsAt, kvTotalsAt }: CoreExports) {
    const { buffer } = memory;
    this.kvTotals = kvTotalsAt ? new Float64Array(buffer, kvTotalsAt(), KvTotal.Count) : null;
    this.words = new Int32Array(buffer, wordsAt(), Word.Count);
    this.totals = new Float64Array(buffer, totalsAt(), Total.Count);
    this.i32 = new Int32Array(buffer);
    this.u32 = new Uint32Array(buffer);
    const at = (word: Word) => this.word(word) >>> 0;
    this.#rowsAt = at(Word.RowsAt) >> 2;
    const column = (word: Word, length = SLOTS) => new Int32Array(buffer, at(word), length);
    this.coast = new Float64Array(buffer, at(Word.CoastAt), Coast.Count);
    this.bounds = new Float64Array(buffer, at(Word.BoundsAt), Histogram.Count * HISTOGRAM_WIDTH);
    this.buckets = new Float64Array(buffer, at(Word.BucketsAt), Histogram.Count * HISTOGRAM_WIDTH);
    this.sums = new Float64Array(buffer, at(Word.SumsAt), Histogram.Count);
    this.fine = new Float64Array(buffer, at(Word.FineAt), Histogram.Count * FINE_WIDTH);
    this.out = column(Word.OutAt, this.#lengthOf(Word.OutAt));
    this.tokens = column(Word.TokensAt, this.#lengthOf(Word.TokensAt));
    this.outEnds = column(Word.OutEndsAt, this.out.length / OUT_WORDS);
    this.cachedPrompt = column(Word.CachedPromptAt);
    this.createdPrompt = column(Word.CreatedPromptAt);
    this.deferred = column(Word.DeferredAt);
    this.scheduledUs = new Float64Array(buffer, at(Word.ScheduledAt), SLOTS);
    this.submit = new Float64Array(buffer, at(Word.SubmitAt), Submit.Count);
    this.input = column(Word.InputAt, this.#lengthOf(Word.InputAt));
  }

  /** Returns one field of a request's row. */
  field(field: Field, slot: number): number {
    return this.i32[this.#rowsAt + slot * (ROW_BYTES >> 2) + field]!;
  }

  word(index: Word): number {
    return this.words[index]!;
  }

  /** Returns a copy of `count` words from the address in `word`. */
  list(word: Word, count: number): number[] {
    const from = (this.word(word) >>> 0) >> 2;
    return Array.from(this.i32.subarray(from, from + count));
  }

  /** Returns the number of words of a column. Its length in bytes is in the word before it. */
  #lengthOf(column: Word): number {
    return this.i32[((this.word(column) >>> 0) >> 2) - 1]! >> 2;
  }
}
