// Accepts new requests. The prompt lies in the input buffer, as token ids or as the hashes of its full blocks. The
// other arguments are doubles in the order of Submit.
import { moveAdapter } from "./adapters";
import { appendHash, detachedPage, linkDetached, reserve, setDetachedWord } from "./arena";
import { column } from "./column";
import { blockSize, inputLength, maxModelLen, prefixCaching } from "./config";
import { fold, rootHash, seal } from "./hashing";
import { count, setAddress } from "./header";
import {
  ADAPTERS,
  FEED,
  NONE,
  PAGE_BITS,
  PAGE_BLOCKS,
  Status,
  SUBMIT_BLOCKED,
  SUBMIT_FED,
  SUBMIT_HASHED,
  SUBMIT_STOPS,
  SUBMIT_UNREAD,
  Submit,
  Total,
  Word,
} from "./layout";
import { pushWaiting, recall, setDeferred } from "./queues";
import {
  acquireSlot,
  arrivalUs,
  fed,
  feedRing,
  handleOf,
  lora,
  priority,
  queuedUs,
  releaseSlot,
  row,
  sequence,
  stopCount,
  stopPage,
} from "./slots";

/** Token ids, or hashes as pairs of words; then the stop ids. */
let input = changetype<StaticArray<i32>>(0);

export function allocateInput(): void {
  input = column(inputLength);
}
export function publishInput(): void {
  setAddress(Word.InputAt, changetype<usize>(input));
  setAddress(Word.SubmitAt, submitFields);
}

const submitFields = memory.data(Submit.Count << 3, 8);

function numberOf(field: Submit): f64 {
  return load<f64>(submitFields + ((<usize>field) << 3));
}
/** Returns the low 32 bits, like JavaScript's `| 0`. */
function wordOf(field: Submit): i32 {
  return <i32>(<i64>numberOf(field));
}

/** Returns the hash of adapter and salt of the request being submitted: the parent of its first block. */
export function submittedRoot(): u64 {
  return rootHash(wordOf(Submit.Adapter), wordOf(Submit.SaltLo), wordOf(Submit.SaltHi));
}

/** Adds the request to the waiting queue. Returns its handle, or NONE if slots or arena are full; nothing is stored then. */
export function submit(): i32 {
  const tokens = wordOf(Submit.PromptTokens);
  const promptWords = wordOf(Submit.PromptWords);
  const stops = wordOf(Submit.Stops);
  const maxTokens = wordOf(Submit.MaxTokens);
  const eosAt = wordOf(Submit.EosAt);
  const adapter = wordOf(Submit.Adapter);
  const flags = wordOf(Submit.Flags);
  assert(tokens > 0 && maxTokens > 0 && promptWords + stops <= inputLength, "malformed submission");
  assert(adapter >= 0 && adapter < ADAPTERS, "an adapter's number is too large");
  assert(
    (flags & SUBMIT_UNREAD) === 0 || ((flags & SUBMIT_HASHED) !== 0 && stops === 0),
    "only hashed requests without stop ids can be unread",
  );
  const slot = acquireSlot();
  if (slot === NONE) return NONE;
  const longest = eosAt > 0 && eosAt < maxTokens ? eosAt : maxTokens;
  // Two tokens more, because asynchronous scheduling may plan a token past the end before it knows of the end.
  const most = min(<i64>tokens + <i64>longest + 2, <i64>maxModelLen + 1);
  const stopPages = (stops + PAGE_BLOCKS - 1) >> PAGE_BITS;
  const blocks = <i32>((max(most, <i64>tokens) + <i64>blockSize - 1) / <i64>blockSize);
  if (!reserve(slot, blocks, stopPages)) {
    row(slot).status = Status.Waiting;
    releaseSlot(slot);
    return NONE;
  }
  row(slot).status = Status.Waiting;
  row(slot).prompt = tokens;
  row(slot).maxTokens = maxTokens;
  row(slot).minTokens = wordOf(Submit.MinTokens);
  row(slot).eosAt = eosAt;
  row(slot).seed = wordOf(Submit.Seed);
  priority[slot] = wordOf(Submit.Priority);
  lora[slot] = adapter;
  row(slot).flags = stops > 0 ? flags | SUBMIT_STOPS : flags;
  row(slot).lastOutput = min(maxTokens, maxModelLen - tokens);
  arrivalUs[slot] = numberOf(Submit.ArrivalUs);
  queuedUs[slot] = numberOf(Submit.QueuedUs);
  sequence[slot] = numberOf(Submit.Order);
  if (prefixCaching) hashPrompt(slot, tokens, promptWords, submittedRoot());
  keepStops(slot, promptWords, stops);
  pushWaiting(slot);
  moveAdapter(slot, 0, 1);
  if ((flags & SUBMIT_BLOCKED) !== 0) setDeferred(slot, 1);
  count(Total.Submitted, 1);
  return handleOf(slot);
}

function hashPrompt(slot: i32, tokens: i32, words: i32, root: u64): void {
  let hash = root;
  if ((row(slot).flags & SUBMIT_HASHED) !== 0) {
    const full = min(words >> 1, tokens / blockSize);
    // The caller's hash of a block covers all blocks before it, but not adapter and salt. They must change every hash,
    // as they do with token ids through the chain of parents.
    const ownerHash = root ^ rootHash(0, 0, 0);
    for (let block = 0; block < full; block++) {
      const lo = <u64>(<u32>input[2 * block]);
      const hi = <u64>(<u32>input[2 * block + 1]);
      hash = seal((lo | (hi << 32)) ^ ownerHash);
      appendHash(slot, hash);
    }
    // The tokens after the hashed blocks are unknown, so their hash must match no other request.
    row(slot).openHash = fold(hash, handleOf(slot)) + <u64>sequence[slot];
    row(slot).fullAt = blockSize - (tokens % blockSize);
    return;
  }
  let left = blockSize;
  for (let i = 0; i < tokens; i++) {
    hash = fold(hash, input[i]);
    if (--left === 0) {
      hash = seal(hash);
      appendHash(slot, hash);
      left = blockSize;
    }
  }
  row(slot).openHash = hash;
  row(slot).fullAt = left;
}

function keepStops(slot: i32, from: i32, stops: i32): void {
  stopCount[slot] = stops;
  let page = 0;
  for (let i = 0; i < stops; i++) {
    if ((i & (PAGE_BLOCKS - 1)) === 0) {
      const next = detachedPage();
      if (page === 0) stopPage[slot] = next;
      else linkDetached(page, next);
      linkDetached(next, 0);
      page = next;
    }
    setDetachedWord(page, i & (PAGE_BLOCKS - 1), input[from + i]);
  }
}

/** Makes a blocked request ready. It still counts as deferred until it is admitted or ends, as in vLLM. */
export function unblock(slot: i32): void {
  if ((row(slot).flags & SUBMIT_BLOCKED) === 0) return;
  row(slot).flags = row(slot).flags & ~SUBMIT_BLOCKED;
  recall(slot);
}

/** Adds `ids` fed ids from the start of the input buffer, with their FED_MORE bits. At most FEED ids may be fed but unused. */
export function feed(slot: i32, ids: i32): void {
  assert((row(slot).flags & SUBMIT_FED) !== 0 && ids <= FEED, "feed without a feed");
  const have = fed[slot];
  for (let i = 0; i < ids; i++) feedRing[slot * FEED + ((have + i) & (FEED - 1))] = input[i];
  fed[slot] = have + ids;
}
