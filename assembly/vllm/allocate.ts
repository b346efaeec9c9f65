// Allocates KV blocks for the next tokens of a request: allocate_slots of vLLM 0.33 (`v1/core/kv_cache_manager.py`).
import {
  appendBlock,
  beginTable,
  clearTable,
  entry,
  entryBlock,
  entryHash,
  hashAt,
  nextEntry,
  noteBlock,
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

/**
 * Allocates blocks for `n` more tokens of a running request with `computed` tokens. Returns the number of new blocks,
 * or NONE if too few are free.
 */
export function grow(slot: i32, n: i32, computed: i32): i32 {
  const after = computed + n;
  const blocks = row(slot).tableCount;
  let newBlocks = 0;
  if (after > blocks * blockSize) {
    newBlocks = max(ceilDiv(min(after, maxModelLen)) - blocks, 0);
    if (newBlocks > blocksFree()) return NONE;
    appendNew(slot, newBlocks);
  }
  enterFull(slot, after);
  return newBlocks;
}

function appendNew(slot: i32, count: i32): void {
  let last = NONE;
  for (let i = 0; i < count; i++) last = appendBlock(slot, acquireBlock(), last);
}

/**
 * Shortcut for prompts that begin alike. `guide` is the request last admitted with cached blocks, `guideHits` their
 * number. It holds these blocks, so a prompt with the same beginning hits the same blocks. If the hashes of one block
 * are equal, all blocks before it are equal, too. `guided` is the number of hits of the last `lookUp` that `admit` can
 * copy from the guide's table.
 */
let guide: i32 = NONE;
let guideHits: i32 = 0;
let guided: i32 = 0;

/** Counts the cached blocks at the start of the request and stores them for `admit`. At least one token is left to compute. */
export function lookUp(slot: i32): i32 {
  guided = 0;
  if (!prefixCaching || (row(slot).flags & SUBMIT_SKIP_READING) !== 0) return 0;
  const most = min((tokensOf(slot) - 1) / blockSize, row(slot).hashCount);
  if (most <= 0) return 0;
  const equalBlocks = min(guideHits, most);
  if (equalBlocks > 0 && hashAt(slot, equalBlocks - 1) === hashAt(guide, equalBlocks - 1)) guided = equalBlocks;
  if (guided === most) return most;
  let hits = guided;
  for (let at = entry(slot, hits); hits < most; hits++) {
    const block = find(entryHash(at));
    if (block === 0) break;
    noteBlock(at, block);
    if (hits + 1 < most) at = nextEntry(at);
  }
  return hits;
}

/**
 * Allocates the first blocks of a waiting request: the `hits` blocks of the last `lookUp` and new blocks for `n`
 * tokens. Returns the number of new blocks, or NONE if too few are free.
 */
export function admit(slot: i32, n: i32, hits: i32): i32 {
  const mark = runningLength() > 0 ? watermarkBlocks : 0;
  const after = hits * blockSize + n;
  const needed = max(ceilDiv(min(after, maxModelLen)) - hits, 0);
  let most = needed;
  if (reserveFullIsl) most = max(most, ceilDiv(min(tokensOf(slot), maxModelLen)) - hits);
  // Hits without holders are free now and will not be free after the admission. They need counting only if blocks are
  // short.
  const left = blocksFree() - most - mark;
  if (left < hits - guided && left < idleOf(slot, hits)) return NONE;
  if (hits > 0) takeCached(slot, hits);
  setCached(slot, hits);
  appendNew(slot, needed);
  enterFull(slot, after);
  return needed;
}

function takeCached(slot: i32, hits: i32): void {
  let at = entry(slot, 0);
  if (guided > 0) {
    let from = entry(guide, 0);
    for (let i = 0; i < guided; i++) {
      noteBlock(at, entryBlock(from));
      touchBlock(entryBlock(from));
      at = nextEntry(at);
      from = nextEntry(from);
    }
  }
  for (let i = guided; i < hits; i++) {
    touchBlock(entryBlock(at));
    if (i + 1 < hits) at = nextEntry(at);
  }
  beginTable(slot, hits);
  guide = slot;
  guideHits = hits;
}

/** Returns the number of hits without holders. The guide's hits have a holder. */
function idleOf(slot: i32, hits: i32): i32 {
  if (hits === guided) return 0;
  let unheld = 0;
  let at = entry(slot, guided);
  for (let i = guided; i < hits; i++) {
    if (refsOf(entryBlock(at)) === 0) unheld++;
    if (i + 1 < hits) at = nextEntry(at);
  }
  return unheld;
}

/** Enters the blocks that are full up to `tokens` in the prefix cache, as far as their content is known. */
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
 * Frees all blocks of the request, the youngest first. Blocks with content go to the end of the free queue, so that a
 * chain is evicted from its tail. Blocks without content go to its front as a group, the youngest foremost.
 */
export function freeBlocks(slot: i32): void {
  if (slot === guide) guideHits = 0;
  const blocks = row(slot).tableCount;
  const cached = row(slot).cachedCount;
  let at = blocks > cached ? entry(slot, cached) : 0;
  for (let i = cached; i < blocks; i++) {
    releaseEmpty(entryBlock(at));
    if (i + 1 < blocks) at = nextEntry(at);
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
