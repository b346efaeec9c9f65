// The prefix cache's table: finds a block by the hash of its content, with open addressing. Blocks with equal content
// form a ring in the order of entry, and `find` returns the oldest (vLLM 0.33 `v1/core/block_pool.py`,
// BlockHashToBlockMap).
import { hashOf } from "./blocks";
import { column, column64 } from "./column";
import { numGpuBlocks } from "./config";
import { prefetchLater } from "./fetch";

/**
 * One word per content. Bits 0 to 31: low half of the hash, which rules out nearly every other content without a look
 * at its block's row. Bits 32 to 62: the oldest block. Bit 63 (MORE): there are several blocks. 0 means empty. Linear
 * probing. The size is a power of two and the table at most a third full, so nearly every probe ends at its first
 * position, which the processor can predict.
 */
let table = changetype<StaticArray<u64>>(0);
let mask: i32 = 0;
const MORE: u64 = 1 << 63;
/** Neighbours in the ring of blocks with equal content, if there are several. */
let sameNext = changetype<StaticArray<i32>>(0);
let samePrev = changetype<StaticArray<i32>>(0);

export function allocatePrefixes(): void {
  let size = 16;
  while (size < numGpuBlocks * 3) size <<= 1;
  mask = size - 1;
  table = column64(size);
  sameNext = column(numGpuBlocks);
  samePrev = column(numGpuBlocks);
}

/** Returns the oldest block with this content, or 0. */
export function find(hash: u64): i32 {
  return blockIn(table[placeOf(hash)]);
}

/** Requests a prefetch of the table position of this hash. */
export function expectEntry(hash: u64): void {
  const home = <i32>hash & mask;
  prefetchLater(changetype<usize>(table) + ((<usize>home) << 3));
  // A probe seldom runs farther than 3 positions, which may lie in the next cache line.
  if ((home & 7) > 4) prefetchLater(changetype<usize>(table) + ((<usize>((home + 3) & mask)) << 3));
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

/** Removes the block from the prefix cache. Other blocks with the same content stay. */
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

/** Returns true if the entry belongs to `block`. An entry with a single block names it, so the row is not read. */
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

/** Returns the position of the hash, or the empty position at which it would be entered. */
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

/** Empties a position. Moves later entries of the same run forward, so that no probe stops too early. */
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
