/** Reads the records of a cache feed, on any thread. */
import {
  CacheEventKind,
  type CacheKeyFacts,
  CacheRecord,
  EVENT_IDS,
  FeedWord,
  OUT_REASON,
  OUT_WORDS,
} from "./interface/cache-records.ts";

/** Receives what the records say, in their order. Arrays are only valid during the call. */
export interface CacheFeedVisitor {
  /** `prompt` null: its tokens are unknown. */
  request(slot: number, adapter: number, prompt: Int32Array | null, facts: CacheKeyFacts): void;
  outputs(slot: number, tokens: Int32Array): void;
  /** Called after the events of the step in which the request ended. */
  ended(slot: number): void;
  /** Blocks of the request from index `first` on were stored. `hashes`: the core's hashes, two words each. `parent` 0n: none. */
  stored(slot: number, first: number, parent: bigint, hashes: Uint32Array): void;
  removed(hash: bigint): void;
  cleared(): void;
  /** The events since the last call are a batch. `isDropped`: it must not be sent, because too many wait or it is not whole. */
  batch(seconds: number, isDropped: boolean): void;
  /** Records were lost, among them this number of batches. */
  gap(batches: number): void;
}

const NO_FACTS: CacheKeyFacts = { salt: "", lora: null };
const REQUEST_HEAD = 4;
const SLOT_WORDS = 6;
const DECODER = new TextDecoder();

/** Returns a value of two words. */
export const wide = (low: number, high: number): bigint => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

export class CacheFeedReader {
  readonly #head: Int32Array;
  readonly #ring: Int32Array;
  readonly #mask: number;
  /** Words of the current record, which may wrap around in the ring. */
  #record = new Int32Array(4096);
  readonly #seconds = new Float64Array(1);
  readonly #secondWords = new Int32Array(this.#seconds.buffer);
  /** Slots of requests that ended in the last outputs, whose events may still come. */
  readonly #ending = new Set<number>();
  /** Slots of requests that were ended from outside. The next step may still store their blocks. */
  readonly #closed = new Set<number>();
  #at = 0;

  constructor(
    memory: SharedArrayBuffer,
    private readonly visitor: CacheFeedVisitor,
  ) {
    this.#head = new Int32Array(memory, 0, FeedWord.Count);
    this.#ring = new Int32Array(memory, FeedWord.Count * 4);
    this.#mask = this.#ring.length - 1;
  }

  /** Reads records up to the end of `batchesMost` batches. Returns false if none is left. */
  read(batchesMost: number): boolean {
    for (let batches = 0; batches < batchesMost; ) {
      if (this.#at === Atomics.load(this.#head, FeedWord.Written) >>> 0) return false;
      const kind: CacheRecord = this.#word(0);
      const words = this.#word(1);
      this.#load(words);
      this.#visit(kind, this.#record, words);
      this.#at = (this.#at + 2 + words) >>> 0;
      Atomics.store(this.#head, FeedWord.Read, this.#at | 0);
      if (kind === CacheRecord.Batch) batches++;
    }
    return true;
  }

  /** Asks to be woken. Returns false if there is something to read already. */
  await(): boolean {
    Atomics.store(this.#head, FeedWord.IsWaiting, 1);
    if (this.#at === Atomics.load(this.#head, FeedWord.Written) >>> 0) return true;
    Atomics.store(this.#head, FeedWord.IsWaiting, 0);
    return false;
  }

  #word(offset: number): number {
    return this.#ring[(this.#at + offset) & this.#mask]!;
  }

  #load(words: number): void {
    if (words > this.#record.length) this.#record = new Int32Array(2 * words);
    const from = (this.#at + 2) & this.#mask;
    const first = Math.min(words, this.#ring.length - from);
    this.#record.set(this.#ring.subarray(from, from + first));
    if (first < words) this.#record.set(this.#ring.subarray(0, words - first), first);
  }

  #visit(kind: CacheRecord, record: Int32Array, words: number): void {
    const { visitor } = this;
    if (kind !== CacheRecord.Events) this.#end();
    switch (kind) {
      case CacheRecord.Request:
        this.#request(record);
        break;
      case CacheRecord.Outputs:
        this.#outputs(record);
        break;
      case CacheRecord.Events:
        this.#events(record, words);
        this.#end();
        break;
      case CacheRecord.Batch:
        this.#secondWords.set(record.subarray(0, 2));
        Atomics.add(this.#head, FeedWord.BatchesRead, 1);
        visitor.batch(this.#seconds[0]!, record[2] === 1);
        break;
      case CacheRecord.Ended:
        this.#closed.add(record[0]!);
        break;
      case CacheRecord.Gap:
        visitor.gap(record[0]!);
    }
  }

  #request(record: Int32Array): void {
    const [slot, adapter, tokens, bytes] = record.subarray(0, REQUEST_HEAD) as unknown as [
      number,
      number,
      number,
      number,
    ];
    const prompt = tokens < 0 ? null : record.subarray(REQUEST_HEAD, REQUEST_HEAD + tokens);
    const text = new Uint8Array(record.buffer, (REQUEST_HEAD + Math.max(0, tokens)) * 4, bytes);
    const facts = bytes === 0 ? NO_FACTS : (JSON.parse(DECODER.decode(text)) as CacheKeyFacts);
    this.#closed.delete(slot);
    this.visitor.request(slot, adapter, prompt, facts);
  }

  #outputs(record: Int32Array): void {
    const rows = record[0]!;
    for (const slot of this.#closed) this.#ending.add(slot);
    this.#closed.clear();
    const tokensAt = 1 + rows * OUT_WORDS;
    for (let at = 1; at < tokensAt; at += OUT_WORDS) {
      const from = tokensAt + record[at + 1]!;
      const count = record[at + 2]!;
      if (count > 0) this.visitor.outputs(record[at]!, record.subarray(from, from + count));
      if ((record[at + 3]! & OUT_REASON) !== 0) this.#ending.add(record[at]!);
    }
  }

  #events(record: Int32Array, words: number): void {
    const { visitor } = this;
    const unsigned = new Uint32Array(record.buffer);
    for (let at = 0; at < words; ) {
      const kind = record[at]!;
      if (kind === CacheEventKind.Stored) {
        const count = record[at + 3]!;
        const hashes = unsigned.subarray(at + SLOT_WORDS, at + SLOT_WORDS + 2 * count);
        visitor.stored(record[at + 1]!, record[at + 2]!, wide(record[at + 4]!, record[at + 5]!), hashes);
        at += SLOT_WORDS + 2 * count;
      } else if (kind === CacheEventKind.Removed) {
        visitor.removed(wide(record[at + 2]!, record[at + 3]!));
        at += 4;
      } else if (kind === EVENT_IDS) at += 2 + record[at + 1]!;
      else {
        visitor.cleared();
        at++;
      }
    }
  }

  #end(): void {
    for (const slot of this.#ending) this.visitor.ended(slot);
    this.#ending.clear();
  }
}
