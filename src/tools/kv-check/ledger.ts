/** Keeps the blocks that a publisher has stored, and judges its events by them. Only blocks of the GPU are kept. */
import type { BlockRemoved, BlockStored } from "../../kv-events/batch.ts";
import type { EventHash } from "../../kv-events/block-hashes.ts";
import { blockFingerprint } from "./fingerprint.ts";
import type { HashFacts } from "./hash-facts.ts";
import { HashJudge } from "./hashes.ts";
import type { Tally } from "./tally.ts";

/** Blocks of all publishers of a check that are kept. Real pools have at most some hundred thousand. */
export const BLOCKS_MOST = 2 ** 20;

/** Number of blocks that all ledgers of a check keep. */
export interface BlockBudget {
  used: number;
}

type HashKey = bigint | string;

interface StoredBlock {
  copies: number;
  /** True if it may be gone, because it was stored more often than removed. Events may also report the use of a block. */
  isUncertain: boolean;
  readonly content: number;
  /** All bytes of its hash, or null if they are unknown. */
  readonly hash: Buffer | null;
}

/** Kinds of KV groups whose blocks are all cached, from the first token on. */
const WHOLE_KINDS = [null, "full_attention", "mla_attention"];

const isGpu = (medium: string | null): boolean => medium === null || medium.toUpperCase() === "GPU";

const keyOf = (hash: EventHash): HashKey =>
  typeof hash === "bigint" ? BigInt.asUintN(64, hash) : Buffer.from(hash).toString("latin1");

const hex = (hash: EventHash): string =>
  typeof hash === "bigint" ? `${BigInt.asUintN(64, hash)}` : Buffer.from(hash).toString("hex");

/** Groups of an engine. Real ones have at most a few. */
const GROUPS_MOST = 64;

/** Facts about a KV group. */
interface KvGroup {
  readonly blocks: Map<HashKey, StoredBlock>;
  blockSize: number;
}

export class BlockLedger {
  /** True if every stored block is known. */
  isComplete = true;
  /** Reason if not all are known. */
  #why = "";
  /** Groups by `group_idx`. */
  readonly #groups = new Map<number | null, KvGroup>();
  readonly #hashes: HashJudge;
  #uncertain = 0;
  /** Tokens of all blocks that were ever stored, each time for itself. */
  storedTokens = 0;

  constructor(
    private readonly tally: Tally,
    private readonly budget: BlockBudget,
    facts: HashFacts,
  ) {
    this.#hashes = new HashJudge(facts);
  }

  /** Blocks that are stored for certain. Copies with one hash count once. */
  get certain(): number {
    return this.#size - this.#uncertain;
  }

  /** Block sizes of the groups, in tokens. */
  get blockSizes(): readonly number[] {
    return [...this.#groups.values()].map(({ blockSize }) => blockSize);
  }

  /** Algorithm and seed of the hashes, in words. null: not found. */
  get hashing(): string | null {
    return this.#hashes.found;
  }

  stored(event: BlockStored): void {
    if (!isGpu(event.medium)) return;
    const { blockHashes, blockSize, groupIdx } = event;
    const isWhole = WHOLE_KINDS.includes(event.kvCacheSpecKind);
    const count = event.tokenIds.length;
    const isCounted = blockSize > 0 && blockHashes.length > 0 && count === blockHashes.length * blockSize;
    if (isWhole)
      this.tally.judge("K16", isCounted, () => `${count} tokens, ${blockHashes.length} hashes × ${blockSize}`);
    const group = this.#group(groupIdx, blockSize);
    if (group === null) return;
    this.storedTokens += count;
    this.tally.judge(
      "K17",
      group.blockSize === blockSize,
      () => `group ${groupIdx ?? 0} had blocks of ${group.blockSize} tokens, and has some of ${blockSize}`,
    );
    const parent = event.parentBlockHash === null ? null : group.blocks.get(keyOf(event.parentBlockHash));
    if (isWhole && event.parentBlockHash !== null) this.#judgeParent(event.parentBlockHash, parent !== undefined);
    this.#storeAll(event, group, isWhole && isCounted, this.#fullHash(event.parentBlockHash, parent));
  }

  removed({ blockHashes, medium, groupIdx }: BlockRemoved): void {
    if (!isGpu(medium)) return;
    const blocks = this.#groups.get(groupIdx)?.blocks;
    for (const hash of blockHashes) {
      const key = keyOf(hash);
      const block = blocks?.get(key);
      if (block !== undefined || this.isComplete)
        this.tally.judge("K14", block !== undefined, () => `${hex(hash)} was removed, but it was not stored`);
      else this.tally.unjudged("K14", this.#why);
      if (block === undefined) continue;
      block.copies--;
      if (block.copies > 0) this.#doubt(block);
      else this.#drop(blocks!, key, block);
    }
  }

  /** Takes the clearing of the cache, after which all stored blocks are known. */
  cleared(): void {
    this.#empty();
    this.isComplete = true;
  }

  /** Forgets all blocks, because events are missing. */
  forget(why: string): void {
    this.#empty();
    this.isComplete = false;
    this.#why = why;
    for (const id of ["K13", "K14"] as const) this.tally.unjudged(id, why);
  }

  /** Judges the number of blocks. `usable`: blocks of the pool without the null block. */
  judgePool(usable: number): void {
    const { certain } = this;
    this.tally.judge("K18", certain <= usable, () => `${certain} blocks are stored, and the pool has ${usable}`);
  }

  get #size(): number {
    let size = 0;
    for (const { blocks } of this.#groups.values()) size += blocks.size;
    return size;
  }

  /** Returns null if there are too many groups. */
  #group(index: number | null, blockSize: number): KvGroup | null {
    let group = this.#groups.get(index);
    if (group === undefined) {
      if (this.#groups.size >= GROUPS_MOST) {
        this.tally.unjudged("K17", `more than ${GROUPS_MOST} KV groups`);
        return null;
      }
      group = { blocks: new Map(), blockSize };
      this.#groups.set(index, group);
    }
    return group;
  }

  #judgeParent(parent: EventHash, isKnown: boolean): void {
    if (isKnown || this.isComplete)
      this.tally.judge("K13", isKnown, () => `blocks were stored after ${hex(parent)}, which is not stored`);
    else this.tally.unjudged("K13", this.#why);
  }

  /** Returns all bytes of the parent's hash. null: there is no parent. undefined: they are unknown. */
  #fullHash(parent: EventHash | null, block: StoredBlock | null | undefined): Uint8Array | null | undefined {
    if (parent === null || typeof parent !== "bigint") return parent;
    return block?.hash ?? undefined;
  }

  #storeAll(event: BlockStored, { blocks }: KvGroup, isJudged: boolean, first: Uint8Array | null | undefined): void {
    const { blockHashes, blockSize, tokenIds, extraKeys } = event;
    const keys = blockHashes.map(keyOf);
    const seen = new Set<HashKey>();
    const twice = blockHashes.find((_, at) => seen.size === seen.add(keys[at]!).size);
    this.tally.judge("K15", twice === undefined, () => `${hex(twice!)} is twice in an event`);
    let parent = first;
    let parentText = event.parentBlockHash === null ? "" : String(keyOf(event.parentBlockHash));
    for (const [at, key] of keys.entries()) {
      const hash = isJudged ? this.#judgeHash(event, at, parent) : null;
      const tokens = tokenIds.slice(at * blockSize, (at + 1) * blockSize);
      const content = isJudged ? blockFingerprint(parentText, tokens, keysText(extraKeys?.[at])) : 0;
      this.#store(blocks, key, content, hash, () => hex(blockHashes[at]!));
      const shown = blockHashes[at]!;
      parent = typeof shown === "bigint" ? (hash ?? undefined) : shown;
      parentText = String(key);
    }
  }

  #judgeHash(event: BlockStored, at: number, parent: Uint8Array | null | undefined): Buffer | null {
    const { hash, holds } = this.#hashes.judge(event, at, parent);
    if (holds === null)
      this.tally.unjudged(
        "K19",
        this.#hashes.found === null
          ? "algorithm and seed of the hashes were not found (--prefix-caching-hash-algo, --hash-seed)"
          : "some blocks have unknown parents, adapters or keys",
      );
    else
      this.tally.judge(
        "K19",
        holds,
        () => `block ${at} of an event has the hash ${hex(event.blockHashes[at]!)}, not that of ${this.#hashes.found}`,
      );
    return hash;
  }

  #store(
    blocks: Map<HashKey, StoredBlock>,
    key: HashKey,
    content: number,
    hash: Buffer | null,
    name: () => string,
  ): void {
    const block = blocks.get(key);
    if (block !== undefined) {
      block.copies++;
      const isSame = content === block.content || content === 0 || block.content === 0;
      this.tally.judge("K20", isSame, () => `${name()} stands for two blocks`);
      return;
    }
    this.tally.judge("K20", true, String);
    if (this.budget.used >= BLOCKS_MOST) this.forget(`more than ${BLOCKS_MOST} blocks`);
    blocks.set(key, { copies: 1, isUncertain: false, content, hash });
    this.budget.used++;
  }

  #doubt(block: StoredBlock): void {
    if (!block.isUncertain) this.#uncertain++;
    block.isUncertain = true;
  }

  #drop(blocks: Map<HashKey, StoredBlock>, key: HashKey, block: StoredBlock): void {
    blocks.delete(key);
    this.budget.used--;
    if (block.isUncertain) this.#uncertain--;
  }

  #empty(): void {
    this.budget.used -= this.#size;
    for (const { blocks } of this.#groups.values()) blocks.clear();
    this.#uncertain = 0;
  }
}

/** Returns the extra keys of a block as a text. */
function keysText(keys: unknown): string {
  return keys == null ? "" : JSON.stringify(keys, (_, value) => (typeof value === "bigint" ? `${value}` : value));
}
