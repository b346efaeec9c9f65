// Which block holds this content? Open addressing from chained block hash to block; several blocks of equal content form a
// ring in order of entry, and look-up gives the oldest (vLLM 0.33 `v1/core/block_pool.py`, BlockHashToBlockMap).
import { hashOf } from "./blocks";
import { column, column64 } from "./column";
import { numGpuBlocks } from "./config";
import { soon } from "./fetch";

/**
 * One word per content: the low half of its hash, which tells nearly all others apart without a look at their blocks;
 * above it the oldest block, and in the top bit whether there are more. 0 is empty. Linear probing, power of two, at most
 * a third full: nearly every probe then ends where it begins, which the processor can guess.
 */
let table = changetype<StaticArray<u64>>(0);
let mask: i32 = 0;
const MORE: u64 = 1 << 63;
/** Neighbours in the ring of equal blocks, where there are several. */
let sameNext = changetype<StaticArray<i32>>(0);
let samePrev = changetype<StaticArray<i32>>(0);

export function takePrefixes(): void {
  let size = 16;
  while (size < numGpuBlocks * 3) size <<= 1;
  mask = size - 1;
  table = column64(size);
  sameNext = column(numGpuBlocks);
  samePrev = column(numGpuBlocks);
}

/** The block entered first with this content, or 0. */
export function find(hash: u64): i32 {
  return blockIn(table[placeOf(hash)]);
}

/** Notes the place at which this content has its entry, or will have it. */
export function expectEntry(hash: u64): void {
  const home = <i32>hash & mask;
  soon(changetype<usize>(table) + ((<usize>home) << 3));
  // Few probe farther than this; it may be another line of the cache.
  if ((home & 7) > 4) soon(changetype<usize>(table) + ((<usize>((home + 3) & mask)) << 3));
}

export function enter(block: i32, hash: u64): void {
  const place = placeOf(hash);
  const entry = table[place];
  if (entry === 0) {
    table[place] = entryOf(block, hash);
    return;
  }
  const oldest = blockIn(entry);
  const youngest = (entry & MORE) === 0 ? oldest : samePrev[oldest];
  link(youngest, block);
  link(block, oldest);
  table[place] = entry | MORE;
}

/** The block's content is gone; equal blocks stay hittable. */
export function forget(block: i32, hash: u64): void {
  let place = <i32>hash & mask;
  while (!isOf(table[place], hash, block)) place = (place + 1) & mask;
  const entry = table[place];
  if ((entry & MORE) === 0) {
    empty(place);
    return;
  }
  const next = sameNext[block];
  const oldest = blockIn(entry) === block ? next : blockIn(entry);
  link(samePrev[block], next);
  table[place] = entryOf(oldest, hash) | (sameNext[oldest] === oldest ? 0 : MORE);
}

/** Is it the entry of `block`? An entry of one block says so itself, without a look at its row. */
function isOf(entry: u64, hash: u64, block: i32): bool {
  if (<u32>entry !== <u32>hash) return false;
  return blockIn(entry) === block || ((entry & MORE) !== 0 && hashOf(blockIn(entry)) === hash);
}

function link(block: i32, next: i32): void {
  sameNext[block] = next;
  samePrev[next] = block;
}

export function clearPrefixes(): void {
  memory.fill(changetype<usize>(table), 0, (<usize>mask + 1) << 3);
}

/** Where the hash stands, or the empty place where it would. */
function placeOf(hash: u64): i32 {
  let place = <i32>hash & mask;
  let entry = table[place];
  while (entry !== 0 && (<u32>entry !== <u32>hash || hashOf(blockIn(entry)) !== hash)) {
    place = (place + 1) & mask;
    entry = table[place];
  }
  return place;
}

function entryOf(block: i32, hash: u64): u64 {
  return ((<u64>block) << 32) | <u64>(<u32>hash);
}
function blockIn(entry: u64): i32 {
  return <i32>((entry & ~MORE) >> 32);
}

/** Takes the place out and moves later ones of its run forward, so that no probe stops early. */
function empty(hole: i32): void {
  let place = hole;
  for (;;) {
    place = (place + 1) & mask;
    const entry = table[place];
    if (entry === 0) break;
    const home = <i32>entry & mask;
    if (((place - home) & mask) >= ((place - hole) & mask)) {
      table[hole] = entry;
      hole = place;
    }
  }
  table[hole] = 0;
}
