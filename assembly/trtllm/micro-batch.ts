// TensorRT-LLM's micro-batch scheduler: selects, from the requests that fit, the batch of the next step and its tokens,
// within max_batch_size and max_num_tokens. Source: `microBatchScheduler.cpp` and its Python twin in
// `_torch/pyexecutor/scheduler/scheduler.py`.
import { column } from "../column";
import { chunkedPrefill, maxNumBatchedTokens, maxNumSeqs } from "../config";
import { lora, row } from "../slots";
import { fitAt } from "./capacity";
import { chunkingPolicy, chunkUnit, maxBatchSize, maxContextLength } from "./config";
import { setList, setTrtWord, trtWord } from "./header";
import { ChunkingPolicy, State, TrtWord } from "./layout";
import { adapted, Line, line } from "./line";

/** The batch: contexts with position and chunk as scheduled, and generation requests. */
let contexts = changetype<StaticArray<i32>>(0);
let contextFrom = changetype<StaticArray<i32>>(0);
let contextChunk = changetype<StaticArray<i32>>(0);
let generations = changetype<StaticArray<i32>>(0);
let chunked = changetype<StaticArray<i32>>(0);
let contextCount: i32 = 0;

export function allocateMicroBatch(): void {
  contexts = column(maxNumSeqs);
  contextFrom = column(maxNumSeqs);
  contextChunk = column(maxNumSeqs);
  generations = column(maxNumSeqs);
  chunked = column(maxNumSeqs);
}

export function contextAt(index: i32): i32 {
  return contexts[index];
}
export function generationAt(index: i32): i32 {
  return generations[index];
}

/** Sets the generation request at `index`. Used after other requests left the batch, or by a plan that skipped this scheduler. */
export function keepGeneration(index: i32, slot: i32): void {
  generations[index] = slot;
}

/** Forms a batch of the requests that fit and publishes it. */
export function microBatch(): void {
  const fits = trtWord(TrtWord.Fit);
  let charged = 0;
  let generating = 0;
  let chunkedCount = 0;
  let chunkedCost = 0;
  let allFit = true;
  contextCount = 0;
  for (let i = 0; i < fits; i++) {
    const slot = fitAt(i);
    const l = line(slot);
    if (l.state === State.GenerationToComplete) continue;
    if (!l.isContext) {
      const cost = 1 + row(slot).drafts;
      if (charged + cost > maxNumBatchedTokens) break;
      charged += cost;
      generations[generating++] = slot;
    } else if (!chunkedPrefill) {
      l.chunk = l.rest;
      const cost = max(1, costOf(l, l.rest) + row(slot).drafts);
      assert(cost <= maxContextLength, "a prompt is longer than a batch and chunked prefill is off");
      if (charged + cost > maxNumBatchedTokens) break;
      charged += cost;
      contexts[contextCount++] = slot;
    } else {
      l.chunk = l.rest;
      const cost = costOf(l, l.rest) + row(slot).drafts;
      if (cost > maxContextLength) allFit = false;
      chunkedCost += min(cost, maxContextLength);
      chunked[chunkedCount++] = slot;
    }
    if (generating + contextCount + chunkedCount >= maxBatchSize) break;
  }
  if (chunkedCost > maxNumBatchedTokens - charged) allFit = false;
  if (!allFit && chunkedCount > 0) shareTokens(chunkedCount, maxNumBatchedTokens - charged);
  charged += takeChunks(chunkedCount);
  order(allFit, generating);
  publish(generating, charged, allFit);
}

/** Runs the chunking policy alone. All requests that fit must be contexts; they share `tokens`. */
export function chunkContexts(tokens: i32): void {
  const fits = trtWord(TrtWord.Fit);
  contextCount = 0;
  for (let i = 0; i < fits; i++) {
    chunked[i] = fitAt(i);
    line(chunked[i]).chunk = line(chunked[i]).rest;
  }
  shareTokens(fits, tokens);
  publish(0, takeChunks(fits), false);
}

/** Adds the requests with a chunk to the batch and returns the cost of their chunks. */
function takeChunks(count: i32): i32 {
  let cost = 0;
  for (let i = 0; i < count; i++) {
    const l = line(chunked[i]);
    if (l.chunk === 0) continue;
    cost += costOf(l, l.chunk);
    contexts[contextCount++] = chunked[i];
  }
  return cost;
}

function publish(generating: i32, charged: i32, allFit: bool): void {
  for (let i = 0; i < contextCount; i++) {
    contextFrom[i] = line(contexts[i]).position;
    contextChunk[i] = line(contexts[i]).chunk;
  }
  setTrtWord(TrtWord.Contexts, contextCount);
  setTrtWord(TrtWord.Generations, generating);
  setTrtWord(TrtWord.Charged, charged);
  setTrtWord(TrtWord.AllFit, <i32>allFit);
  setList(TrtWord.ContextAt, contexts);
  setList(TrtWord.ContextFromAt, contextFrom);
  setList(TrtWord.ContextChunkAt, contextChunk);
  setList(TrtWord.GenerationAt, generations);
}

/** Publishes an empty batch. */
export function noMicroBatch(): void {
  contextCount = 0;
  publish(0, 0, true);
}

/**
 * Returns the tokens that a chunk counts against the limit: the whole chunk, except if it is the first and, with the
 * cached tokens, completes the prompt. Cached tokens move a chunk and do not shorten it, so only a chunk that reaches
 * the end of the prompt is cheaper.
 */
function costOf(l: Line, chunk: i32): i32 {
  const reusable = l.isFirstChunk ? min(l.reusable, l.rest) : 0;
  return reusable === 0 || reusable + chunk < l.rest ? chunk : l.rest - reusable;
}

/** Shares `tokens` among the chunks by the chunking policy. Then keeps as many draft tokens of the last chunks as fit. */
function shareTokens(count: i32, tokens: i32): void {
  const used =
    chunkingPolicy === ChunkingPolicy.EqualProgress ? shareEqually(count, tokens) : shareInOrder(count, tokens);
  let left = tokens - used;
  for (let i = 0; i < count; i++) {
    const slot = chunked[i];
    const l = line(slot);
    const drafts = row(slot).drafts;
    if (drafts === 0 || !l.isLastChunk) continue;
    const over = l.chunk % chunkUnit;
    const room = min(over === 0 ? 0 : chunkUnit - over, maxContextLength - l.chunk);
    const kept = max(0, min(min(drafts, room), left));
    row(slot).drafts = kept;
    left -= kept;
  }
}

/** EQUAL_PROGRESS: adds a unit to each chunk, round by round, while at least one more fits. Returns the tokens used. */
function shareEqually(count: i32, tokens: i32): i32 {
  for (let i = 0; i < count; i++) line(chunked[i]).chunk = 0;
  let used = 0;
  for (let moved = true; moved && used < tokens; ) {
    moved = false;
    for (let i = 0; i < count; i++) {
      const l = line(chunked[i]);
      const chunk = min(l.chunk + chunkUnit, l.rest);
      const more = costOf(l, chunk) - costOf(l, l.chunk);
      if (chunk === l.chunk || used + more > tokens || chunk > maxContextLength) continue;
      used += more;
      l.chunk = chunk;
      moved = true;
    }
  }
  return used;
}

/**
 * FIRST_COME_FIRST_SERVED: gives each request all tokens that are left, in whole units unless the chunk completes its
 * prompt. Returns the tokens used.
 */
function shareInOrder(count: i32, tokens: i32): i32 {
  let left = tokens;
  for (let i = 0; i < count; i++) {
    const l = line(chunked[i]);
    let chunk = l.rest;
    if (left < costOf(l, chunk)) chunk = left;
    if (costOf(l, chunk) > maxContextLength) chunk = min(maxContextLength, l.rest);
    if (chunk < l.rest) chunk -= chunk % chunkUnit;
    l.chunk = chunk;
    left -= costOf(l, chunk);
  }
  return tokens - left;
}

/**
 * If chunks had to be shared, moves those that complete their prompt to the end. Then sorts each group by adapter,
 * requests without adapter first.
 */
function order(allFit: bool, generating: i32): void {
  let lasts = 0;
  if (!allFit) lasts = lastChunksBehind(contexts, contextCount);
  sortByAdapter(contexts, 0, contextCount - lasts);
  sortByAdapter(contexts, contextCount - lasts, contextCount);
  sortByAdapter(generations, 0, generating);
}

/** Moves the requests whose chunk completes the prompt to the end; both groups keep their order. Returns their number. */
export function lastChunksBehind(slots: StaticArray<i32>, count: i32): i32 {
  let first = 0;
  let last = 0;
  for (let i = 0; i < count; i++) {
    const slot = slots[i];
    if (line(slot).isLastChunk) chunked[last++] = slot;
    else slots[first++] = slot;
  }
  for (let i = 0; i < last; i++) slots[first + i] = chunked[i];
  return last;
}

function sortByAdapter(slots: StaticArray<i32>, from: i32, to: i32): void {
  if (adapted === 0) return;
  for (let i = from + 1; i < to; i++) {
    const slot = slots[i];
    let at = i;
    for (; at > from && lora[slots[at - 1]] > lora[slot]; at--) slots[at] = slots[at - 1];
    slots[at] = slot;
  }
}
