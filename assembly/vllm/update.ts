// What came out of the oldest open step? vLLM 0.33 `v1/core/sched/scheduler.py`, update_from_output, and
// `async_scheduler.py`: tokens are drawn, ends found in vLLM's order, the outbox is filled, statistics move.
import { drawCalm, drawToken, fedToken, redrawToken } from "../answers";
import { appendHash, detachedWord, nextDetached } from "../arena";
import { asyncScheduling, blockSize, eosId, prefixCaching } from "../config";
import { fold, seal } from "../hashing";
import { count } from "../header";
import { observe, observeMany } from "../histogram";
import {
  FEED_HALF,
  Histogram,
  NONE,
  OUT_FEED,
  OUT_FIRST,
  OUT_STOP_ID,
  OUT_WORDS,
  PAGE_BLOCKS,
  Reason,
  ROW_SAMPLES,
  SLOT_BITS,
  SLOTS,
  Status,
  SUBMIT_FED,
  SUBMIT_IGNORE_EOS,
  SUBMIT_STOPS,
  SUBMIT_UNREAD,
  Total,
} from "../layout";
import {
  advanceOutbox,
  clearOutbox,
  emit,
  lose,
  outboxRows,
  outboxRowsEnd,
  outboxTokens,
  outboxTokensEnd,
  sealOutbox,
} from "../outbox";
import { pruneRunning } from "../queues";
import {
  arrivalUs,
  cachedPrompt,
  createdPrompt,
  fed,
  firstTokenUs,
  preemptions,
  preemptionsTold,
  Row,
  row,
  slotOf,
  stopCount,
  stopPage,
} from "../slots";
import { closeStep, firstRow, rowFlags, rowHandle, rowsOf, rowTokens } from "../steps";
import { store as storeBlocks } from "./allocate";
import { applyClosed, countEnd, release } from "./end";

/** Prompt tokens computed for requests whose first token came in this step. */
let promptComputed: f64 = 0;
let ended = false;
/** Inter-token times of the step's rows, nearly always one value: counted by runs. */
let gapUs: f64 = 0;
let gaps: f64 = 0;

/** Takes in the outcome of the oldest open step, which ended at `now`; the number of outbox rows. */
export function update(now: f64): i32 {
  applyClosed();
  const step = closeStep();
  clearOutbox();
  promptComputed = 0;
  ended = false;
  gaps = 0;
  const from = firstRow(step);
  const to = from + rowsOf(step);
  for (let at = takeCalm(from, to, now); at < to; at = takeCalm(at + 1, to, now)) {
    takeRow(rowHandle[at], rowTokens[at], (rowFlags[at] & ROW_SAMPLES) !== 0, now);
  }
  if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
  if (ended) pruneRunning();
  const emitted = outboxRows();
  if (emitted > 0) {
    count(Total.GenerationTokens, <f64>emitted);
    observe(Histogram.IterationTokens, promptComputed + <f64>emitted);
  }
  sealOutbox();
  return emitted;
}

/**
 * Takes in a run of rows that are one plain token each, which is nearly all of them; the index of the first that is more.
 * It does what `takeRow` does: `calm` says for how many outputs nothing else can happen.
 */
function takeCalm(from: i32, to: i32, now: f64): i32 {
  let at = from;
  let outAt = outboxRowsEnd();
  let tokenAt = outboxTokensEnd();
  let index = outboxTokens();
  for (; at < to; at++) {
    const handle = rowHandle[at];
    const slot = handle & (SLOTS - 1);
    const r = row(slot);
    const calm = r.calm;
    if (calm === 0 || r.generation !== handle >> SLOT_BITS) break;
    const position = r.outputs;
    const token = (r.flags & SUBMIT_UNREAD) !== 0 ? NONE : drawCalm(r, position);
    r.calm = calm - 1;
    r.outputs = position + 1;
    r.inFlight = r.inFlight - 1;
    if (prefixCaching) extendHash(slot, r, token);
    if (asyncScheduling) {
      r.placeholders = r.placeholders - 1;
      const computed = r.computed - r.inFlight;
      if (prefixCaching && computed >= r.storeAt) storeBlocks(slot, computed);
    }
    countGap(now - r.lastTokenUs);
    r.lastTokenUs = now;
    store<i32>(outAt, slot);
    store<i32>(outAt, index, 4);
    store<i32>(outAt, 1, 8);
    store<i32>(outAt, 0, 12);
    store<i32>(tokenAt, token);
    outAt += OUT_WORDS << 2;
    tokenAt += 4;
    index++;
  }
  advanceOutbox(at - from);
  return at;
}

/** How many outputs from now are plain. */
function calmOutputs(slot: i32): i32 {
  const r = row(slot);
  r.template = 0;
  if ((r.flags & (SUBMIT_FED | SUBMIT_STOPS)) !== 0 || r.status !== Status.Running || r.stale > 0) return 0;
  const end = r.eosAt > 0 ? min(r.eosAt, r.lastOutput) : r.lastOutput;
  return max(end - r.outputs - 1, 0);
}

function takeRow(handle: i32, n: i32, samples: bool, now: f64): void {
  const slot = slotOf(handle);
  if (slot === NONE) {
    if (samples) lose(handle);
    return;
  }
  row(slot).inFlight = row(slot).inFlight - n;
  const isStale = row(slot).stale > 0;
  if (isStale) row(slot).stale = row(slot).stale - n;
  if (!samples) return;
  if (isStale && row(slot).dropStale !== 0) {
    lose(handle);
    return;
  }
  const how = row(slot).flags;
  const token = draw(slot, how);
  const have = row(slot).outputs + 1;
  row(slot).outputs = have;
  if (prefixCaching) extendHash(slot, row(slot), token);
  let outFlags = endOf(slot, how, token, have);
  if (asyncScheduling && !isStale && row(slot).placeholders > 0) {
    row(slot).placeholders = row(slot).placeholders - 1;
    if (row(slot).status === Status.Running && prefixCaching)
      storeBlocks(slot, row(slot).computed - row(slot).inFlight);
  }
  if (have === 1) {
    outFlags |= OUT_FIRST;
    countFirst(slot, now);
  } else {
    countGap(now - row(slot).lastTokenUs);
  }
  row(slot).lastTokenUs = now;
  if (preemptions[slot] !== preemptionsTold[slot]) tellPreemptions(slot);
  if (how !== 0 && (how & SUBMIT_FED) !== 0 && fed[slot] - have === FEED_HALF) outFlags |= OUT_FEED;
  emit(slot, token, outFlags);
  const reason = (outFlags & 7) - 1;
  if (reason >= 0) {
    countEnd(slot, <Reason>reason, have, now);
    release(slot);
    ended = true;
  } else row(slot).calm = calmOutputs(slot);
}

/** The next id; before `min_tokens` no id that would end the request (the real engine masks their logits). */
function draw(slot: i32, how: i32): i32 {
  const position = row(slot).outputs;
  if (row(slot).eosAt === position + 1) return eosId;
  if (how === 0) return drawToken(row(slot).seed, position);
  if ((how & SUBMIT_UNREAD) !== 0) return NONE;
  if ((how & SUBMIT_FED) !== 0) {
    assert(position < fed[slot], "a fed request ran dry");
    return fedToken(slot);
  }
  let token = drawToken(row(slot).seed, position);
  if ((how & SUBMIT_STOPS) !== 0 && position < row(slot).minTokens) {
    for (let attempt = 1; isStopId(slot, token); attempt++) token = redrawToken(row(slot).seed, position, attempt);
  }
  return token;
}

/** Reason plus one, and OUT_STOP_ID; 0 while it goes on. Order of checks as vLLM's `check_stop`. */
function endOf(slot: i32, how: i32, token: i32, have: i32): i32 {
  if (token === eosId && (how & SUBMIT_IGNORE_EOS) === 0 && have >= row(slot).minTokens) return Reason.Stop + 1;
  if ((how & SUBMIT_STOPS) !== 0 && have >= row(slot).minTokens && isStopId(slot, token)) {
    return (Reason.Stop + 1) | OUT_STOP_ID;
  }
  return have >= row(slot).lastOutput ? Reason.Length + 1 : 0;
}

/** vLLM's front end hears of preemptions with the request's next output. */
function tellPreemptions(slot: i32): void {
  count(Total.PreemptionsTold, <f64>(preemptions[slot] - preemptionsTold[slot]));
  preemptionsTold[slot] = preemptions[slot];
}

/** One more time between two tokens. */
function countGap(us: f64): void {
  if (us !== gapUs) {
    if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
    gaps = 0;
    gapUs = us;
  }
  gaps += 1;
}

function isStopId(slot: i32, token: i32): bool {
  let page = stopPage[slot];
  const stops = stopCount[slot];
  for (let i = 0; i < stops; i++) {
    if (i > 0 && (i & (PAGE_BLOCKS - 1)) === 0) page = nextDetached(page);
    if (detachedWord(page, i & (PAGE_BLOCKS - 1)) === token) return true;
  }
  return false;
}

/** The open block takes one more token; a full one gets its hash. */
function extendHash(slot: i32, r: Row, token: i32): void {
  let hash = token === NONE ? r.openHash : fold(r.openHash, token);
  const left = r.openLeft - 1;
  if (left === 0) {
    hash = seal(hash);
    appendHash(slot, hash);
    r.openLeft = blockSize;
  } else r.openLeft = left;
  r.openHash = hash;
}

/** Prefill statistics of a request, with its first token. */
function countFirst(slot: i32, now: f64): void {
  const tokens = row(slot).prompt;
  const hit = cachedPrompt[slot] - 1;
  createdPrompt[slot] = max(0, min(row(slot).cachedCount * blockSize, tokens) - hit);
  firstTokenUs[slot] = now;
  observe(Histogram.TimeToFirstToken, now - arrivalUs[slot]);
  count(Total.PromptTokens, <f64>tokens);
  count(Total.PromptTokensCached, <f64>hit);
  promptComputed += <f64>(tokens - hit);
}
