// Which block is free next, who holds the others, and which block holds which content?
// The free queue of vLLM 0.33 (`v1/core/block_pool.py`), in a ring instead of a linked list. Block 0 is the null block.
//
// In a large pool what a new block needs of memory is in none of the processor's caches, so as little as possible is
// touched for it, in an order that is known beforehand: the queue says what content a block loses, and a block's own row
// is written when it gets content and not before.

import { column, column64 } from "./column";
import { kvEvents, numGpuBlocks } from "./config";
import { eventCleared, eventRemoved } from "./events";
import { fetchSoon, soon } from "./fetch";
import { count, setAddress, setWord, word } from "./header";
import { BLOCK_BYTES, BlockField, Total, Word } from "./layout";
import { clearPrefixes, enter, expectEntry, forget } from "./prefix";

/** A block with content, fields in the order of BlockField. One without has a single holder or none, and no row. */
@unmanaged
class Block {
  /** What it is entered with in the prefix cache. */
  hash: u64;
  /** Holders; 0 means free. */
  refs: i32;
  /** Where it stands in the free queue, while it is free. */
  place: i32;
}

if (offsetof<Block>("place") !== BlockField.Place << 2) ERROR("Block and BlockField disagree");
if (offsetof<Block>() !== <usize>BLOCK_BYTES) ERROR("a block's row is not of BLOCK_BYTES");

let blocksAt: usize = 0;

function blockOf(block: i32): Block {
  return changetype<Block>(blocksAt + <usize>block * BLOCK_BYTES);
}

/**
 * The free queue: blocks from `head` to before `tail`, both masked at use, and beside each its content or 0. A block that
 * leaves from the middle leaves a hole, block 0. Twice as many places as blocks, so that holes are squeezed out seldom.
 */
let ring = changetype<StaticArray<i32>>(0);
let ringHash = changetype<StaticArray<u64>>(0);
let mask: i32 = 0;
let head: i32 = 0;
let tail: i32 = 0;
let free: i32 = 0;

/** Places from `head` on that `expectNext` has seen, and how far it sees. */
let seen: i32 = 0;
const AHEAD: i32 = 64;

export function takeBlocks(): void {
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
/** Holders and content of a block that has content. */
export function refsOf(block: i32): i32 {
  return blockOf(block).refs;
}
export function hashOf(block: i32): u64 {
  return blockOf(block).hash;
}
/** Places that the free queue takes, holes included; block (0 is a hole) and content (0 is none) at one of them. */
export function freePlaces(): i32 {
  return tail - head;
}
export function freeAt(index: i32): i32 {
  return ring[(head + index) & mask];
}
export function freeHashAt(index: i32): u64 {
  return ringHash[(head + index) & mask];
}

/** A plan is done: is this the least that was ever free? */
export function noteFree(): void {
  if (free < word(Word.BlocksFreeLeast)) setWord(Word.BlocksFreeLeast, free);
}

function setFree(value: i32): void {
  free = value;
  setWord(Word.BlocksFree, value);
  setWord(Word.FreeQueueHead, head);
  setWord(Word.FreeQueueTail, tail);
}

/** The block at the front of the free queue, its old content forgotten. The caller has checked that there is one. */
export function acquireBlock(): i32 {
  assert(free > 0, "no block is free");
  let at = 0;
  do {
    if (seen === 0) {
      expectNext();
      fetchSoon();
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

/** Notes where the cache has the contents that go next. */
export function expectNext(): void {
  const until = min(AHEAD, tail - head);
  for (; seen < until; seen++) {
    const at = (head + seen) & mask;
    if (ring[at] !== 0 && ringHash[at] !== 0) expectEntry(ringHash[at]);
  }
}

/** Notes what this block's getting this content will write. */
export function expectCached(block: i32, hash: u64): void {
  soon(changetype<usize>(blockOf(block)));
  expectEntry(hash);
}

/** One holder more of a block with content; without holders it leaves the free queue from the middle. */
export function touchBlock(block: i32): void {
  const b = blockOf(block);
  if (b.refs === 0) {
    ring[b.place] = 0;
    setFree(free - 1);
  }
  b.refs = b.refs + 1;
}

/** A block without content is given back: it is the next to be taken. */
export function releaseEmpty(block: i32): void {
  makeRoom();
  head--;
  ring[head & mask] = block;
  ringHash[head & mask] = 0;
  seen = 0;
  setFree(free + 1);
}

/** One holder fewer of a block with content; without holders it is the last to be taken. */
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

/** Squeezes the holes out where every place is taken. */
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

/** A full block's content is known: its one holder enters it in the prefix cache. */
export function cacheBlock(block: i32, hash: u64): void {
  const b = blockOf(block);
  b.hash = hash;
  b.refs = 1;
  enter(block, hash);
}

/** Nothing is cached any more; false while a block is in use. */
export function resetCache(): bool {
  if (free !== numGpuBlocks - 1) return false;
  clearPrefixes();
  for (let at = head; at !== tail; at++) ringHash[at & mask] = 0;
  if (kvEvents) eventCleared();
  count(Total.PrefixResets, 1);
  return true;
}
