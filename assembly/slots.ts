// What does the core know of a request? One column per field, indexed by slot; a handle names a slot and its generation,
// so that a step in flight can tell a request from the next one in its slot.
import { column, column64, columnF } from "./column";
import { setAddress, setWord } from "./header";
import { FEED, GENERATIONS, NONE, SLOT_BITS, SLOTS, Status, Word } from "./layout";

export let generation = changetype<StaticArray<i32>>(0);
export let status = changetype<StaticArray<i32>>(0);
/** P and O: prompt tokens, output tokens appended so far. */
export let prompt = changetype<StaticArray<i32>>(0);
export let outputs = changetype<StaticArray<i32>>(0);
/** C: tokens whose KV is computed or scheduled. */
export let computed = changetype<StaticArray<i32>>(0);
/** H: output tokens expected from steps in flight (asynchronous scheduling). */
export let placeholders = changetype<StaticArray<i32>>(0);
/** S: draft tokens attached; zero without speculation. */
export let drafts = changetype<StaticArray<i32>>(0);
export let inFlight = changetype<StaticArray<i32>>(0);
/** Tokens that were in flight at preemption, and whether their output is to be dropped. */
export let stale = changetype<StaticArray<i32>>(0);
export let dropStale = changetype<StaticArray<i32>>(0);
/** C < N + H after the last scheduling. */
export let isChunk = changetype<StaticArray<i32>>(0);
export let preemptions = changetype<StaticArray<i32>>(0);
export let maxTokens = changetype<StaticArray<i32>>(0);
export let minTokens = changetype<StaticArray<i32>>(0);
/** Output position at which the end-of-sequence id comes; 0 is never. */
export let eosAt = changetype<StaticArray<i32>>(0);
export let seed = changetype<StaticArray<i32>>(0);
export let priority = changetype<StaticArray<i32>>(0);
/** Adapter number, 0 is none. */
export let lora = changetype<StaticArray<i32>>(0);
/** SUBMIT_* bits. */
export let flags = changetype<StaticArray<i32>>(0);
/** The front ended it: no output, no count, freed at the next abort point. */
export let closed = changetype<StaticArray<i32>>(0);
export let deferred = changetype<StaticArray<i32>>(0);
/** Prefill statistics: tokens cached at the first admission plus one; prompt tokens newly written to the cache. */
export let cachedPrompt = changetype<StaticArray<i32>>(0);
export let createdPrompt = changetype<StaticArray<i32>>(0);
export let stopCount = changetype<StaticArray<i32>>(0);
/** Page of the arena that holds the stop ids, plus one. */
export let stopPage = changetype<StaticArray<i32>>(0);
/** Fed ids: how many came, in a ring of FEED per slot. */
export let fed = changetype<StaticArray<i32>>(0);
export let feedRing = changetype<StaticArray<i32>>(0);
/** Order of submission, the last tie-break of the priority queue. */
export let sequence = changetype<StaticArray<f64>>(0);
/** Times in microseconds. */
export let arrivalUs = changetype<StaticArray<f64>>(0);
export let queuedUs = changetype<StaticArray<f64>>(0);
export let scheduledUs = changetype<StaticArray<f64>>(0);
export let firstTokenUs = changetype<StaticArray<f64>>(0);
export let lastTokenUs = changetype<StaticArray<f64>>(0);
/** Hash of the open block so far (parent and the tokens folded in), and the tokens it still lacks. */
export let openHash = changetype<StaticArray<u64>>(0);
export let openLeft = changetype<StaticArray<i32>>(0);
/** Output tokens after which it ends in any case: max_tokens, or the end of the context. */
export let lastOutput = changetype<StaticArray<i32>>(0);

/** Free slots as a stack of slot + 1; slots never used lie above `fresh`. */
let freeStack = changetype<StaticArray<i32>>(0);
let freeCount: i32 = 0;
let fresh: i32 = 0;
let used: i32 = 0;

export function takeSlots(): void {
  generation = column(SLOTS);
  status = column(SLOTS);
  prompt = column(SLOTS);
  outputs = column(SLOTS);
  computed = column(SLOTS);
  placeholders = column(SLOTS);
  drafts = column(SLOTS);
  inFlight = column(SLOTS);
  stale = column(SLOTS);
  dropStale = column(SLOTS);
  isChunk = column(SLOTS);
  preemptions = column(SLOTS);
  maxTokens = column(SLOTS);
  minTokens = column(SLOTS);
  eosAt = column(SLOTS);
  seed = column(SLOTS);
  priority = column(SLOTS);
  lora = column(SLOTS);
  flags = column(SLOTS);
  closed = column(SLOTS);
  deferred = column(SLOTS);
  cachedPrompt = column(SLOTS);
  createdPrompt = column(SLOTS);
  stopCount = column(SLOTS);
  stopPage = column(SLOTS);
  fed = column(SLOTS);
  feedRing = column(SLOTS * FEED);
  sequence = columnF(SLOTS);
  arrivalUs = columnF(SLOTS);
  queuedUs = columnF(SLOTS);
  scheduledUs = columnF(SLOTS);
  firstTokenUs = columnF(SLOTS);
  lastTokenUs = columnF(SLOTS);
  openHash = column64(SLOTS);
  openLeft = column(SLOTS);
  lastOutput = column(SLOTS);
  freeStack = column(SLOTS);
}

export function publishSlots(): void {
  setAddress(Word.GenerationAt, changetype<usize>(generation));
  setAddress(Word.StatusAt, changetype<usize>(status));
  setAddress(Word.PromptAt, changetype<usize>(prompt));
  setAddress(Word.OutputsAt, changetype<usize>(outputs));
  setAddress(Word.ComputedAt, changetype<usize>(computed));
  setAddress(Word.PreemptionsAt, changetype<usize>(preemptions));
  setAddress(Word.CachedPromptAt, changetype<usize>(cachedPrompt));
  setAddress(Word.CreatedPromptAt, changetype<usize>(createdPrompt));
  setAddress(Word.DeferredAt, changetype<usize>(deferred));
  setAddress(Word.PriorityAt, changetype<usize>(priority));
  setAddress(Word.ArrivalAt, changetype<usize>(arrivalUs));
  setAddress(Word.SequenceAt, changetype<usize>(sequence));
}

/** A free slot with all counters at zero, or NONE: the table is full. */
export function acquireSlot(): i32 {
  let slot = NONE;
  if (freeCount > 0) slot = freeStack[--freeCount] - 1;
  else if (fresh < SLOTS) slot = fresh++;
  else return NONE;
  assert(status[slot] === Status.Free, "a free slot is in use");
  used++;
  setWord(Word.SlotsUsed, used);
  outputs[slot] = 0;
  computed[slot] = 0;
  placeholders[slot] = 0;
  drafts[slot] = 0;
  inFlight[slot] = 0;
  stale[slot] = 0;
  dropStale[slot] = 0;
  isChunk[slot] = 0;
  preemptions[slot] = 0;
  closed[slot] = 0;
  deferred[slot] = 0;
  cachedPrompt[slot] = 0;
  createdPrompt[slot] = 0;
  stopCount[slot] = 0;
  stopPage[slot] = 0;
  fed[slot] = 0;
  scheduledUs[slot] = 0;
  firstTokenUs[slot] = 0;
  lastTokenUs[slot] = 0;
  return slot;
}

export function releaseSlot(slot: i32): void {
  assert(status[slot] !== Status.Free, "slot released twice");
  status[slot] = Status.Free;
  generation[slot] = generation[slot] === GENERATIONS ? 0 : generation[slot] + 1;
  freeStack[freeCount++] = slot + 1;
  used--;
  setWord(Word.SlotsUsed, used);
}

export function handleOf(slot: i32): i32 {
  return (generation[slot] << SLOT_BITS) | slot;
}

/** The slot that a handle names, or NONE when its request is gone: a slot's generation moves on at its release. */
export function slotOf(handle: i32): i32 {
  const slot = handle & (SLOTS - 1);
  return generation[slot] === handle >> SLOT_BITS ? slot : NONE;
}

/** N: prompt and output tokens. */
export function tokensOf(slot: i32): i32 {
  return prompt[slot] + outputs[slot];
}
