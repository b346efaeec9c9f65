// The pool of KV cache blocks: a queue of free blocks per retention priority, and reference counts. Blocks are taken
// from the front of the lowest priority that has a free block, and return to the end of their queue (TensorRT-LLM
// `kvCacheManager.cpp`, `evictionPolicy.cpp`). Number 0 means no block.
import { column, columnF } from "../column";
import { kvEvents, numGpuBlocks } from "../config";
import { eventCleared } from "../events";
import { count, setWord, word } from "../header";
import { Total, Word } from "../layout";
import { countKv, setList } from "./header";
import { KvTotal, PRIORITY_DEFAULT, PRIORITY_MOST, TrtWord } from "./layout";
import { clearTree, isStored, removeTree } from "./tree";

let refs = changetype<StaticArray<i32>>(0);
/** Neighbours in the queue of a free block, and the block's priority plus one, where 0 means the default. */
let next = changetype<StaticArray<i32>>(0);
let prev = changetype<StaticArray<i32>>(0);
let level = changetype<StaticArray<i32>>(0);
let used = changetype<StaticArray<i32>>(0);
/** Microseconds for which a block keeps its priority after it becomes free (0: for ever), and the time at which the priority ends. */
let lasting = changetype<StaticArray<f64>>(0);
let expiry = changetype<StaticArray<f64>>(0);
/** Free blocks whose priority will end, in the order of that time: neighbours and both ends of the list. */
let laterExpiry = changetype<StaticArray<i32>>(0);
let soonerExpiry = changetype<StaticArray<i32>>(0);
let soonest: i32 = 0;
let latest: i32 = 0;
let nowUs: f64 = 0;
let heads = changetype<StaticArray<i32>>(0);
let tails = changetype<StaticArray<i32>>(0);
let free: i32 = 0;

/** Reference counts during a plan, where they differ from the real ones. Valid if the block's mark equals `mark`. */
let planRefs = changetype<StaticArray<i32>>(0);
let planMark = changetype<StaticArray<i32>>(0);
let mark: i32 = 0;

export function allocatePool(): void {
  refs = column(numGpuBlocks);
  next = column(numGpuBlocks);
  prev = column(numGpuBlocks);
  level = column(numGpuBlocks);
  used = column(numGpuBlocks);
  lasting = columnF(numGpuBlocks);
  expiry = columnF(numGpuBlocks);
  laterExpiry = column(numGpuBlocks);
  soonerExpiry = column(numGpuBlocks);
  planRefs = column(numGpuBlocks);
  planMark = column(numGpuBlocks);
  heads = column(PRIORITY_MOST + 1);
  tails = column(PRIORITY_MOST + 1);
}

export function initPool(): void {
  for (let block = 1; block < numGpuBlocks; block++) append(block);
  setFree(numGpuBlocks - 1);
  setWord(Word.BlocksFreeLeast, free);
  setList(TrtWord.LevelsAt, level);
}

export function blocksFree(): i32 {
  return free;
}
export function refsOf(block: i32): i32 {
  return refs[block];
}
export function priorityOf(block: i32): i32 {
  const set = level[block];
  return set === 0 ? PRIORITY_DEFAULT : set - 1;
}
export function firstFree(priority: i32): i32 {
  return heads[priority];
}
export function afterFree(block: i32): i32 {
  return next[block];
}

function setFree(value: i32): void {
  free = value;
  setWord(Word.BlocksFree, value);
}

/** Records the smallest number of free blocks after any plan. */
export function noteLeast(): void {
  if (free < word(Word.BlocksFreeLeast)) setWord(Word.BlocksFreeLeast, free);
}

/**
 * Takes the next free block, with one reference. Its old content and all content that depends on it leave the cache.
 * Traps if no block is free.
 */
export function takeBlock(): i32 {
  assert(free > 0, "no block is free");
  let priority = 0;
  while (heads[priority] === 0) priority++;
  const block = heads[priority];
  if (isStored(block)) removeTree(block);
  countKv(KvTotal.Allocated, 1);
  if (used[block] === 0) countKv(KvTotal.AllocatedNew, 1);
  used[block] = 1;
  claimBlock(block);
  level[block] = 0;
  lasting[block] = 0;
  return block;
}

/** Sets the priority of a block in use. It ends `us` microseconds after the block becomes free; 0 means never. */
export function setPriority(block: i32, priority: i32, us: f64): void {
  assert(refs[block] > 0 && priority >= 0 && priority <= PRIORITY_MOST, "a priority that no block can have");
  level[block] = priority + 1;
  lasting[block] = priority === PRIORITY_DEFAULT ? 0 : us;
}

/** Moves free blocks whose priority has ended at `now` to the end of the default queue. */
export function refreshBlocks(now: f64): void {
  nowUs = now;
  while (soonest !== 0 && expiry[soonest] <= now) {
    const block = soonest;
    forgetExpiry(block);
    unlink(block);
    level[block] = 0;
    append(block);
  }
}

/** Adds a reference. The first reference takes the block out of its queue. */
export function claimBlock(block: i32): void {
  if (refs[block] === 0) {
    if (expiry[block] > 0) forgetExpiry(block);
    unlink(block);
    setFree(free - 1);
  }
  refs[block] = refs[block] + 1;
}

/** Removes a reference. Without references the block goes to the end of its queue. */
export function giveBlock(block: i32): void {
  assert(refs[block] > 0, "block given back twice");
  refs[block] = refs[block] - 1;
  if (refs[block] !== 0) return;
  append(block);
  if (lasting[block] > 0) noteExpiry(block);
  setFree(free + 1);
}

/** Empties the cache. Returns false, and does nothing, while a block is in use. */
export function resetCache(): bool {
  if (free !== numGpuBlocks - 1) return false;
  clearTree();
  if (kvEvents) eventCleared();
  count(Total.PrefixResets, 1);
  return true;
}

/** Starts a plan that may call `countOff`. */
export function startCounting(): void {
  mark++;
}
/** Removes one reference from the block in this plan only. Returns true if none is left. */
export function countOff(block: i32): bool {
  const left = (planMark[block] === mark ? planRefs[block] : refs[block]) - 1;
  planMark[block] = mark;
  planRefs[block] = left;
  return left === 0;
}

function append(block: i32): void {
  const priority = priorityOf(block);
  const last = tails[priority];
  prev[block] = last;
  next[block] = 0;
  if (last === 0) heads[priority] = block;
  else next[last] = block;
  tails[priority] = block;
}

function unlink(block: i32): void {
  const priority = priorityOf(block);
  const before = prev[block];
  const after = next[block];
  if (before === 0) heads[priority] = after;
  else next[before] = after;
  if (after === 0) tails[priority] = before;
  else prev[after] = before;
}

/** Inserts the block into the list of expiries, from the end, because it nearly always expires last. */
function noteExpiry(block: i32): void {
  const when = nowUs + lasting[block];
  let before = latest;
  while (before !== 0 && expiry[before] > when) before = soonerExpiry[before];
  const after = before === 0 ? soonest : laterExpiry[before];
  expiry[block] = when;
  tie(before, block);
  tie(block, after);
}

function forgetExpiry(block: i32): void {
  tie(soonerExpiry[block], laterExpiry[block]);
  expiry[block] = 0;
}

function tie(sooner: i32, later: i32): void {
  if (sooner === 0) soonest = later;
  else laterExpiry[sooner] = later;
  if (later === 0) latest = sooner;
  else soonerExpiry[later] = sooner;
}
