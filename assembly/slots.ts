// What does the core know of a request? What every step touches lies side by side in one row of two
// cache lines, the rest in columns indexed by slot (measured: rows take 40 % off a decode step). A handle names a slot and its
// generation, so that a step in flight can tell a request from the next one in its slot.
import { column, columnF } from "./column";
import { setAddress, setWord } from "./header";
import { FEED, Field, GENERATIONS, NONE, ROW_BYTES, SLOT_BITS, SLOTS, Status, Word } from "./layout";

/** One request, fields in the order of Field, as the checks below hold; `inFlight` and `placeholders` are also moved as one word of 64 bits. */
@unmanaged
export class Row {
  /** Hash of the open block so far: parent and the tokens folded in. */
  openHash: u64;
  lastTokenUs: f64;
  generation: i32;
  /** SUBMIT_* bits. */
  flags: i32;
  inFlight: i32;
  /** H: output tokens expected from steps in flight (asynchronous scheduling). */
  placeholders: i32;
  /** C: tokens whose KV is computed or scheduled. */
  computed: i32;
  /** Below so many computed tokens a plan is one plain decode: no block, no cache entry, no limit. */
  quietUntil: i32;
  /** O: output tokens appended so far. */
  outputs: i32;
  /** Below so many outputs the next is one plain token: no end, no feed, no full block, nothing stale. */
  calmUntil: i32;
  seed: i32;
  /** Template of the default text's current block. */
  template: i32;
  /** Outputs with which the open block is full. */
  fullAt: i32;
  /** Computed tokens at which the next block is full: (cachedCount + 1) * block size. */
  storeAt: i32;
  status: i32;
  /** P: prompt tokens. */
  prompt: i32;
  /** S: draft tokens attached; zero without speculation. */
  drafts: i32;
  /** Tokens that were in flight at preemption, and whether their output is to be dropped. */
  stale: i32;
  dropStale: i32;
  /** C < N + H after the last scheduling. */
  isChunk: i32;
  maxTokens: i32;
  minTokens: i32;
  /** Output position at which the end-of-sequence id comes; 0 is never. */
  eosAt: i32;
  /** Output tokens after which it ends in any case: max_tokens, or the end of the context. */
  lastOutput: i32;
  /** Blocks in the table, full blocks with a hash, blocks of the table entered into the prefix cache. */
  tableCount: i32;
  hashCount: i32;
  cachedCount: i32;
  /** Ends and length of the chain of arena pages, page + 1. */
  firstPage: i32;
  lastPage: i32;
  pageCount: i32;

  /** In flight and placeholders at once; neither half runs over into the other. */
  moveInFlight(by: i64): void {
    const at = changetype<usize>(this);
    store<i64>(at, load<i64>(at, offsetof<Row>("inFlight")) + by, offsetof<Row>("inFlight"));
  }
}
if (offsetof<Row>("openHash") !== Field.OpenHash << 2) ERROR("Row and Field disagree on openHash");
if (offsetof<Row>("lastTokenUs") !== Field.LastTokenUs << 2) ERROR("Row and Field disagree on lastTokenUs");
if (offsetof<Row>("generation") !== Field.Generation << 2) ERROR("Row and Field disagree on generation");
if (offsetof<Row>("flags") !== Field.Flags << 2) ERROR("Row and Field disagree on flags");
if (offsetof<Row>("inFlight") !== Field.InFlight << 2) ERROR("Row and Field disagree on inFlight");
if (offsetof<Row>("placeholders") !== Field.Placeholders << 2) ERROR("Row and Field disagree on placeholders");
if (offsetof<Row>("computed") !== Field.Computed << 2) ERROR("Row and Field disagree on computed");
if (offsetof<Row>("quietUntil") !== Field.QuietUntil << 2) ERROR("Row and Field disagree on quietUntil");
if (offsetof<Row>("outputs") !== Field.Outputs << 2) ERROR("Row and Field disagree on outputs");
if (offsetof<Row>("calmUntil") !== Field.CalmUntil << 2) ERROR("Row and Field disagree on calmUntil");
if (offsetof<Row>("seed") !== Field.Seed << 2) ERROR("Row and Field disagree on seed");
if (offsetof<Row>("template") !== Field.Template << 2) ERROR("Row and Field disagree on template");
if (offsetof<Row>("fullAt") !== Field.FullAt << 2) ERROR("Row and Field disagree on fullAt");
if (offsetof<Row>("storeAt") !== Field.StoreAt << 2) ERROR("Row and Field disagree on storeAt");
if (offsetof<Row>("status") !== Field.Status << 2) ERROR("Row and Field disagree on status");
if (offsetof<Row>("prompt") !== Field.Prompt << 2) ERROR("Row and Field disagree on prompt");
if (offsetof<Row>("drafts") !== Field.Drafts << 2) ERROR("Row and Field disagree on drafts");
if (offsetof<Row>("stale") !== Field.Stale << 2) ERROR("Row and Field disagree on stale");
if (offsetof<Row>("dropStale") !== Field.DropStale << 2) ERROR("Row and Field disagree on dropStale");
if (offsetof<Row>("isChunk") !== Field.IsChunk << 2) ERROR("Row and Field disagree on isChunk");
if (offsetof<Row>("maxTokens") !== Field.MaxTokens << 2) ERROR("Row and Field disagree on maxTokens");
if (offsetof<Row>("minTokens") !== Field.MinTokens << 2) ERROR("Row and Field disagree on minTokens");
if (offsetof<Row>("eosAt") !== Field.EosAt << 2) ERROR("Row and Field disagree on eosAt");
if (offsetof<Row>("lastOutput") !== Field.LastOutput << 2) ERROR("Row and Field disagree on lastOutput");
if (offsetof<Row>("tableCount") !== Field.TableCount << 2) ERROR("Row and Field disagree on tableCount");
if (offsetof<Row>("hashCount") !== Field.HashCount << 2) ERROR("Row and Field disagree on hashCount");
if (offsetof<Row>("cachedCount") !== Field.CachedCount << 2) ERROR("Row and Field disagree on cachedCount");
if (offsetof<Row>("firstPage") !== Field.FirstPage << 2) ERROR("Row and Field disagree on firstPage");
if (offsetof<Row>("lastPage") !== Field.LastPage << 2) ERROR("Row and Field disagree on lastPage");
if (offsetof<Row>("pageCount") !== Field.PageCount << 2) ERROR("Row and Field disagree on pageCount");
if (offsetof<Row>("placeholders") !== offsetof<Row>("inFlight") + 4) ERROR("in flight and placeholders are no pair");
if (offsetof<Row>() > <usize>ROW_BYTES) ERROR("a row is larger than ROW_BYTES");

let rowsAt: usize = 0;

export function row(slot: i32): Row {
  return changetype<Row>(rowsAt + <usize>slot * ROW_BYTES);
}

export let preemptions = changetype<StaticArray<i32>>(0);
/** Preemptions that the request's outputs have told of. */
export let preemptionsTold = changetype<StaticArray<i32>>(0);
export let priority = changetype<StaticArray<i32>>(0);
/** Adapter number, 0 is none. */
export let lora = changetype<StaticArray<i32>>(0);
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

/** Free slots as a stack of slot + 1; slots never used lie above `fresh`. */
let freeStack = changetype<StaticArray<i32>>(0);
let freeCount: i32 = 0;
let fresh: i32 = 0;
let used: i32 = 0;

export function takeSlots(): void {
  // One row more, so that rows can start at a cache line.
  const rows = column((SLOTS + 1) * (ROW_BYTES >> 2));
  rowsAt = (changetype<usize>(rows) + ROW_BYTES - 1) & ~(<usize>ROW_BYTES - 1);
  preemptions = column(SLOTS);
  preemptionsTold = column(SLOTS);
  priority = column(SLOTS);
  lora = column(SLOTS);
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
  freeStack = column(SLOTS);
}

export function publishSlots(): void {
  setAddress(Word.RowsAt, rowsAt);
  setAddress(Word.PreemptionsAt, changetype<usize>(preemptions));
  setAddress(Word.CachedPromptAt, changetype<usize>(cachedPrompt));
  setAddress(Word.CreatedPromptAt, changetype<usize>(createdPrompt));
  setAddress(Word.DeferredAt, changetype<usize>(deferred));
  setAddress(Word.PriorityAt, changetype<usize>(priority));
  setAddress(Word.ArrivalAt, changetype<usize>(arrivalUs));
  setAddress(Word.SequenceAt, changetype<usize>(sequence));
  setAddress(Word.ScheduledAt, changetype<usize>(scheduledUs));
}

/** A free slot with all counters at zero, or NONE: the table is full. */
export function acquireSlot(): i32 {
  let slot = NONE;
  if (freeCount > 0) slot = freeStack[--freeCount] - 1;
  else if (fresh < SLOTS) slot = fresh++;
  else return NONE;
  assert(row(slot).status === Status.Free, "a free slot is in use");
  used++;
  setWord(Word.SlotsUsed, used);
  row(slot).outputs = 0;
  row(slot).computed = 0;
  row(slot).placeholders = 0;
  row(slot).drafts = 0;
  row(slot).inFlight = 0;
  row(slot).stale = 0;
  row(slot).dropStale = 0;
  row(slot).isChunk = 0;
  row(slot).quietUntil = 0;
  row(slot).template = 0;
  preemptions[slot] = 0;
  preemptionsTold[slot] = 0;
  closed[slot] = 0;
  deferred[slot] = 0;
  cachedPrompt[slot] = 0;
  createdPrompt[slot] = 0;
  stopCount[slot] = 0;
  stopPage[slot] = 0;
  fed[slot] = 0;
  scheduledUs[slot] = 0;
  firstTokenUs[slot] = 0;
  row(slot).lastTokenUs = 0;
  return slot;
}

export function releaseSlot(slot: i32): void {
  assert(row(slot).status !== Status.Free, "slot released twice");
  row(slot).status = Status.Free;
  // Rows of open steps may name this slot still, and the next request in it: they find their handle too old, not calm.
  row(slot).calmUntil = 0;
  row(slot).generation = row(slot).generation === GENERATIONS ? 0 : row(slot).generation + 1;
  freeStack[freeCount++] = slot + 1;
  used--;
  setWord(Word.SlotsUsed, used);
}

export function handleOf(slot: i32): i32 {
  return (row(slot).generation << SLOT_BITS) | slot;
}

/** The slot that a handle names, or NONE when its request is gone: a slot's generation moves on at its release. */
export function slotOf(handle: i32): i32 {
  const slot = handle & (SLOTS - 1);
  return row(slot).generation === handle >> SLOT_BITS ? slot : NONE;
}

/** N: prompt and output tokens. */
export function tokensOf(slot: i32): i32 {
  return row(slot).prompt + row(slot).outputs;
}
