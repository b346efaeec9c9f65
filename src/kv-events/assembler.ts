/**
 * Makes vLLM's events of an engine's cache feed: keeps the tokens of the requests, and hashes blocks when they are stored. Source:
 * vLLM 0.33.0 `vllm/v1/core/block_pool.py`.
 */
import type { CacheFeedVisitor } from "../engine/cache-feed-reader.ts";
import { wide } from "../engine/cache-feed-reader.ts";
import type { CacheKeyFacts } from "../engine/interface/cache-records.ts";
import type { KvCacheEvent, KvEventBatch } from "./batch.ts";
import { type BlockHasher, type EventHash, eventKeysOf, extraKeysOf, low64 } from "./block-hashes.ts";

const MEDIUM = "GPU";
const GROUP = 0;
const SPEC_KIND = "full_attention";
/** Blocks that are known, in multiples of the pool. More can only be known if removals were lost. */
const KNOWN_POOLS_MOST = 2;

export interface AssemblerOptions {
  readonly rank: number;
  readonly blockSize: number;
  /** Blocks of the pool. */
  readonly numGpuBlocks: number;
  readonly hasIntHashes: boolean;
  readonly hasher: BlockHasher;
}

/** Receives the batches of an assembler. */
export interface BatchReceiver {
  publish(batch: KvEventBatch): void;
  /** Batches were dropped. */
  dropped(batches: number): void;
}

interface KnownRequest extends CacheKeyFacts {
  readonly adapter: number;
  tokens: Int32Array;
  length: number;
}

interface KnownBlock {
  readonly hash: Buffer;
  /** Blocks with this content. */
  count: number;
}

export class CacheAssembler implements CacheFeedVisitor {
  /** Events that cannot be made, because records about their request or block were lost. */
  unmade = 0;
  /** By slot. */
  readonly #requests: (KnownRequest | null)[] = [];
  /** By the core's hash. */
  readonly #blocks = new Map<bigint, KnownBlock>();
  #events: KvCacheEvent[] = [];
  /** Value of `unmade` at the end of the last batch. */
  #unmadeBefore = 0;

  constructor(
    private readonly options: AssemblerOptions,
    private readonly receiver: BatchReceiver,
  ) {}

  request(slot: number, adapter: number, prompt: Int32Array | null, facts: CacheKeyFacts): void {
    this.#requests[slot] =
      prompt === null ? null : { ...facts, adapter, tokens: Int32Array.from(prompt), length: prompt.length };
  }

  outputs(slot: number, tokens: Int32Array): void {
    const request = this.#requests[slot];
    if (!request) return;
    const length = request.length + tokens.length;
    if (length > request.tokens.length) {
      const larger = new Int32Array(2 * length);
      larger.set(request.tokens);
      request.tokens = larger;
    }
    request.tokens.set(tokens, request.length);
    request.length = length;
  }

  ended(slot: number): void {
    this.#requests[slot] = null;
  }

  stored(slot: number, first: number, parentHash: bigint, hashes: Uint32Array): void {
    const { blockSize } = this.options;
    const count = hashes.length / 2;
    const request = this.#requests[slot];
    if (!request || request.length < (first + count) * blockSize) {
      this.unmade++;
      return;
    }
    const parent = first === 0 ? null : (this.#blocks.get(parentHash)?.hash ?? this.#chain(request, first).at(-1)!);
    const chain = this.#chain(request, first + count, first, parent);
    for (const [at, hash] of chain.entries()) this.#know(wide(hashes[2 * at]!, hashes[2 * at + 1]!), hash);
    const extraKeys = chain.map((_, at) => eventKeysOf(extraKeysOf(request.lora, request.salt, first + at === 0)));
    this.#events.push({
      type: "BlockStored",
      blockHashes: chain.map(this.#shown),
      parentBlockHash: parent === null ? null : this.#shown(parent),
      tokenIds: Array.from(request.tokens.subarray(first * blockSize, (first + count) * blockSize)),
      blockSize,
      loraId: request.lora === null ? null : request.adapter,
      medium: MEDIUM,
      loraName: request.lora?.name ?? null,
      extraKeys,
      groupIdx: GROUP,
      kvCacheSpecKind: SPEC_KIND,
      kvCacheSpecSlidingWindow: null,
      locality: null,
      ownership: null,
      sessionId: null,
      lookaheadTokenIds: null,
    });
  }

  removed(hash: bigint): void {
    const block = this.#blocks.get(hash);
    if (block === undefined) {
      this.unmade++;
      return;
    }
    if (--block.count === 0) this.#blocks.delete(hash);
    this.#events.push({
      type: "BlockRemoved",
      blockHashes: [this.#shown(block.hash)],
      medium: MEDIUM,
      groupIdx: GROUP,
      locality: null,
      ownership: null,
    });
  }

  cleared(): void {
    this.#blocks.clear();
    this.#events.push({ type: "AllBlocksCleared" });
  }

  batch(seconds: number, isDropped: boolean): void {
    const events = this.#events;
    const isNothingMade = events.length === 0 && this.unmade > this.#unmadeBefore;
    this.#events = [];
    this.#unmadeBefore = this.unmade;
    if (isDropped || isNothingMade) this.receiver.dropped(1);
    else if (events.length > 0) this.receiver.publish({ ts: seconds, events, dataParallelRank: this.options.rank });
  }

  /** Forgets the running requests, because tokens of any of them may be missing. */
  gap(batches: number): void {
    this.#requests.length = 0;
    this.receiver.dropped(batches);
  }

  readonly #shown = (hash: Buffer): EventHash => (this.options.hasIntHashes ? low64(hash) : hash);

  /** Returns the hashes of a request's blocks from index `from` to before `end`. */
  #chain(request: KnownRequest, end: number, from = 0, parent: Buffer | null = null): Buffer[] {
    const { blockSize, hasher } = this.options;
    const chain: Buffer[] = [];
    for (let at = from; at < end; at++) {
      const tokens = request.tokens.subarray(at * blockSize, (at + 1) * blockSize);
      const keys = extraKeysOf(request.lora, request.salt, at === 0);
      chain.push(hasher.hash(chain.at(-1) ?? parent, tokens, keys));
    }
    return chain;
  }

  #know(coreHash: bigint, hash: Buffer): void {
    const block = this.#blocks.get(coreHash);
    if (block !== undefined) {
      block.count++;
      return;
    }
    if (this.#blocks.size >= KNOWN_POOLS_MOST * this.options.numGpuBlocks) {
      const [oldest] = this.#blocks.keys();
      this.#blocks.delete(oldest!);
    }
    this.#blocks.set(coreHash, { hash, count: 1 });
  }
}
