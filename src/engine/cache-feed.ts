/**
 * Copies what changes in an engine's prefix cache into memory that another thread reads, which makes vLLM's KV events of it. The
 * loop only copies words: the events of the core, the outputs of each step, and each prompt once. If the memory is full, records
 * are lost and counted; the loop never waits.
 */
import { NONE, OUT_WORDS, SLOTS, SUBMIT_HASHED, Word } from "../../assembly/layout.ts";
import type { CoreRequest } from "./core-request.ts";
import { type AdapterName, type CacheKeyFacts, CacheRecord, FeedWord } from "./interface/cache-records.ts";
import type { EndingStep, LoopObserver } from "./lateness/loop-observer.ts";
import type { Core } from "./wasm/core.ts";

/** Words of the ring, 16 MiB. A power of two. */
export const FEED_WORDS = 2 ** 22;
/** A request that is longer than this share of the ring is recorded without its tokens, so that its blocks have no hashes. */
const REQUEST_SHARE = 1 / 4;
const HEAD_WORDS = 2;
const REQUEST_HEAD = 4;
const ENCODER = new TextEncoder();

export interface CacheFeedOptions {
  /** Wakes the reader, which has set `FeedWord.IsWaiting`. */
  readonly wake: () => void;
  /** Batches that may wait for the reader. The events of further batches are not sent. 0: no limit. */
  readonly batchesMost: number;
  /** Microseconds since 1970 at the 0 of the engine's clock. */
  readonly epochUs: number;
  /** Returns the adapter with this number, from 1. */
  readonly adapter: (number: number) => AdapterName | null;
  /** False if another reader empties the core's buffer of events after this one. */
  readonly drains: boolean;
  /** Words of the ring, a power of two. Absent: FEED_WORDS. */
  readonly words?: number;
}

export class CacheFeed {
  readonly memory: SharedArrayBuffer;
  readonly #head: Int32Array;
  readonly #ring: Int32Array;
  readonly #words: number;
  readonly #second = new Float64Array(1);
  readonly #secondWords = new Int32Array(this.#second.buffer);
  /** Position of the next word. */
  #at = 0;
  #isStopped = false;
  /** True if records were lost since the last one that was written. */
  #isGap = false;
  #lostBatches = 0;
  #batches = 0;
  /** True if the reader must read after this step. */
  #mustWake = false;
  /** True if events were recorded since the end of the last batch. */
  #hasEvents = false;
  /** True if some of them were lost. */
  #hasLostEvents = false;

  #core: Core | null = null;

  constructor(private readonly options: CacheFeedOptions) {
    this.#words = options.words ?? FEED_WORDS;
    this.memory = new SharedArrayBuffer((FeedWord.Count + this.#words) * 4);
    this.#head = new Int32Array(this.memory, 0, FeedWord.Count);
    this.#ring = new Int32Array(this.memory, FeedWord.Count * 4);
  }

  /** Returns an observer of the engine's steps. */
  on(core: Core): LoopObserver {
    this.#core = core;
    const { views } = core;
    return {
      // A slot may belong to another request by the end of the step, so events are not left until then.
      planned: () => this.#events(core),
      started: ({ startUs }: EndingStep) => {
        const rows = views.words[Word.OutRows]!;
        if (rows > 0) this.#outputs(views.out, rows * OUT_WORDS, views.tokens, views.words[Word.OutTokens]!);
        this.#events(core);
        if (this.#hasEvents) this.#batch((this.options.epochUs + startUs) / 1e6);
      },
      // The thread that wakes may take this thread's core, so it is woken when the step has been sent.
      stepped: () => {
        if (!this.#mustWake) return;
        this.#mustWake = false;
        if (Atomics.exchange(this.#head, FeedWord.IsWaiting, 0) === 1) this.options.wake();
      },
    };
  }

  /** Records a request that was given the handle. */
  submitted(handle: number, { prompt, adapter, flags, cacheSalt = "" }: CoreRequest): void {
    if (this.#isStopped || handle === NONE) return;
    const lora = adapter === 0 ? null : this.options.adapter(adapter);
    const facts: CacheKeyFacts = { salt: cacheSalt, lora };
    const text = lora === null && cacheSalt === "" ? new Uint8Array() : ENCODER.encode(JSON.stringify(facts));
    const textWords = (text.length + 3) >> 2;
    const isKnown = (flags & SUBMIT_HASHED) === 0 && prompt.length + textWords <= this.#words * REQUEST_SHARE;
    const tokens = isKnown ? prompt.length : 0;
    const shown = isKnown ? textWords : 0;
    if (!this.#begin(CacheRecord.Request, REQUEST_HEAD + tokens + shown)) return;
    this.#push(handle % SLOTS);
    this.#push(adapter);
    this.#push(isKnown ? tokens : -1);
    this.#push(isKnown ? text.length : 0);
    this.#copy(prompt, 0, tokens);
    if (shown > 0) {
      const padded = new Uint8Array(shown * 4);
      padded.set(text);
      this.#copy(new Int32Array(padded.buffer), 0, shown);
    }
    this.#commit();
  }

  /** Records that a request was ended from outside. If no step is open, its slot is free already. */
  ended(handle: number): void {
    this.#events(this.#core!);
    if (this.#isStopped || !this.#begin(CacheRecord.Ended, 1)) return;
    this.#push(handle % SLOTS);
    this.#commit();
  }

  /** Stops recording, because the reader is gone. */
  stop(): void {
    this.#isStopped = true;
  }

  #outputs(rows: Int32Array, rowWords: number, tokens: Int32Array, count: number): void {
    if (this.#isStopped || !this.#begin(CacheRecord.Outputs, 1 + rowWords + count)) return;
    this.#push(rowWords / OUT_WORDS);
    this.#copy(rows, 0, rowWords);
    this.#copy(tokens, 0, count);
    this.#commit();
  }

  #events({ views, exports }: Core): void {
    const count = views.words[Word.EventWords]!;
    if (count === 0) return;
    if (!this.#isStopped) {
      this.#hasEvents = true;
      if (this.#begin(CacheRecord.Events, count)) {
        this.#copy(views.i32, (views.word(Word.EventsAt) >>> 0) >> 2, count);
        this.#commit();
      } else this.#hasLostEvents = true;
    }
    if (this.options.drains) exports.drainEvents();
  }

  #batch(seconds: number): void {
    this.#hasEvents = false;
    const waiting = (this.#batches - Atomics.load(this.#head, FeedWord.BatchesRead)) | 0;
    const isFull = this.options.batchesMost > 0 && waiting >= this.options.batchesMost;
    const isDropped = isFull || this.#hasLostEvents;
    this.#hasLostEvents = false;
    if (!this.#begin(CacheRecord.Batch, 3)) {
      this.#lostBatches++;
      return;
    }
    this.#second[0] = seconds;
    this.#push(this.#secondWords[0]!);
    this.#push(this.#secondWords[1]!);
    this.#push(isDropped ? 1 : 0);
    this.#commit();
    this.#batches = (this.#batches + 1) | 0;
    Atomics.store(this.#head, FeedWord.BatchesWritten, this.#batches);
    this.#mustWake = true;
  }

  /** Writes the head of a record. Returns false, and writes nothing, if there is no room for it. */
  #begin(kind: CacheRecord, words: number): boolean {
    const used = (this.#at - Atomics.load(this.#head, FeedWord.Read)) >>> 0;
    const gapWords = this.#isGap ? HEAD_WORDS + 1 : 0;
    if (used + gapWords + HEAD_WORDS + words > this.#words) {
      this.#isGap = true;
      return false;
    }
    if (this.#isGap) {
      this.#push(CacheRecord.Gap);
      this.#push(1);
      this.#push(this.#lostBatches);
      this.#isGap = false;
      this.#lostBatches = 0;
    }
    this.#push(kind);
    this.#push(words);
    // A reader of a half full ring must not wait for the next batch.
    if (used > this.#words / 2) this.#mustWake = true;
    return true;
  }

  #push(word: number): void {
    this.#ring[this.#at & (this.#words - 1)] = word;
    this.#at = (this.#at + 1) >>> 0;
  }

  #copy(words: ArrayLike<number>, from: number, count: number): void {
    if (count === 0) return;
    const typed = ArrayBuffer.isView(words) ? (words as Int32Array) : Int32Array.from(words);
    const place = this.#at & (this.#words - 1);
    const first = Math.min(count, this.#words - place);
    this.#ring.set(typed.subarray(from, from + first), place);
    if (first < count) this.#ring.set(typed.subarray(from + first, from + count), 0);
    this.#at = (this.#at + count) >>> 0;
  }

  #commit(): void {
    Atomics.store(this.#head, FeedWord.Written, this.#at | 0);
  }
}
