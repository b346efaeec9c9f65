/** An engine on virtual time whose cache feed is read at once, and an index that a router would build from its events. */

import { CacheFeed, type CacheFeedOptions } from "../../src/engine/cache-feed.ts";
import { CacheFeedReader } from "../../src/engine/cache-feed-reader.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { AdapterName } from "../../src/engine/interface/cache-records.ts";
import { CacheAssembler } from "../../src/kv-events/assembler.ts";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";
import { BlockHasher, extraKeysOf, extraKeysOfEvent } from "../../src/kv-events/block-hashes.ts";
import { World } from "../engine/simulated-engine.ts";

export const HASHER = new BlockHasher("sha256_cbor", "7");
export const ADAPTERS: readonly AdapterName[] = [
  { name: "first", path: "/adapters/first" },
  { name: "second", path: "s" },
];
export const EPOCH_US = 1.8e15;
const hex = (hash: unknown) => Buffer.from(hash as Uint8Array).toString("hex");

/** Counts stored blocks by hash. Throws at the first event that breaks a law. */
export class EventIndex {
  readonly counts = new Map<string, number>();

  constructor(readonly blockSize: number) {}

  take(event: KvCacheEvent): void {
    if (event.type === "AllBlocksCleared") this.counts.clear();
    else if (event.type === "BlockRemoved") for (const hash of event.blockHashes) this.#remove(hex(hash));
    else {
      const { parentBlockHash, tokenIds, blockHashes, extraKeys } = event;
      if (parentBlockHash !== null && !this.counts.has(hex(parentBlockHash))) throw new Error("unknown parent");
      if (tokenIds.length !== blockHashes.length * this.blockSize) throw new Error("another number of tokens");
      const lora = event.loraId === null ? null : ADAPTERS[event.loraId - 1]!;
      let parent = parentBlockHash as Uint8Array | null;
      for (const [at, hash] of blockHashes.entries()) {
        const part = tokenIds.slice(at * this.blockSize, (at + 1) * this.blockSize);
        const own = HASHER.hash(parent, part, extraKeysOfEvent(extraKeys![at]!, lora));
        if (hex(own) !== hex(hash)) throw new Error("a hash does not follow from its tokens");
        parent = own;
        this.counts.set(hex(hash), (this.counts.get(hex(hash)) ?? 0) + 1);
      }
    }
  }

  /** Returns how many full blocks of a prompt are stored, from the first. */
  matching(tokens: Uint32Array, salt: string): number {
    let parent: Buffer | null = null;
    for (let at = 0; ; at++) {
      const end = (at + 1) * this.blockSize;
      if (end > tokens.length) return at;
      parent = HASHER.hash(parent, tokens.subarray(end - this.blockSize, end), extraKeysOf(null, salt, at === 0));
      if (!this.counts.has(hex(parent))) return at;
    }
  }

  #remove(hash: string): void {
    const left = (this.counts.get(hash) ?? 0) - 1;
    if (left < 0) throw new Error("a block was removed that was not stored");
    if (left === 0) this.counts.delete(hash);
    else this.counts.set(hash, left);
  }
}

export class PublishedEngine {
  readonly world: World;
  readonly batches: KvEventBatch[] = [];
  readonly index: EventIndex;
  readonly assembler: CacheAssembler;
  readonly #reader: CacheFeedReader;
  dropped = 0;
  /** Called after each step, before the next one is planned. */
  onUpdate: () => void = () => {};
  /** Called after each step, when its events are in the index. */
  onStep: () => void = () => {};
  /** False: records stay in the feed. */
  reads = true;

  constructor(config: EngineConfig, module?: WebAssembly.Module, feedOptions: Partial<CacheFeedOptions> = {}) {
    this.index = new EventIndex(config.blockSize);
    const feed = new CacheFeed({
      wake: () => {},
      batchesMost: 0,
      epochUs: EPOCH_US,
      adapter: (number) => ADAPTERS[number - 1] ?? null,
      drains: true,
      ...feedOptions,
    });
    this.world = new World(config, {
      ...(module ? { module } : {}),
      more: () => ({
        cacheFeed: feed,
        kvEvents: true,
        loopObservers: [
          {
            delivered: () => this.onUpdate(),
            stepped: () => {
              this.read();
              this.onStep();
            },
          },
        ],
      }),
    });
    const { blockSize, numGpuBlocks } = config;
    const pool = { rank: 0, blockSize, numGpuBlocks, hasIntHashes: false };
    this.assembler = new CacheAssembler(
      { ...pool, hasher: HASHER },
      {
        publish: (batch) => {
          this.batches.push(batch);
          for (const event of batch.events) this.index.take(event);
        },
        dropped: (batches) => {
          this.dropped += batches;
        },
      },
    );
    this.#reader = new CacheFeedReader(feed.memory, this.assembler);
  }

  read(): void {
    if (this.reads) while (this.#reader.read(16)) {}
  }
}
