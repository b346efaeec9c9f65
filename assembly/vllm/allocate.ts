// Do blocks for the next tokens fit, and which are they? vLLM 0.33 `v1/core/kv_cache_manager.py`, allocate_slots.
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

/**
 * The request that was last admitted with cached blocks, and how many: it holds them, so a prompt that begins like its own
 * hits the same ones, and equal hashes of one block say that all blocks before it are equal too. `guided` of the hits that
 * `lookUp` has just counted are such, and `admit` takes them from the guide's table.
 */
let guide: i32 = NONE;
let guideHits: i32 = 0;
let guided: i32 = 0;

/** Hits of the prefix cache, whole blocks from the start, at least one token left to compute. They are noted for `admit`. */
export function lookUp(slot: i32): i32 {
  guided = 0;
  if (!prefixCaching || (row(slot).flags & SUBMIT_SKIP_READING) !== 0) return 0;
  const most = min((tokensOf(slot) - 1) / blockSize, row(slot).hashCount);
  if (most <= 0) return 0;
  const alike = min(guideHits, most);
  if (alike > 0 && hashAt(slot, alike - 1) === hashAt(guide, alike - 1)) guided = alike;
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
 * First blocks of a waiting request: the `hits` cached ones that `lookUp` has just found and new ones for `n` tokens; the
 * number of new ones, or NONE.
 */
export function admit(slot: i32, n: i32, hits: i32): i32 {
  const mark = runningLength() > 0 ? watermarkBlocks : 0;
  const after = hits * blockSize + n;
  const needed = max(ceilDiv(min(after, maxModelLen)) - hits, 0);
  let most = needed;
  if (reserveFullIsl) most = max(most, ceilDiv(min(tokensOf(slot), maxModelLen)) - hits);
  // Those that nobody holds are free now, and no longer then. They need not be counted where there is room for all.
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

/** Blocks that nobody holds among the hits; the guide holds its own. */
function idleOf(slot: i32, hits: i32): i32 {
  if (hits === guided) return 0;
  let idle = 0;
  let at = entry(slot, guided);
  for (let i = guided; i < hits; i++) {
    if (refsOf(entryBlock(at)) === 0) idle++;
    if (i + 1 < hits) at = nextEntry(at);
  }
  return idle;
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
  if (slot === guide) guideHits = 0;
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
