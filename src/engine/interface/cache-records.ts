/**
 * Defines the records that a cache feed writes for another thread. A record is its kind, the number of its words, and the words.
 * The words are 32-bit integers. A 64-bit value is its low word, then its high word.
 */
export { Event as CacheEventKind, OUT_REASON, OUT_WORDS } from "../../../assembly/layout.ts";
export { EVENT_IDS } from "../../../assembly/trtllm/layout.ts";

export enum CacheRecord {
  /** A request was queued: slot, adapter, tokens of the prompt (-1: unknown), bytes of a text, the tokens, the text. */
  Request = 1,
  /** Output of a step: number of rows, the rows of OUT_WORDS each, the tokens. */
  Outputs,
  /** Events, as the core has recorded them. */
  Events,
  /** End of a batch: time in seconds since 1970 as a double, 1 if the batch must not be sent. */
  Batch,
  /** A request was ended from outside: slot. */
  Ended,
  /** Records were lost before this one, because the ring was full: number of batches among them. */
  Gap,
}

/** Words before the records in the shared memory. Positions count all words ever written, modulo 2^32. */
export enum FeedWord {
  Written,
  Read,
  BatchesWritten,
  BatchesRead,
  /** 1 if the reader waits for a call of `wake`. */
  IsWaiting,
  Count = 16,
}

/** A LoRA adapter, as block hashes and events name it. */
export interface AdapterName {
  readonly name: string;
  readonly path: string;
}

/** Facts about a request that its block hashes cover besides its tokens. The text of a record of a request, as JSON. */
export interface CacheKeyFacts {
  /** "" for none. */
  readonly salt: string;
  readonly lora: AdapterName | null;
}
