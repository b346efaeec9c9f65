// The pool of KV blocks: free queue, reference counts and the hash of each block's content, as in vLLM 0.33
// (`v1/core/block_pool.py`). The queue is a ring instead of a linked list. Block 0 is the null block.
//
// In a large pool, the memory of a new block is in no processor cache. The code therefore touches little memory per
// block and knows in advance which. The queue holds the hash of each free block, and a block's row is only written once
// its content is known.

import { column, column64 } from "./column";
import { kvEvents, numGpuBlocks } from "./config";
import { eventCleared, eventRemoved } from "./events";
import { prefetchLater, runPrefetches } from "./fetch";
import { count, setAddress, setWord, word } from "./header";
import { BLOCK_BYTES, BlockField, Total, Word } from "./layout";
import { clearPrefixes, enter, expectEntry, forget } from "./prefix";

/** Row of a block with content, fields in the order of BlockField. A block without content has at most one reference and no row. */
@unmanaged
class Block {
  /** Hash under which the prefix cache finds the block. */
  hash: u64;
  /** Number of requests whose tables contain the block. 0 means free. */
  refs: i32;
  /** Position in the free queue while the block is free. */
  place: i32;
}

if (offsetof<Block>("place") !== BlockField.Place << 2) ERROR("Block and BlockField disagree");
if (offsetof<Block>() !== <usize>BLOCK_BYTES) ERROR("a block's row is not of BLOCK_BYTES");

let blocksAt: usize = 0;

function blockOf(block: i32): Block {
  return changetype<Block>(blocksAt + <usize>block * BLOCK_BYTES);
}

/**
 * The free queue: blocks from `head` to before `tail`. Both are masked when used. `ringHash` has the hash of each
 * block's content, or 0. A block that leaves from the middle leaves a 0 in the ring. The ring has at least twice as
 * many positions as blocks, so that these holes are seldom compacted.
 */
let ring = changetype<StaticArray<i32>>(0);
let ringHash = changetype<StaticArray<u64>>(0);
let mask: i32 = 0;
let head: i32 = 0;
let tail: i32 = 0;
let free: i32 = 0;

/** Number of positions from `head` on that `expectNext` has handled, and how many it handles in advance. */
let seen: i32 = 0;
const AHEAD: i32 = 64;

export function allocateBlocks(): void {
  blocksAt = changetype<usize>(column64(numGpuBlocks * (BLOCK_BYTES >> 3)));
  let places = 16;
  while (places < numGpuBlocks << 1) places <<= 1;
  mask = places - 1;
  ring = column(places);
  ringHash = column64(places);
}

export function initBlocks(): void {
  for (let block = 1; block < numGpuBlocks; block++) ring[block - 1] = block;
  tail = numGpuBlocks - 1;
  setFree(numGpuBlocks - 1);
  setWord(Word.BlocksFreeLeast, free);
  setAddress(Word.BlocksAt, blocksAt);
  setAddress(Word.FreeQueueAt, changetype<usize>(ring));
  setWord(Word.FreeQueueMask, mask);
}

export function blocksFree(): i32 {
  return free;
}
/** Reference count and hash of a block that has content. */
export function refsOf(block: i32): i32 {
  return blockOf(block).refs;
}
export function hashOf(block: i32): u64 {
  return blockOf(block).hash;
}
/** Length of the free queue with its holes, and block and hash at a position. Block 0 is a hole; hash 0 means no content. */
export function freePlaces(): i32 {
  return tail - head;
}
export function freeAt(index: i32): i32 {
  return ring[(head + index) & mask];
}
export function freeHashAt(index: i32): u64 {
  return ringHash[(head + index) & mask];
}

/** Records the smallest number of free blocks after any plan. */
export function noteFree(): void {
  if (free < word(Word.BlocksFreeLeast)) setWord(Word.BlocksFreeLeast, free);
}

function setFree(value: i32): void {
  free = value;
  setWord(Word.BlocksFree, value);
  setWord(Word.FreeQueueHead, head);
  setWord(Word.FreeQueueTail, tail);
}

/** Takes the block at the front of the free queue and removes its old content from the prefix cache. Traps if no block is free. */
export function acquireBlock(): i32 {
  assert(free > 0, "no block is free");
  let at = 0;
  do {
    if (seen === 0) {
      expectNext();
      runPrefetches();
    }
    seen--;
    at = head++ & mask;
  } while (ring[at] === 0);
  const block = ring[at];
  const hash = ringHash[at];
  if (hash !== 0) {
    forget(block, hash);
    if (kvEvents) eventRemoved(block, hash);
  }
  setFree(free - 1);
  return block;
}

/** Requests a prefetch of the prefix table's entries of the blocks that will be taken next. */
export function expectNext(): void {
  const until = min(AHEAD, tail - head);
  for (; seen < until; seen++) {
    const at = (head + seen) & mask;
    if (ring[at] !== 0 && ringHash[at] !== 0) expectEntry(ringHash[at]);
  }
}

/** Requests a prefetch of the memory that `cacheBlock` will write for this block and hash. */
export function expectCached(block: i32, hash: u64): void {
  prefetchLater(changetype<usize>(blockOf(block)));
  expectEntry(hash);
}

/** Adds a reference to a block with content. If it was free, it leaves the free queue from the middle. */
export function touchBlock(block: i32): void {
  const b = blockOf(block);
  if (b.refs === 0) {
    ring[b.place] = 0;
    setFree(free - 1);
  }
  b.refs = b.refs + 1;
}

/** Frees a block without content. It goes to the front of the free queue, so it is taken next. */
export function releaseEmpty(block: i32): void {
  makeRoom();
  head--;
  ring[head & mask] = block;
  ringHash[head & mask] = 0;
  seen = 0;
  setFree(free + 1);
}

/** Removes a reference to a block with content. A block without references goes to the end of the free queue. */
export function releaseCached(block: i32): void {
  const b = blockOf(block);
  assert(b.refs > 0, "block released twice");
  b.refs = b.refs - 1;
  if (b.refs !== 0) return;
  makeRoom();
  b.place = tail++ & mask;
  ring[b.place] = block;
  ringHash[b.place] = b.hash;
  setFree(free + 1);
}

/** Compacts the ring if it is full, so that the holes are gone. */
function makeRoom(): void {
  if (tail - head <= mask) return;
  let to = head;
  for (let at = head; at !== tail; at++) {
    const block = ring[at & mask];
    if (block === 0) continue;
    ring[to & mask] = block;
    ringHash[to & mask] = ringHash[at & mask];
    blockOf(block).place = to++ & mask;
  }
  tail = to;
  seen = 0;
}

/** Enters a full block with known content in the prefix cache. One request refers to it. */
export function cacheBlock(block: i32, hash: u64): void {
  const b = blockOf(block);
  b.hash = hash;
  b.refs = 1;
  enter(block, hash);
}

/** Empties the prefix cache. Returns false, and does nothing, while a block is in use. */
export function resetCache(): bool {
  if (free !== numGpuBlocks - 1) return false;
  clearPrefixes();
  for (let at = head; at !== tail; at++) ringHash[at & mask] = 0;
  if (kvEvents) eventCleared();
  count(Total.PrefixResets, 1);
  return true;
}
