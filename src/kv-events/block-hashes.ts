/**
 * Computes vLLM's hashes of KV blocks: H((parent, tokens, extra keys)). The parent of a first block is the hash of a seed.
 * Source: vLLM 0.33.0 `vllm/utils/hashing.py`, `vllm/v1/core/kv_cache_utils.py`.
 */
import { canonicalCbor } from "./cbor.ts";
import type { HashAlgorithm } from "./hash-algorithms.ts";
import type { HashInput } from "./hash-input.ts";
import { pickled } from "./pickle.ts";
import { xxh3Digest } from "./xxh3.ts";

/** Seed of the SHA-256 algorithms if PYTHONHASHSEED is not set. The others then draw one. */
export const DEFAULT_HASH_SEED = "vllm-none-hash";

/** Reports whether vLLM draws the seed of an algorithm when PYTHONHASHSEED is not set. */
export const drawsSeed = (algorithm: HashAlgorithm): boolean => algorithm.startsWith("xxhash");

/** Part of a hash besides tokens, for example `["lora", name, path]`. */
export type ExtraKey = readonly (string | number | Uint8Array)[];

export interface LoraKey {
  readonly name: string;
  readonly path: string;
}

/** Returns the extra keys of a request's block, or null if it has none. `cacheSalt`: "" for none. */
export function extraKeysOf(
  lora: LoraKey | null,
  cacheSalt: string,
  isFirstBlock: boolean,
): readonly ExtraKey[] | null {
  const keys: ExtraKey[] = [];
  if (lora !== null) keys.push(["lora", lora.name, lora.path]);
  if (isFirstBlock && cacheSalt !== "") keys.push(["cache_salt", cacheSalt]);
  return keys.length > 0 ? keys : null;
}

/** Value of a block in an event's `extra_keys`: keys without their tags. */
export type EventKeys = readonly (string | Uint8Array | readonly (string | number | Uint8Array)[])[];

/** Returns the keys as an event shows them. */
export const eventKeysOf = (keys: readonly ExtraKey[] | null): EventKeys | null =>
  keys?.map((key) => (key[0] === "mm" ? key.slice(1) : (key[1] as string | Uint8Array))) ?? null;

/**
 * Returns the keys of an event's block with their tags. `lora`: the adapter whose name is the first key, or null. Its path is in
 * no event.
 */
export function extraKeysOfEvent(keys: EventKeys | null, lora: LoraKey | null): readonly ExtraKey[] | null {
  if (keys === null) return null;
  const tagged = keys.map((key, at): ExtraKey => {
    if (at === 0 && lora !== null && key === lora.name) return ["lora", lora.name, lora.path];
    if (typeof key === "string") return ["cache_salt", key];
    return key instanceof Uint8Array ? ["prompt_embeds", key] : ["mm", ...key];
  });
  return tagged.length > 0 ? tagged : null;
}

export class BlockHasher {
  /** Parent of first blocks. */
  readonly noneHash: Buffer;
  readonly #hash: (value: HashInput) => Buffer;

  constructor(algorithm: HashAlgorithm, seed: string) {
    const encode = algorithm.endsWith("_cbor") ? canonicalCbor : pickled;
    const digest = algorithm.startsWith("xxhash") ? xxh3Digest : sha256;
    this.#hash = (value) => digest(encode(value));
    this.noneHash = this.#hash(seed);
  }

  /** Returns the hash of a block. `parent`: hash of the block before it, or null. */
  hash(parent: Uint8Array | null, tokens: ArrayLike<number>, keys: readonly ExtraKey[] | null): Buffer {
    return this.#hash([parent ?? this.noneHash, tokens, keys]);
  }
}

/** Returns a function that hashes with Bun, or with Node, in which `llm-understudy/testing` also runs. */
function sha256Function(): (input: Buffer) => Buffer {
  if (typeof Bun === "undefined") {
    const { createHash } = process.getBuiltinModule("node:crypto");
    return (input) => createHash("sha256").update(input).digest();
  }
  const hasher = new Bun.CryptoHasher("sha256");
  // digest() also resets the hasher.
  return (input) => hasher.update(input).digest();
}

const sha256 = sha256Function();

/** A hash as events have it: an integer of 64 bits, or all bytes. */
export type EventHash = bigint | Uint8Array;

/** Returns the low 64 bits of a hash, which events show unless VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES is 0. */
export function low64(hash: Uint8Array): bigint {
  return new DataView(hash.buffer, hash.byteOffset, hash.length).getBigUint64(hash.length - 8);
}
