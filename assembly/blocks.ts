// Which block is free next, who holds the others, and which block holds which content?
// The free queue of vLLM 0.33 (`v1/core/block_pool.py`): block 0 is the null block and here the sentinel of the list.

import { column64 } from "./column";
import { kvEvents, numGpuBlocks, prefixCaching } from "./config";
import { eventCleared, eventRemoved } from "./events";
import { count, setAddress, setWord } from "./header";
import { BLOCK_BYTES, BlockField, Total, Word } from "./layout";
import { clearPrefixes, enter, forget } from "./prefix";

/** One block, fields in the order of BlockField: side by side, because a new block touches all of them. */
@unmanaged
export class Block {
  /** The content it is entered with in the prefix cache; 0 is none. */
  hash: u64;
  /** Holders; 0 means free. */
  refs: i32;
  /** Neighbours in the free queue. */
  freeNext: i32;
  freePrev: i32;
  /** The ring of equal blocks; see prefix.ts. */
  sameNext: i32;
  samePrev: i32;
}
if (offsetof<Block>("freeNext") !== BlockField.FreeNext << 2) ERROR("Block and BlockField disagree");
if (offsetof<Block>() > <usize>BLOCK_BYTES) ERROR("a block's row is larger than BLOCK_BYTES");

let blocksAt: usize = 0;

export function blockOf(block: i32): Block {
  return changetype<Block>(blocksAt + <usize>block * BLOCK_BYTES);
}

let free: i32 = 0;

export function takeBlocks(): void {
  // One row more, so that rows can start at a cache line.
  const rows = column64((numGpuBlocks + 1) * (BLOCK_BYTES >> 3));
  blocksAt = (changetype<usize>(rows) + BLOCK_BYTES - 1) & ~(<usize>BLOCK_BYTES - 1);
}

export function initBlocks(): void {
  setAddress(Word.BlocksAt, blocksAt);
  for (let block = 0; block < numGpuBlocks; block++) {
    blockOf(block).freeNext = block + 1 === numGpuBlocks ? 0 : block + 1;
    blockOf(block).freePrev = block === 0 ? numGpuBlocks - 1 : block - 1;
  }
  setFree(numGpuBlocks - 1);
}

export function blocksFree(): i32 {
  return free;
}
export function refsOf(block: i32): i32 {
  return blockOf(block).refs;
}
export function freeAfter(block: i32): i32 {
  return blockOf(block).freeNext;
}
export function freeBefore(block: i32): i32 {
  return blockOf(block).freePrev;
}

function setFree(value: i32): void {
  free = value;
  setWord(Word.BlocksFree, value);
}

/** The block at the front of the free queue, its old content forgotten. The caller has checked that there is one. */
export function acquireBlock(): i32 {
  const block = blockOf(0).freeNext;
  assert(block !== 0 && blockOf(block).refs === 0, "the free queue holds a block in use");
  unlink(block);
  if (blockOf(block).hash !== 0) {
    forget(block);
    if (kvEvents) eventRemoved(block, blockOf(block).hash);
    blockOf(block).hash = 0;
  }
  blockOf(block).refs = 1;
  setFree(free - 1);
  return block;
}

/** One holder more; a cached block without holders leaves the free queue from the middle. */
export function touchBlock(block: i32): void {
  if (blockOf(block).refs === 0) {
    unlink(block);
    setFree(free - 1);
  }
  blockOf(block).refs = blockOf(block).refs + 1;
}

// A request's blocks come back youngest first. Those without content go to the front of the queue as a group that keeps
// this order, those with content to the back: a chain loses its tail first.
let groupTail: i32 = 0;

export function beginRelease(): void {
  groupTail = 0;
}

export function releaseBlock(block: i32): void {
  assert(blockOf(block).refs > 0, "block released twice");
  const left = blockOf(block).refs - 1;
  blockOf(block).refs = left;
  if (left !== 0) return;
  if (blockOf(block).hash === 0 || !prefixCaching) {
    insertAfter(groupTail, block);
    groupTail = block;
  } else {
    insertAfter(blockOf(0).freePrev, block);
  }
  setFree(free + 1);
}

export function cacheBlock(block: i32, hash: u64): void {
  assert(blockOf(block).hash === 0, "a block is entered twice");
  blockOf(block).hash = hash;
  enter(block, hash);
}

/** Nothing is cached any more; false while a block is in use. */
export function resetCache(): bool {
  if (free !== numGpuBlocks - 1) return false;
  clearPrefixes();
  for (let block = 1; block < numGpuBlocks; block++) blockOf(block).hash = 0;
  if (kvEvents) eventCleared();
  count(Total.PrefixResets, 1);
  return true;
}

function unlink(block: i32): void {
  const next = blockOf(block).freeNext;
  const prev = blockOf(block).freePrev;
  blockOf(prev).freeNext = next;
  blockOf(next).freePrev = prev;
}

function insertAfter(prev: i32, block: i32): void {
  const next = blockOf(prev).freeNext;
  blockOf(prev).freeNext = block;
  blockOf(block).freePrev = prev;
  blockOf(block).freeNext = next;
  blockOf(next).freePrev = block;
}
