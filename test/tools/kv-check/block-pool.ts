/** A plain model of a block pool that publishes its events, and a channel that brings them to a checker. */
import fc from "fast-check";
import type { KvCacheEvent, KvEventBatch } from "../../../src/kv-events/batch.ts";
import { BlockHasher, extraKeysOf, low64 } from "../../../src/kv-events/block-hashes.ts";
import { KvEventsEncoder } from "../../../src/kv-events/encode.ts";
import { KV_EVENTS_PROFILES, type KvEventsProfile } from "../../../src/kv-events/profiles.ts";
import { sequenceFrame } from "../../../src/kv-events/replay.ts";

const HASHER = new BlockHasher("sha256_cbor", "0");

export interface PoolOptions {
  readonly profile: KvEventsProfile;
  readonly hasIntHashes: boolean;
  readonly blockSize: number;
  /** Blocks without the null block. */
  readonly blocks: number;
  /** Batches that a replay has at most. */
  readonly buffer: number;
}

/** Step of a pool. `run`: a prompt of one of few families. */
export type PoolStep =
  | { readonly run: number; readonly tokens: number; readonly salt: string; readonly skips: boolean }
  | { readonly clear: true }
  | { readonly restart: true };

interface PoolBlock {
  readonly hash: Buffer;
}

export interface SentMessage {
  readonly frames: readonly [Buffer, Buffer, Buffer];
  /** Number of restarts before. */
  readonly life: number;
}

/** Runs steps. A block is reused when the pool is full: the one whose prompt ran longest ago, its last block first. */
export class BlockPool {
  readonly messages: SentMessage[] = [];
  /** Blocks from the first to be evicted to the last. Two may have one hash. */
  #cached: PoolBlock[] = [];
  #sequence = 0;
  #life = 0;
  #ts = 1e9;
  readonly #encoder: KvEventsEncoder;

  constructor(
    readonly options: PoolOptions,
    readonly topic = "",
  ) {
    this.#encoder = new KvEventsEncoder(options.profile);
  }

  /** Number of different hashes. */
  get stored(): number {
    return new Set(this.#cached.map(({ hash }) => hash.toString("hex"))).size;
  }

  /** True if nothing was published since the last restart. */
  get isQuiet(): boolean {
    return this.messages.at(-1)?.life !== this.#life;
  }

  step(step: PoolStep): void {
    if ("restart" in step) {
      this.#cached = [];
      this.#sequence = 0;
      this.#life++;
    } else if ("clear" in step) {
      this.#cached = [];
      this.#publish([{ type: "AllBlocksCleared" }]);
    } else this.#run(step);
  }

  #run({ run, tokens, salt, skips }: Extract<PoolStep, { run: number }>): void {
    const { blockSize, blocks } = this.options;
    const ids = Array.from({ length: tokens }, (_, at) => (at < 2 * blockSize ? at : run * 1000 + at));
    const count = Math.min(blocks, Math.floor(tokens / blockSize));
    const events: KvCacheEvent[] = [];
    const used: PoolBlock[] = [];
    const stored: PoolBlock[] = [];
    let parent: Buffer | null = null;
    for (let at = 0; at < count; at++) {
      const keys = extraKeysOf(null, salt, at === 0);
      const hash = HASHER.hash(parent, ids.slice(at * blockSize, (at + 1) * blockSize), keys);
      parent = hash;
      const hit: PoolBlock | undefined =
        skips || stored.length > 0 ? undefined : this.#cached.find((block) => block.hash.equals(hash));
      if (hit === undefined) stored.push({ hash });
      else {
        this.#cached.splice(this.#cached.indexOf(hit), 1);
        used.push(hit);
      }
    }
    while (this.#cached.length + used.length + stored.length > blocks)
      events.push(this.#removal(this.#cached.shift()!));
    if (stored.length > 0) events.push(this.#storage(stored, used.at(-1) ?? null, ids, used.length, salt));
    this.#cached.push(...[...used, ...stored].reverse());
    if (events.length > 0) this.#publish(events);
  }

  #removal({ hash }: PoolBlock): KvCacheEvent {
    return {
      ...{ type: "BlockRemoved", blockHashes: [this.#shown(hash)], medium: "GPU" },
      ...{ groupIdx: 0, locality: null, ownership: null },
    };
  }

  #storage(
    blocks: readonly PoolBlock[],
    parent: PoolBlock | null,
    ids: readonly number[],
    hits: number,
    salt: string,
  ): KvCacheEvent {
    const { blockSize } = this.options;
    return {
      type: "BlockStored",
      blockHashes: blocks.map(({ hash }) => this.#shown(hash)),
      parentBlockHash: parent === null ? null : this.#shown(parent.hash),
      tokenIds: ids.slice(hits * blockSize, (hits + blocks.length) * blockSize),
      ...{ blockSize, loraId: null, medium: "GPU", loraName: null },
      extraKeys: blocks.map((_, at) => (hits + at === 0 && salt !== "" ? [salt] : null)),
      ...{ groupIdx: 0, kvCacheSpecKind: "full_attention", kvCacheSpecSlidingWindow: null, locality: null },
      ...{ ownership: null, sessionId: null, lookaheadTokenIds: null },
    };
  }

  #shown(hash: Buffer): bigint | Buffer {
    return this.options.hasIntHashes ? low64(hash) : hash;
  }

  #publish(events: readonly KvCacheEvent[]): void {
    this.#ts += 0.01;
    const batch: KvEventBatch = { ts: this.#ts, events, dataParallelRank: 0 };
    const payload = this.#encoder.encode(batch);
    const frames = [Buffer.from(this.topic), sequenceFrame(this.#sequence++), payload] as const;
    this.messages.push({ frames, life: this.#life });
  }
}

export const poolOptions: fc.Arbitrary<PoolOptions> = fc.record({
  profile: fc.constantFrom(...KV_EVENTS_PROFILES),
  hasIntHashes: fc.boolean(),
  blockSize: fc.constantFrom(2, 16),
  blocks: fc.integer({ min: 4, max: 24 }),
  buffer: fc.constantFrom(0, 5, 10_000),
});

export const poolSteps: fc.Arbitrary<readonly PoolStep[]> = fc.array(
  fc.oneof(
    {
      weight: 20,
      arbitrary: fc.record({
        run: fc.nat(5),
        tokens: fc.integer({ min: 1, max: 120 }),
        salt: fc.constantFrom("", "", "a", "b"),
        skips: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ clear: true as const }) },
    { weight: 1, arbitrary: fc.constant({ restart: true as const }) },
  ),
  { minLength: 3, maxLength: 40 },
);
