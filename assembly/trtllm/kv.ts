// The KV cache manager: assigns blocks to requests, reuses cached blocks, and stores blocks of ended requests. Follows
// TensorRT-LLM's manager V1 (`kvCacheManager.cpp`) with one attention window, beam width 1 and no host pool.
import { appendBlock, clearTable, entry, entryBlock, entryHash, nextEntry, prevEntry } from "../arena";
import { blockSize, kvEvents, prefixCaching } from "../config";
import { eventOf, eventStored, eventWord, storedHash } from "../events";
import { count } from "../header";
import { SUBMIT_SKIP_READING, Total } from "../layout";
import { cachedPrompt, preemptions, row } from "../slots";
import { copyOnPartialReuse, keepsBlocks, partialReuse, prefixAware, stepsAhead } from "./config";
import { countKv } from "./header";
import { EVENT_IDS, KvTotal } from "./layout";
import { blocksOf, forget, Line, line } from "./line";
import { blocksFree, claimBlock, giveBlock, refsOf, takeBlock } from "./pool";
import { retainOutput, retainPrompt } from "./retention";
import { nextToken, rootOf, tokenAt, tokenPlace } from "./tokens";
import {
  attach,
  childOf,
  find,
  hashOf,
  idCount,
  idRoot,
  idsAt,
  isLeaf,
  isStored,
  removeTree,
  setIds,
  siblingOf,
} from "./tree";

/**
 * Result of `analyze`: cached blocks of a prompt, how many of these some request holds, and the hash of the first block
 * that is not cached (0: all are cached).
 */
export let cachedBlocks: i32 = 0;
export let heldBlocks: i32 = 0;
export let missingHash: u64 = 0;
/** True if the last `claimPrompt` copied a part of a block. */
let copied = false;

/** Returns true if the request may reuse cached blocks. */
export function reads(slot: i32): bool {
  return prefixCaching && (row(slot).flags & SUBMIT_SKIP_READING) === 0;
}

/** Looks up the full blocks of the prompt, in order, up to the first that is not cached. */
export function analyze(slot: i32): void {
  cachedBlocks = 0;
  heldBlocks = 0;
  missingHash = 0;
  const full = min(line(slot).context / blockSize, row(slot).hashCount);
  if (full === 0) return;
  let at = entry(slot, 0);
  for (;;) {
    const hash = entryHash(at);
    const block = find(hash);
    if (block === 0) {
      missingHash = hash;
      return;
    }
    if (refsOf(block) > 0) heldBlocks++;
    if (++cachedBlocks === full) return;
    at = nextEntry(at);
  }
}

/**
 * Returns the cached blocks that a first chunk need not allocate, because another request holds them. Records how many
 * prompt tokens the cache holds. `walked`: `analyze` was already called.
 */
function credit(slot: i32, l: Line, walked: bool): i32 {
  l.reusable = 0;
  if (!prefixAware || l.started || !reads(slot)) return 0;
  if (!walked) analyze(slot);
  l.reusable = cachedBlocks * blockSize;
  return heldBlocks;
}

/** Returns the blocks that the request still needs until its end. */
export function blocksToCompletion(slot: i32, l: Line, walked: bool): i32 {
  return l.whole - row(slot).tableCount - credit(slot, l, walked);
}

/** Returns the blocks that the request still needs for its next step, or for its next two steps with TWO_STEP_LOOKAHEAD. */
export function blocksForStep(slot: i32, l: Line, walked: bool): i32 {
  const drafts = row(slot).drafts;
  const credited = credit(slot, l, walked);
  if (!l.isContext) {
    const next = min(l.end, max(l.held + stepsAhead * (drafts + 1), l.length + l.flight));
    return blocksOf(next) - blocksOf(l.held);
  }
  return l.started ? 0 : blocksOf(min(l.context + drafts, l.end)) - credited;
}

/** Takes cached blocks for the prompt of a first chunk. The prompt's last token is always computed, so its block is not taken. */
export function claimPrompt(slot: i32): void {
  const l = line(slot);
  let claimed = 0;
  let matched = 0;
  copied = false;
  if (reads(slot)) {
    const usable = l.context - 1;
    const full = min(usable / blockSize, row(slot).hashCount);
    let parent = 0;
    let at = full > 0 ? entry(slot, 0) : 0;
    while (claimed < full) {
      const block = find(entryHash(at));
      if (block === 0) break;
      claimBlock(block);
      retainPrompt(slot, claimed, block);
      appendBlock(slot, block);
      parent = block;
      if (++claimed < full) at = nextEntry(at);
    }
    matched = claimed * blockSize;
    if (partialReuse) matched += claimPartly(slot, parent, matched, min(blockSize, usable - matched));
  }
  l.position = matched;
}

/**
 * Reuses a stored block whose first tokens, at most `most`, equal the prompt's tokens from `from` on. A leaf without
 * holders is taken over. From another block, the tokens are copied to a fresh block, which the caller allocates.
 * Returns the number of reused tokens.
 */
function claimPartly(slot: i32, parent: i32, from: i32, most: i32): i32 {
  if (most <= 0 || line(slot).keep === 0) return 0;
  let best = 0;
  let bestCount = 0;
  for (let child = childOf(parent); child !== 0; child = siblingOf(child)) {
    if (!copyOnPartialReuse && !isFreeLeaf(child)) continue;
    const alike = tokensAlike(slot, from, min(most, idCount(child)), child);
    if (alike <= bestCount) continue;
    best = child;
    bestCount = alike;
  }
  if (best !== 0 && isFreeLeaf(best)) {
    removeTree(best);
    claimBlock(best);
    retainPrompt(slot, row(slot).tableCount, best);
    appendBlock(slot, best);
  } else copied = bestCount > 0;
  return bestCount;
}

function isFreeLeaf(block: i32): bool {
  return refsOf(block) === 0 && isLeaf(block);
}

/** Returns how many of the request's tokens from `from` on, at most `most`, equal the first tokens of the block. 0 if adapter or salt differ. */
function tokensAlike(slot: i32, from: i32, most: i32, block: i32): i32 {
  if (idRoot(block) !== rootOf(slot)) return 0;
  const ids = idsAt(block);
  let place = tokenPlace(slot, from);
  for (let i = 0; i < most; i++) {
    if (tokenAt(place) !== load<i32>(ids + ((<usize>i) << 2))) return i;
    if (i + 1 < most) place = nextToken(place);
  }
  return most;
}

/**
 * Allocates fresh blocks for the rest of the prompt and counts reused and missed blocks. Returns false if there are too
 * few, and then gives the claimed blocks back. This happens if all blocks of a prompt are full and held: `credit`
 * includes the last one, but `claimPrompt` may not take it.
 */
export function fillPrompt(slot: i32): bool {
  const l = line(slot);
  const needed = keepsBlocks ? blocksOf(l.context) : 0;
  if (needed - row(slot).tableCount > blocksFree()) {
    release(slot, 0);
    forget(l);
    return false;
  }
  while (row(slot).tableCount < needed) {
    const block = takeBlock();
    retainPrompt(slot, row(slot).tableCount, block);
    appendBlock(slot, block);
  }
  l.held = l.context;
  l.room = keepsBlocks ? needed * blockSize : i32.MAX_VALUE;
  const hit = l.position;
  const first = preemptions[slot] === 0;
  if (first) cachedPrompt[slot] = hit + 1;
  if (!prefixCaching) return true;
  const reused = blocksOf(hit);
  countKv(KvTotal.Reused, reused);
  countKv(KvTotal.Missed, needed - reused);
  if (hit % blockSize > 0) countKv(KvTotal.ReusedPartly, 1);
  if (copied) countKv(KvTotal.Copied, 1);
  if (!reads(slot)) return true;
  count(first ? Total.PrefixRequests : Total.PreemptedRequests, 1);
  count(first ? Total.PrefixQueries : Total.PreemptedQueries, <f64>l.context);
  count(first ? Total.PrefixHits : Total.PreemptedHits, <f64>hit);
  return true;
}

/** Makes room for the known tokens and those in flight, usually one more than before. Returns false if no block is free. */
export function hold(slot: i32, l: Line): bool {
  const needed = l.length + l.flight;
  while (l.room < needed) {
    if (blocksFree() === 0) return false;
    const block = takeBlock();
    countKv(KvTotal.Generated, 1);
    retainOutput(slot, block);
    appendBlock(slot, block);
    l.room += blockSize;
  }
  l.held = needed;
  return true;
}

/** Stores the full blocks of the first `tokens` tokens, so that other requests can find them. */
export function storeFull(slot: i32, tokens: i32): void {
  if (prefixCaching) storeBlocks(slot, tokens / blockSize);
}

/**
 * Stores the request's first `full` blocks, unless a block with the same content is stored. Returns the last of them in
 * the tree, or 0 if there is none.
 */
function storeBlocks(slot: i32, full: i32): i32 {
  const blocks = min(min(full, row(slot).hashCount), row(slot).tableCount);
  if (blocks === 0) return 0;
  const keepsIds = line(slot).keep !== 0;
  let parent = 0;
  let at = entry(slot, 0);
  let fresh = blocks;
  for (let i = 0; i < blocks; i++) {
    const hash = entryHash(at);
    let block = fresh < i ? 0 : find(hash);
    if (block === 0) {
      if (fresh === blocks) {
        fresh = i;
        if (kvEvents) noteStored(slot, i, blocks, parent);
      }
      block = entryBlock(at);
      attach(block, parent, hash, blockSize);
      if (keepsIds) copyIds(slot, block, tokenPlace(slot, i * blockSize), blockSize);
    }
    parent = block;
    if (i + 1 < blocks) at = nextEntry(at);
  }
  return parent;
}

function noteStored(slot: i32, from: i32, to: i32, parent: i32): void {
  if (!eventStored(slot, from, to - from, parent === 0 ? 0 : hashOf(parent))) return;
  let at = entry(slot, from);
  for (let i = from; i < to; i++) {
    storedHash(entryHash(at));
    if (i + 1 < to) at = nextEntry(at);
  }
  const tokens = (to - from) * blockSize;
  if (line(slot).keep === 0 || !eventOf(EVENT_IDS, 1 + tokens)) return;
  eventWord(tokens);
  let place = tokenPlace(slot, from * blockSize);
  for (let i = 0; i < tokens; i++) {
    eventWord(tokenAt(place));
    if (i + 1 < tokens) place = nextToken(place);
  }
}

function copyIds(slot: i32, block: i32, from: i32, tokens: i32): void {
  const ids = idsAt(block);
  let place = from;
  for (let i = 0; i < tokens; i++) {
    store<i32>(ids + ((<usize>i) << 2), tokenAt(place));
    if (i + 1 < tokens) place = nextToken(place);
  }
  setIds(block, tokens, rootOf(slot));
}

/** Stores the blocks of the first `tokens` tokens, including a last block that is not full, and gives all blocks back, the last first. */
export function release(slot: i32, tokens: i32): void {
  const blocks = row(slot).tableCount;
  if (blocks === 0) return;
  if (prefixCaching && tokens > 0) storeAll(slot, tokens);
  let at = entry(slot, blocks - 1);
  for (let i = blocks - 1; i >= 0; i--) {
    giveBlock(entryBlock(at));
    if (i > 0) at = prevEntry(at);
  }
  clearTable(slot);
}

function storeAll(slot: i32, tokens: i32): void {
  const full = tokens / blockSize;
  const parent = storeBlocks(slot, full);
  const rest = tokens - full * blockSize;
  if (rest === 0 || line(slot).keep === 0 || row(slot).tableCount <= full) return;
  if (full > 0 && parent === 0) return;
  const from = full * blockSize;
  for (let child = childOf(parent); child !== 0; child = siblingOf(child)) {
    if (idCount(child) === rest && tokensAlike(slot, from, rest, child) === rest) return;
  }
  const block = entryBlock(entry(slot, full));
  if (isStored(block)) return;
  attach(block, parent, 0, rest);
  copyIds(slot, block, tokenPlace(slot, from), rest);
}
