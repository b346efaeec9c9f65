/** Compares block hashes with recorded hashes of vLLM 0.33.0's functions, and of the libraries that it calls. */
import { expect, test } from "bun:test";
import { BlockHasher, extraKeysOf, low64 } from "../../src/kv-events/block-hashes.ts";
import { canonicalCbor } from "../../src/kv-events/cbor.ts";
import type { HashAlgorithm } from "../../src/kv-events/hash-algorithms.ts";
import type { HashInput } from "../../src/kv-events/hash-input.ts";
import { pickled } from "../../src/kv-events/pickle.ts";
import { xxh3Digest } from "../../src/kv-events/xxh3.ts";
import golden from "./block-hashes.json";
import real from "./real-bytes.json";

const ZEROS = Buffer.alloc(32);
const TOKENS = [1, 2, 3, 4];

test("the examples are written as the bytes that vLLM hashes", () => {
  const plain: HashInput = [ZEROS, TOKENS, null];
  const salted: HashInput = [ZEROS, Int32Array.from(TOKENS), extraKeysOf(null, "zz", true)];
  expect(pickled(plain).toString("hex")).toBe(golden.example_bytes["pickle_of_(32 zero bytes,(1,2,3,4),None)"]);
  expect(canonicalCbor(plain).toString("hex")).toBe(golden.example_bytes["cbor_of_(32 zero bytes,(1,2,3,4),None)"]);
  expect(canonicalCbor(salted).toString("hex")).toBe(
    golden.example_bytes['cbor_of_(32 zero bytes,(1,2,3,4),(("cache_salt","zz"),))'],
  );
});

test.each(["sha256", "sha256_cbor"] as const)("%s gives the golden hashes", (algorithm) => {
  const vectors = golden.vectors[algorithm];
  const hasher = new BlockHasher(algorithm, vectors.seed);
  expect(hasher.noneHash.toString("hex")).toBe(vectors.none_hash);
  const expectHash = (hash: Buffer, { hex, low64: low }: { readonly hex: string; readonly low64: string }) => {
    expect(hash.toString("hex")).toBe(hex);
    expect(low64(hash)).toBe(BigInt(low));
  };
  const first = hasher.hash(null, TOKENS, null);
  expectHash(first, vectors.tokens_1_4);
  expectHash(hasher.hash(first, [5, 6, 7, 8], null), vectors.tokens_1_4_5_8);
  const salted = hasher.hash(null, TOKENS, extraKeysOf(null, "zz", true));
  expectHash(salted, vectors.tokens_1_4_salt_zz);
  expectHash(hasher.hash(salted, [5, 6, 7, 8], extraKeysOf(null, "zz", false)), vectors.tokens_1_8_salt_zz);
  const lora = extraKeysOf({ name: "ad", path: "/p/ad" }, "", true);
  expectHash(hasher.hash(null, TOKENS, lora), vectors["tokens_1_4_lora_ad_/p/ad"]);
  const wide = [0, 255, 256, 65535, 65536, 151643, 2147483647, 7];
  expectHash(hasher.hash(null, wide, null), vectors.tokens_0_255_256_65535_65536_151643_2147483647_7);
});

test("XXH3 of every length class gives the digest of the library", () => {
  for (const [length, digest] of Object.entries(real.xxh3)) {
    const input = Buffer.from(Array.from({ length: Number(length) }, (_, at) => (7 * at + 3) & 255));
    expect(`${length}: ${xxh3Digest(input).toString("hex")}`).toBe(`${length}: ${digest}`);
  }
});

/** Repeats a character if the text says so, as in `x*300`. */
const unpacked = (text: string): string => {
  const [character, count] = text.split("*");
  return count === undefined ? text : character!.repeat(Number(count));
};

test("chains of all algorithms, seeds, block sizes, adapters and salts give Python's hashes", () => {
  for (const { algorithm, seed, blockSize, lora, salt, hashes } of real.chains) {
    const hasher = new BlockHasher(algorithm as HashAlgorithm, unpacked(seed));
    const most = [200, 70_000, 2 ** 31, 150_000];
    const tokens = Array.from({ length: 2 * blockSize }, (_, at) => (at * at * 2_654_435_761) % most[at % 4]!);
    let parent: Buffer | null = null;
    const found = hashes.map((_, block) => {
      const key = lora === null ? null : { name: lora[0]!, path: lora[1]! };
      const part = tokens.slice(block * blockSize, (block + 1) * blockSize);
      parent = hasher.hash(parent, part, extraKeysOf(key, unpacked(salt), block === 0));
      return parent.toString("hex");
    });
    expect({ algorithm, blockSize, found }).toEqual({ algorithm, blockSize, found: hashes });
  }
});
