// Do blocks for the next tokens fit, and which are they? vLLM 0.33 `v1/core/kv_cache_manager.py`, allocate_slots.
import {
  appendBlock,
  clearTable,
  entry,
  entryBlock,
  entryHash,
  hashAt,
  nextEntry,
  prevEntry,
  setCached,
} from "../arena";
import { acquireBlock, blocksFree, cacheBlock, refsOf, releaseCached, releaseEmpty, touchBlock } from "../blocks";
import { blockSize, kvEvents, maxModelLen, prefixCaching, reserveFullIsl, watermarkBlocks } from "../config";
import { eventStored, storedHash } from "../events";
import { NONE, SUBMIT_SKIP_READING } from "../layout";
import { find } from "../prefix";
import { runningLength } from "../queues";
import { row, tokensOf } from "../slots";
import { calmUntil } from "./plain";

/** Blocks for `n` tokens more of a running request with `computed` ones; the number of new blocks, or NONE. */
export function grow(slot: i32, n: i32, computed: i32): i32 {
  const after = computed + n;
  const held = row(slot).tableCount;
  let taken = 0;
  if (after > held * blockSize) {
    taken = max(ceilDiv(min(after, maxModelLen)) - held, 0);
    if (taken > blocksFree()) return NONE;
    appendNew(slot, taken);
  }
  enterFull(slot, after);
  return taken;
}

function appendNew(slot: i32, count: i32): void {
  let last = NONE;
  for (let i = 0; i < count; i++) last = appendBlock(slot, acquireBlock(), last);
}

/** Hits of the prefix cache, whole blocks from the start, at least one token left to compute. */
export function lookUp(slot: i32): i32 {
  if (!prefixCaching || (row(slot).flags & SUBMIT_SKIP_READING) !== 0) return 0;
  const most = min((tokensOf(slot) - 1) / blockSize, row(slot).hashCount);
  if (most <= 0) return 0;
  let hits = 0;
  for (let at = entry(slot, 0); hits < most; hits++) {
    if (find(entryHash(at)) === 0) break;
    if (hits + 1 < most) at = nextEntry(at);
  }
  return hits;
}

/** First blocks of a waiting request: its `hits` cached ones and new ones for `n` tokens; the number of new ones, or NONE. */
export function admit(slot: i32, n: i32, hits: i32): i32 {
  const mark = runningLength() > 0 ? watermarkBlocks : 0;
  let idle = 0;
  if (hits > 0) {
    let at = entry(slot, 0);
    for (let i = 0; i < hits; i++) {
      if (refsOf(find(entryHash(at))) === 0) idle++;
      if (i + 1 < hits) at = nextEntry(at);
    }
  }
  const free = blocksFree();
  if (reserveFullIsl) {
    const whole = max(ceilDiv(min(tokensOf(slot), maxModelLen)) - hits, 0);
    if (whole + idle + mark > free) return NONE;
  }
  const after = hits * blockSize + n;
  const needed = max(ceilDiv(min(after, maxModelLen)) - hits, 0);
  if (needed + idle + mark > free) return NONE;
  if (hits > 0) {
    let at = entry(slot, 0);
    let last = NONE;
    for (let i = 0; i < hits; i++) {
      const block = find(entryHash(at));
      touchBlock(block);
      last = appendBlock(slot, block, last);
      if (i + 1 < hits) at = nextEntry(at);
    }
  }
  setCached(slot, hits);
  appendNew(slot, needed);
  enterFull(slot, after);
  return needed;
}

/** Enters the blocks that are full up to `tokens`, as far as their content is known. */
export function enterFull(slot: i32, tokens: i32): void {
  const from = row(slot).cachedCount;
  if (tokens < row(slot).storeAt) return;
  const full = min(tokens / blockSize, row(slot).hashCount);
  if (from >= full) return;
  const listening = kvEvents && eventStored(slot, from, full - from, from > 0 ? hashAt(slot, from - 1) : 0);
  let at = entry(slot, from);
  for (let i = from; i < full; i++) {
    const hash = entryHash(at);
    cacheBlock(entryBlock(at), hash);
    if (listening) storedHash(hash);
    if (i + 1 < full) at = nextEntry(at);
  }
  setCached(slot, full);
  if (row(slot).calmUntil > 0) row(slot).calmUntil = calmUntil(row(slot));
}

/**
 * All blocks of the request go back, the youngest first: those with content to the back of the queue, so that a chain
 * loses its tail first, those without to the front as a group, the youngest at its head.
 */
export function freeBlocks(slot: i32): void {
  const held = row(slot).tableCount;
  const cached = row(slot).cachedCount;
  let at = held > cached ? entry(slot, cached) : 0;
  for (let i = cached; i < held; i++) {
    releaseEmpty(entryBlock(at));
    if (i + 1 < held) at = nextEntry(at);
  }
  if (cached > 0) at = entry(slot, cached - 1);
  for (let i = cached - 1; i >= 0; i--) {
    releaseCached(entryBlock(at));
    if (i > 0) at = prevEntry(at);
  }
  clearTable(slot);
}

function ceilDiv(tokens: i32): i32 {
  return (tokens + blockSize - 1) / blockSize;
}
