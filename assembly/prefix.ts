// Which block holds this content? Open addressing from chained block hash to block; blocks of equal content form a ring
// in order of entry, and look-up gives the oldest (vLLM 0.33 `v1/core/block_pool.py`, BlockHashToBlockMap).
import { blockOf } from "./blocks";
import { column } from "./column";
import { numGpuBlocks } from "./config";

/** Oldest block of a hash; 0 is empty. Linear probing, power of two, at most half full. */
let table = changetype<StaticArray<i32>>(0);
let mask: i32 = 0;

export function takePrefixes(): void {
  let size = 16;
  while (size < numGpuBlocks << 1) size <<= 1;
  mask = size - 1;
  table = column(size);
}

/** The block entered first with this content, or 0. */
export function find(hash: u64): i32 {
  return table[placeOf(hash)];
}

export function enter(block: i32, hash: u64): void {
  const place = placeOf(hash);
  const oldest = table[place];
  if (oldest === 0) {
    table[place] = block;
    blockOf(block).sameNext = block;
    blockOf(block).samePrev = block;
    return;
  }
  const youngest = blockOf(oldest).samePrev;
  blockOf(youngest).sameNext = block;
  blockOf(block).samePrev = youngest;
  blockOf(block).sameNext = oldest;
  blockOf(oldest).samePrev = block;
}

/** The block's content is gone; equal blocks stay hittable. */
export function forget(block: i32): void {
  const place = placeOf(blockOf(block).hash);
  const next = blockOf(block).sameNext;
  if (next === block) {
    empty(place);
    return;
  }
  const prev = blockOf(block).samePrev;
  blockOf(prev).sameNext = next;
  blockOf(next).samePrev = prev;
  if (table[place] === block) table[place] = next;
}

export function clearPrefixes(): void {
  memory.fill(changetype<usize>(table), 0, (<usize>mask + 1) << 2);
}

/** Where the hash stands, or the empty place where it would. */
function placeOf(hash: u64): i32 {
  let place = <i32>hash & mask;
  let block = table[place];
  while (block !== 0 && blockOf(block).hash !== hash) {
    place = (place + 1) & mask;
    block = table[place];
  }
  return place;
}

/** Takes the place out and moves later ones of its run forward, so that no probe stops early. */
function empty(hole: i32): void {
  let place = hole;
  for (;;) {
    place = (place + 1) & mask;
    const block = table[place];
    if (block === 0) break;
    const home = <i32>blockOf(block).hash & mask;
    if (((place - home) & mask) >= ((place - hole) & mask)) {
      table[hole] = block;
      hole = place;
    }
  }
  table[hole] = 0;
}
