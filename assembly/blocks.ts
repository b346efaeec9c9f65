// Which block is free next, who holds the others, and which block holds which content?
// The free queue of vLLM 0.33 (`v1/core/block_pool.py`): block 0 is the null block and here the sentinel of the list.

import { column, column64 } from "./column";
import { kvEvents, numGpuBlocks, prefixCaching } from "./config";
import { eventCleared, eventRemoved } from "./events";
import { count, setAddress, setWord } from "./header";
import { Total, Word } from "./layout";
import { clearPrefixes, enter, forget } from "./prefix";

let refs = changetype<StaticArray<i32>>(0);
let freeNext = changetype<StaticArray<i32>>(0);
let freePrev = changetype<StaticArray<i32>>(0);
/** The content a block is entered with in the prefix cache; 0 is none. */
export let blockHash = changetype<StaticArray<u64>>(0);
let free: i32 = 0;

export function takeBlocks(): void {
  refs = column(numGpuBlocks);
  freeNext = column(numGpuBlocks);
  freePrev = column(numGpuBlocks);
  blockHash = column64(numGpuBlocks);
}

export function initBlocks(): void {
  setAddress(Word.BlockRefAt, changetype<usize>(refs));
  setAddress(Word.BlockHashAt, changetype<usize>(blockHash));
  setAddress(Word.FreeNextAt, changetype<usize>(freeNext));
  for (let block = 0; block < numGpuBlocks; block++) {
    freeNext[block] = block + 1 === numGpuBlocks ? 0 : block + 1;
    freePrev[block] = block === 0 ? numGpuBlocks - 1 : block - 1;
  }
  setFree(numGpuBlocks - 1);
}

export function blocksFree(): i32 {
  return free;
}
export function refsOf(block: i32): i32 {
  return refs[block];
}
export function freeAfter(block: i32): i32 {
  return freeNext[block];
}
export function freeBefore(block: i32): i32 {
  return freePrev[block];
}

function setFree(value: i32): void {
  free = value;
  setWord(Word.BlocksFree, value);
}

/** The block at the front of the free queue, its old content forgotten. The caller has checked that there is one. */
export function acquireBlock(): i32 {
  const block = freeNext[0];
  assert(block !== 0 && refs[block] === 0, "the free queue holds a block in use");
  unlink(block);
  if (blockHash[block] !== 0) {
    forget(block);
    if (kvEvents) eventRemoved(block, blockHash[block]);
    blockHash[block] = 0;
  }
  refs[block] = 1;
  setFree(free - 1);
  return block;
}

/** One holder more; a cached block without holders leaves the free queue from the middle. */
export function touchBlock(block: i32): void {
  if (refs[block] === 0) {
    unlink(block);
    setFree(free - 1);
  }
  refs[block] = refs[block] + 1;
}

// A request's blocks come back youngest first. Those without content go to the front of the queue as a group that keeps
// this order, those with content to the back: a chain loses its tail first.
let groupTail: i32 = 0;

export function beginRelease(): void {
  groupTail = 0;
}

export function releaseBlock(block: i32): void {
  assert(refs[block] > 0, "block released twice");
  const left = refs[block] - 1;
  refs[block] = left;
  if (left !== 0) return;
  if (blockHash[block] === 0 || !prefixCaching) {
    insertAfter(groupTail, block);
    groupTail = block;
  } else {
    insertAfter(freePrev[0], block);
  }
  setFree(free + 1);
}

export function cacheBlock(block: i32, hash: u64): void {
  assert(blockHash[block] === 0, "a block is entered twice");
  blockHash[block] = hash;
  enter(block, hash);
}

/** Nothing is cached any more; false while a block is in use. */
export function resetCache(): bool {
  if (free !== numGpuBlocks - 1) return false;
  clearPrefixes();
  for (let block = 1; block < numGpuBlocks; block++) blockHash[block] = 0;
  if (kvEvents) eventCleared();
  count(Total.PrefixResets, 1);
  return true;
}

function unlink(block: i32): void {
  const next = freeNext[block];
  const prev = freePrev[block];
  freeNext[prev] = next;
  freePrev[next] = prev;
}

function insertAfter(prev: i32, block: i32): void {
  const next = freeNext[prev];
  freeNext[prev] = block;
  freePrev[block] = prev;
  freeNext[block] = next;
  freePrev[next] = block;
}
