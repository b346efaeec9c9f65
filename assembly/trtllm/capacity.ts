// TensorRT-LLM's capacity scheduler: decides which active requests may hold KV cache blocks, and which to pause under
// MAX_UTILIZATION. Source: `capacityScheduler.cpp` and its Python twin in `_torch/pyexecutor/scheduler/scheduler.py`.

import { entry, entryBlock, nextEntry } from "../arena";
import { column, column64 } from "../column";
import { maxNumSeqs } from "../config";
import { ADAPTERS, NONE } from "../layout";
import { running, runningLength } from "../queues";
import { lora, row } from "../slots";
import { capacityPolicy, maxNumRequests, peftMaxPages, peftPages, prefixAware } from "./config";
import { setList, setTrtWord } from "./header";
import { analyze, blocksForStep, blocksToCompletion, missingHash, reads } from "./kv";
import { CapacityPolicy, State, TrtWord } from "./layout";
import { Line, line } from "./line";
import { blocksFree, countOff, startCounting } from "./pool";

/** Requests that fit, in order, and the prompt tokens that each expects from the cache; requests to pause. */
let fit = changetype<StaticArray<i32>>(0);
let fitReusable = changetype<StaticArray<i32>>(0);
let paused = changetype<StaticArray<i32>>(0);
let fits: i32 = 0;
let pauses: i32 = 0;
let contexts = changetype<StaticArray<i32>>(0);

/** Hashes of blocks that requests of this plan will compute, in an open-addressing table. Entries of other plans count as empty. */
let computing = changetype<StaticArray<u64>>(0);
let computingPlan = changetype<StaticArray<i32>>(0);
let mask: i32 = 0;
/** Number of the last plan in which the adapter holds pages. */
let seenPlan = changetype<StaticArray<i32>>(0);
let plan: i32 = 0;
let pagesFree: i32 = 0;

export function allocateCapacity(): void {
  fit = column(maxNumSeqs);
  fitReusable = column(maxNumSeqs);
  paused = column(maxNumSeqs);
  contexts = column(maxNumSeqs);
  let size = 16;
  while (size < maxNumSeqs * 3) size <<= 1;
  mask = size - 1;
  computing = column64(size);
  computingPlan = column(size);
  seenPlan = column(ADAPTERS);
}

export function fitAt(index: i32): i32 {
  return fit[index];
}
export function pausedAt(index: i32): i32 {
  return paused[index];
}

/** Decides which requests fit and which to pause, and publishes both lists. */
export function capacity(): void {
  fits = 0;
  pauses = 0;
  plan++;
  pagesFree = peftMaxPages > 0 ? peftMaxPages : i32.MAX_VALUE;
  if (capacityPolicy === CapacityPolicy.MaxRequests) takeRequests();
  else if (capacityPolicy === CapacityPolicy.MaxUtilization) utilize();
  else guarantee(capacityPolicy === CapacityPolicy.StaticBatch);
  setTrtWord(TrtWord.Fit, fits);
  setTrtWord(TrtWord.Paused, pauses);
  setList(TrtWord.FitAt, fit);
  setList(TrtWord.FitReusableAt, fitReusable);
  setList(TrtWord.PausedAt, paused);
}

/** Publishes empty lists. */
export function noCapacity(): void {
  setTrtWord(TrtWord.Fit, 0);
  setTrtWord(TrtWord.Paused, 0);
}

function take(slot: i32): void {
  fitReusable[fits] = line(slot).isFirstChunk ? line(slot).reusable : 0;
  fit[fits++] = slot;
}

/** MAX_REQUESTS: there is no KV cache, so only the number of requests counts. */
function takeRequests(): void {
  const most = min(runningLength(), maxNumRequests);
  for (let i = 0; i < most; i++) {
    line(running[i]).reusable = 0;
    take(running[i]);
  }
}

/**
 * GUARANTEED_NO_EVICT: requests that generate keep the blocks they need to their end. Then contexts follow in order, up
 * to the first that does not fit. STATIC_BATCH: the same, but contexts only fit if no request generates, and no request
 * waits for blocks that another computes.
 */
function guarantee(isStatic: bool): void {
  let free = blocksFree();
  let waiting = 0;
  const active = runningLength();
  for (let i = 0; i < active && fits < maxNumRequests; i++) {
    const slot = running[i];
    const l = line(slot);
    if (l.isContext) {
      contexts[waiting++] = slot;
      continue;
    }
    take(slot);
    free -= blocksToCompletion(slot, l, false);
    takePages(slot);
  }
  if (isStatic && fits > 0) return;
  const skips = !isStatic && prefixAware;
  if (skips) noteExecuting();
  for (let i = 0; i < waiting; i++) {
    const slot = contexts[i];
    const l = line(slot);
    const walks = skips && l.isFirstChunk && reads(slot);
    if (walks && someoneComputes(slot)) continue;
    if (fits >= maxNumRequests) return;
    const needed = blocksToCompletion(slot, l, walks);
    if (needed > free) return;
    if (!hasPages(slot)) continue;
    takePages(slot);
    take(slot);
    free -= needed;
  }
}

/**
 * MAX_UTILIZATION: requests fit in order while there are blocks for their next step. If there are not, pauses started
 * requests, the last first, until there are.
 */
function utilize(): void {
  startCounting();
  if (prefixAware) noteExecuting();
  let free = blocksFree();
  let end = runningLength();
  for (let i = 0; i < end; ) {
    const slot = running[i];
    const l = line(slot);
    const walks = prefixAware && l.isFirstChunk && reads(slot);
    if (walks && someoneComputes(slot)) {
      i++;
      continue;
    }
    if (fits < maxNumRequests) {
      const needed = blocksForStep(slot, l, walks);
      if (needed <= free && hasPages(slot)) {
        takePages(slot);
        take(slot);
        free -= needed;
        i++;
        continue;
      }
    }
    const victim = lastStarted(i, end);
    if (victim === NONE) return;
    free += freedBy(running[victim]);
    paused[pauses++] = running[victim];
    end = victim;
  }
}

/** Returns the position of the last request in [from, to) that has started, or NONE. */
function lastStarted(from: i32, to: i32): i32 {
  for (let i = to - 1; i >= from; i--) if (line(running[i]).started) return i;
  return NONE;
}

/** Returns the number of blocks that become free in this plan when the request is paused. */
function freedBy(slot: i32): i32 {
  const blocks = row(slot).tableCount;
  let freed = 0;
  let at = entry(slot, 0);
  for (let i = 0; i < blocks; i++) {
    if (countOff(entryBlock(at))) freed++;
    if (i + 1 < blocks) at = nextEntry(at);
  }
  return freed;
}

/** Enters, for each prompt that is being computed in chunks, the first block that is not cached: the request will bring that block. */
function noteExecuting(): void {
  for (let i = 0, active = runningLength(); i < active; i++) {
    const slot = running[i];
    const l: Line = line(slot);
    if (l.state !== State.ContextInit || !l.started || !reads(slot)) continue;
    analyze(slot);
    if (missingHash !== 0) isComputing(missingHash);
  }
}

/**
 * Returns true if an earlier request computes the first block that this prompt misses. The prompt then waits and reuses
 * that block. Otherwise enters the block, because this prompt will compute it.
 */
function someoneComputes(slot: i32): bool {
  analyze(slot);
  return missingHash !== 0 && isComputing(missingHash);
}

/** Returns true if the hash is in the plan's table, and enters it if not. */
function isComputing(hash: u64): bool {
  let place = <i32>hash & mask;
  for (; computingPlan[place] === plan; place = (place + 1) & mask) if (computing[place] === hash) return true;
  computing[place] = hash;
  computingPlan[place] = plan;
  return false;
}

/** Returns true if the request needs no adapter, its adapter already holds pages, or enough pages are free. */
function hasPages(slot: i32): bool {
  const adapter = lora[slot];
  return adapter === 0 || seenPlan[adapter] === plan || peftPages <= pagesFree;
}
function takePages(slot: i32): void {
  const adapter = lora[slot];
  if (adapter === 0 || seenPlan[adapter] === plan) return;
  seenPlan[adapter] = plan;
  pagesFree -= peftPages;
}
