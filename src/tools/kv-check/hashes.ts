/**
 * Computes the hashes that blocks of an event must have. Finds out algorithm and seed from the first prompts if they are unknown.
 */

import type { BlockStored } from "../../kv-events/batch.ts";
import {
  BlockHasher,
  DEFAULT_HASH_SEED,
  type EventHash,
  extraKeysOfEvent,
  low64,
} from "../../kv-events/block-hashes.ts";
import { HASH_ALGORITHMS } from "../../kv-events/hash-algorithms.ts";
import type { HashFacts } from "./hash-facts.ts";

/** Seeds that are tried: vLLM's default, and the value of PYTHONHASHSEED in most guides. */
const SEEDS = [DEFAULT_HASH_SEED, "0", "42"];
/** Blocks that are tried before the search ends. */
const TRIES_MOST = 8;

/** Result for one block. `hash`: all its bytes, or null if they are unknown. */
export interface HashVerdict {
  readonly hash: Buffer | null;
  /** True: as computed. False: another hash. null: cannot be computed. */
  readonly holds: boolean | null;
}

const UNKNOWN: HashVerdict = { hash: null, holds: null };

interface Candidate {
  readonly name: string;
  readonly hasher: BlockHasher;
}

export class HashJudge {
  /** Combinations that explain all blocks so far. Several explain blocks after a parent whose hash is shown in full. */
  #candidates: readonly Candidate[];
  /** True if at least one block was explained, or if the caller has stated both. */
  #isFound: boolean;
  #tries = 0;
  readonly #loraPaths: Readonly<Record<string, string>>;

  constructor({ hashAlgorithm, hashSeed, loraPaths = {} }: HashFacts) {
    const algorithms = hashAlgorithm === undefined ? HASH_ALGORITHMS : [hashAlgorithm];
    const seeds = hashSeed === undefined ? SEEDS : [hashSeed];
    this.#candidates = algorithms.flatMap((algorithm) =>
      seeds.map((seed) => ({ name: `${algorithm}, seed ${seed}`, hasher: new BlockHasher(algorithm, seed) })),
    );
    this.#isFound = hashAlgorithm !== undefined && hashSeed !== undefined;
    this.#loraPaths = loraPaths;
  }

  /** Algorithm and seed in words. null: not found. */
  get found(): string | null {
    return this.#isFound ? this.#candidates.map(({ name }) => name).join(" or ") : null;
  }

  /** True if the search has ended without result. */
  get isLost(): boolean {
    return !this.#isFound && this.#tries >= TRIES_MOST;
  }

  /**
   * Judges the block at index `at` of the event. `parent`: all bytes of its parent's hash, null for the first block of a prompt,
   * undefined if unknown.
   */
  judge(event: BlockStored, at: number, parent: Uint8Array | null | undefined): HashVerdict {
    if (parent === undefined || this.isLost) return UNKNOWN;
    const shown = event.blockHashes[at]!;
    const eventKeys = event.extraKeys?.[at] ?? null;
    const path = event.loraName === null ? null : this.#loraPaths[event.loraName];
    if (path === undefined) return UNKNOWN;
    const lora = event.loraName === null ? null : { name: event.loraName, path: path! };
    const tokens = event.tokenIds.slice(at * event.blockSize, (at + 1) * event.blockSize);
    const keys = extraKeysOfEvent(eventKeys, lora);
    if (!this.#isFound) this.#tries++;
    const hashes = this.#candidates.map(({ hasher }) => hasher.hash(parent, tokens, keys));
    const matches = this.#candidates.filter((_, index) => isSame(shown, hashes[index]!));
    if (matches.length > 0) {
      const hash = hashes[this.#candidates.indexOf(matches[0]!)]!;
      this.#candidates = matches;
      this.#isFound = true;
      return { hash, holds: true };
    }
    if (!this.#isFound) return UNKNOWN;
    // Without the list, a salt may be hidden. Keys that are lists have parts that events leave out.
    const isHidden = event.extraKeys === null || (eventKeys?.some((key) => typeof key !== "string") ?? false);
    return isHidden ? UNKNOWN : { hash: null, holds: false };
  }
}

const isSame = (shown: EventHash, hash: Buffer): boolean =>
  typeof shown === "bigint" ? BigInt.asUintN(64, shown) === low64(hash) : Buffer.compare(shown, hash) === 0;
