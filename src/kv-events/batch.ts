/** Defines batches of KV events, whatever their encoding. Source: vLLM 0.33.0 `vllm/distributed/kv_events.py`. */
import type { EventHash, EventKeys } from "./block-hashes.ts";

/** Blocks of one request that were stored, in the order of their tokens. Fields that a version lacks are null. */
export interface BlockStored {
  readonly type: "BlockStored";
  readonly blockHashes: readonly EventHash[];
  /** Hash of the block before the first. null: the first block begins the prompt. */
  readonly parentBlockHash: EventHash | null;
  /** Tokens of all its blocks, `blockSize` each. */
  readonly tokenIds: readonly number[];
  readonly blockSize: number;
  readonly loraId: number | null;
  /** For example GPU. */
  readonly medium: string | null;
  readonly loraName: string | null;
  /** One entry per block. null: the event has no such list. */
  readonly extraKeys: readonly (EventKeys | null)[] | null;
  readonly groupIdx: number | null;
  readonly kvCacheSpecKind: string | null;
  /** In tokens. */
  readonly kvCacheSpecSlidingWindow: number | null;
  readonly locality: string | null;
  readonly ownership: string | null;
  readonly sessionId: string | null;
  /** One list per block. */
  readonly lookaheadTokenIds: readonly (readonly number[])[] | null;
}

export interface BlockRemoved {
  readonly type: "BlockRemoved";
  readonly blockHashes: readonly EventHash[];
  readonly medium: string | null;
  readonly groupIdx: number | null;
  readonly locality: string | null;
  readonly ownership: string | null;
}

export interface AllBlocksCleared {
  readonly type: "AllBlocksCleared";
}

export type KvCacheEvent = BlockStored | BlockRemoved | AllBlocksCleared;

export interface KvEventBatch<Event = KvCacheEvent> {
  /** Seconds since 1970. */
  readonly ts: number;
  readonly events: readonly Event[];
  /** null: the publisher names no rank. */
  readonly dataParallelRank: number | null;
}
