/** The core's table of cached blocks, as its memory has it, and the lookup of a prompt in it. */
import { BLOCK_BYTES, BlockField, Word } from "../../assembly/layout.ts";
import { saltWords } from "../../src/engine/salt.ts";
import type { CoreViews } from "../../src/engine/wasm/views.ts";

/** Returns the number of blocks with each content, by the core's hash. Hashes of the core and of events differ. */
export function coreTable(views: CoreViews, numGpuBlocks: number): Map<bigint, number> {
  const counts = new Map<bigint, number>();
  const hashes = new BigUint64Array(views.i32.buffer);
  const rowsAt = views.word(Word.BlocksAt) >>> 0;
  const ringAt = views.word(Word.FreeQueueAt) >>> 0;
  const mask = views.word(Word.FreeQueueMask);
  // The hashes of the free queue lie after its blocks, behind a header of 32 bytes.
  const ringHashesAt = ringAt + (mask + 1) * 4 + 32;
  const add = (hash: bigint) => counts.set(hash, (counts.get(hash) ?? 0) + 1);
  const hashOf = (block: number) => hashes[(rowsAt + block * BLOCK_BYTES) / 8]!;
  for (let block = 1; block < numGpuBlocks; block++)
    if (views.i32[(rowsAt + block * BLOCK_BYTES) / 4 + BlockField.Refs]! > 0) add(hashOf(block));
  for (let at = views.word(Word.FreeQueueHead); at !== views.word(Word.FreeQueueTail); at++) {
    const block = views.i32[ringAt / 4 + (at & mask)]!;
    const hash = hashes[ringHashesAt / 8 + (at & mask)]!;
    if (block === 0 || hash === 0n) continue;
    if (hash !== hashOf(block)) throw new Error("the hashes of the free queue lie elsewhere");
    add(hash);
  }
  return counts;
}

const word64 = (word: bigint) => BigInt.asUintN(64, word);

/** `fold`, `seal` and `rootHash` of `assembly/hashing.ts`. */
function fold(hash: bigint, token: number): bigint {
  const mixed = word64((hash ^ BigInt(token >>> 0)) * 0xff51afd7ed558ccdn);
  return mixed ^ (mixed >> 32n);
}

function seal(hash: bigint): bigint {
  const mixed = word64((hash ^ (hash >> 29n)) * 0xc4ceb9fe1a85ec53n);
  const sealed = mixed ^ (mixed >> 32n);
  return sealed === 0n ? 1n : sealed;
}

function rootHash(salt: string): bigint {
  const { lo, hi } = saltWords(salt);
  return fold(fold(fold(0x9e3779b97f4a7c15n, 0), lo), hi);
}

/** Returns the core's hashes of the full blocks of a prompt without an adapter. */
export function coreHashes(tokens: ArrayLike<number>, salt: string, blockSize: number): bigint[] {
  const hashes: bigint[] = [];
  let hash = rootHash(salt);
  for (let at = 0; at < tokens.length; at++) {
    hash = fold(hash, tokens[at]!);
    if ((at + 1) % blockSize !== 0) continue;
    hash = seal(hash);
    hashes.push(hash);
  }
  return hashes;
}

/** Returns how many of the hashes, from the first, are in the table. */
export function leadingIn(table: ReadonlyMap<unknown, number>, hashes: readonly unknown[]): number {
  const missing = hashes.findIndex((hash) => !table.has(hash));
  return missing < 0 ? hashes.length : missing;
}
