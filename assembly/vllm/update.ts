// Processes the oldest open step at its end: draws tokens, ends requests in vLLM's order of checks, fills the outbox
// and updates statistics. Source: update_from_output of vLLM 0.33 (`v1/core/sched/scheduler.py`, `async_scheduler.py`).
import { drawNext, fedToken, redrawToken } from "../answers";
import { appendHash, detachedWord, entryBlock, nextDetached } from "../arena";
import { expectCached, expectNext } from "../blocks";
import { asyncScheduling, blockSize, eosId, prefixCaching } from "../config";
import { runPrefetches } from "../fetch";
import { fold, seal } from "../hashing";
import { count } from "../header";
import { observe, observeMany } from "../histogram";
import {
  FED_MORE,
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
  muted,
  outboxRows,
  outboxRowsEnd,
  outboxTokens,
  outboxTokensEnd,
  putToken,
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
  preemptionsReported,
  Row,
  row,
  slotOf,
  stopCount,
  stopPage,
} from "../slots";
import { closeStep, firstRow, rowFlags, rowHandle, rowsOf, rowTokens } from "../steps";
import { enterFull } from "./allocate";
import { applyClosed, countEnd, release } from "./end";
import { calmUntil } from "./plain";

/** Prompt tokens computed for the requests whose first token came in this step. */
let promptComputed: f64 = 0;
let ended = false;
/**
 * Inter-token time of the last rows and how many rows had it. Nearly all rows of a step have the same, so it is
 * observed once per run of equal values.
 */
let gapUs: f64 = 0;
let gaps: f64 = 0;

/** Processes the oldest open step, which ended at `now`. Returns the number of outbox rows. */
export function update(now: f64): i32 {
  applyClosed();
  const step = closeStep();
  clearOutbox();
  promptComputed = 0;
  ended = false;
  gaps = 0;
  const from = firstRow(step);
  const to = from + rowsOf(step);
  for (let at = from; at < to; ) {
    if (isCalm(row(rowHandle[at] & (SLOTS - 1)))) at = handleCalmRows(at, to, now);
    else {
      handleRow(rowHandle[at], rowTokens[at], (rowFlags[at] & ROW_SAMPLES) !== 0, now);
      at++;
    }
  }
  if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
  if (ended) pruneRunning();
  expectNext();
  runPrefetches();
  const emitted = outboxRows();
  if (emitted > 0) {
    count(Total.GenerationTokens, <f64>outboxTokens());
    observe(Histogram.IterationTokens, promptComputed + <f64>outboxTokens());
  }
  sealOutbox();
  return emitted;
}

/**
 * Handles a run of rows that are one plain token each and have the same time since their last token, usually nearly all
 * rows. Does the same as `handleRow`, because `calmUntil` excludes everything else. The row at `from` is calm. Returns
 * the index of the first row that needs more.
 */
function handleCalmRows(from: i32, to: i32, now: f64): i32 {
  const handles = rowHandle;
  const silent = muted;
  const lastUs = row(handles[from] & (SLOTS - 1)).lastTokenUs;
  const move: i64 = -(1 | ((<i64>asyncScheduling) << 32));
  let outAt = outboxRowsEnd();
  let tokenAt = outboxTokensEnd();
  let out = (<u64>outboxTokens()) << 32;
  let at = from;
  for (; at < to; at++) {
    const slot = handles[at] & (SLOTS - 1);
    const r = row(slot);
    const position = r.outputs;
    if (!isCalm(r) || r.lastTokenUs !== lastUs) break;
    let token = NONE;
    if ((r.flags & SUBMIT_UNREAD) === 0) {
      token = drawNext(r, position);
      if (prefixCaching) r.openHash = fold(r.openHash, token);
    }
    r.outputs = position + 1;
    r.moveInFlight(move);
    r.lastTokenUs = now;
    if (silent) continue;
    store<u64>(outAt, out | <u64>slot);
    store<u64>(outAt, 1, 8);
    store<i32>(tokenAt, token);
    outAt += OUT_WORDS << 2;
    tokenAt += 4;
    out += (<u64>1) << 32;
  }
  countGaps(now - lastUs, <f64>(at - from));
  advanceOutbox(at - from);
  return at;
}

export function isCalm(r: Row): bool {
  return r.outputs < r.calmUntil;
}

function handleRow(handle: i32, n: i32, samples: bool, now: f64): void {
  const slot = slotOf(handle);
  if (slot === NONE) {
    if (samples) lose(handle);
    return;
  }
  const r = row(slot);
  r.inFlight = r.inFlight - n;
  const isStale = r.stale > 0;
  if (isStale) r.stale = r.stale - n;
  if (!samples) return;
  if (isStale && r.dropStale !== 0) {
    lose(handle);
    return;
  }
  const flags = r.flags;
  const before = r.outputs;
  let outputs = before;
  let outFlags = 0;
  for (let more = true; more && outFlags === 0; ) {
    let token = draw(slot, r);
    more = token < NONE;
    if (more) token ^= FED_MORE;
    r.outputs = ++outputs;
    if (prefixCaching) extendHash(slot, r, token);
    outFlags = endOf(slot, flags, token, outputs);
    putToken(token);
  }
  // The fast path assumes that a step brings one token. Here more came, so the next plan must not take it.
  if (outputs - before > 1) r.quietUntil = 0;
  if (asyncScheduling && !isStale && r.placeholders > 0) {
    r.placeholders = r.placeholders - 1;
    if (r.status === Status.Running && prefixCaching) enterFull(slot, r.computed - r.inFlight);
  }
  if (before === 0) {
    outFlags |= OUT_FIRST;
    countFirst(slot, now);
  } else {
    countGaps(now - r.lastTokenUs, 1);
  }
  r.lastTokenUs = now;
  if (preemptions[slot] !== preemptionsReported[slot]) countPreemptions(slot);
  if (flags !== 0 && (flags & SUBMIT_FED) !== 0 && fed[slot] - before > FEED_HALF && fed[slot] - outputs <= FEED_HALF) {
    outFlags |= OUT_FEED;
  }
  emit(slot, outputs - before, outFlags);
  const reason = (outFlags & 7) - 1;
  if (reason >= 0) {
    countEnd(slot, <Reason>reason, outputs, now);
    release(slot);
    ended = true;
  } else r.calmUntil = calmUntil(r);
}

/**
 * Returns the next id. Before `min_tokens`, never returns an id that would end the request (the real engine masks their
 * logits). A script's id has FED_MORE set if another id of the same step follows.
 */
export function draw(slot: i32, r: Row): i32 {
  const position = r.outputs;
  const flags = r.flags;
  if (r.eosAt === position + 1) return eosId;
  if ((flags & SUBMIT_UNREAD) !== 0) return NONE;
  if ((flags & SUBMIT_FED) !== 0) {
    assert(position < fed[slot], "a fed request ran dry");
    return fedToken(slot);
  }
  let token = drawNext(r, position);
  if ((flags & SUBMIT_STOPS) !== 0 && position < r.minTokens) {
    for (let attempt = 1; isStopId(slot, token); attempt++) token = redrawToken(r.seed, position, attempt);
  }
  return token;
}

/**
 * Returns the finish reason plus one, with OUT_STOP_ID if a stop id ended the request. Returns 0 if the request
 * continues. Checks in the order of vLLM's `check_stop`.
 */
export function endOf(slot: i32, flags: i32, token: i32, outputs: i32): i32 {
  if (token === eosId && (flags & SUBMIT_IGNORE_EOS) === 0 && outputs >= row(slot).minTokens) return Reason.Stop + 1;
  if ((flags & SUBMIT_STOPS) !== 0 && outputs >= row(slot).minTokens && isStopId(slot, token)) {
    return (Reason.Stop + 1) | OUT_STOP_ID;
  }
  return outputs >= row(slot).lastOutput ? Reason.Length + 1 : 0;
}

/** Counts preemptions with the request's next output, when vLLM's front end learns of them. */
export function countPreemptions(slot: i32): void {
  count(Total.PreemptionsReported, <f64>(preemptions[slot] - preemptionsReported[slot]));
  preemptionsReported[slot] = preemptions[slot];
}

/** Counts `times` more intervals between two tokens. */
export function countGaps(us: f64, times: f64): void {
  if (us !== gapUs) {
    if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
    gaps = 0;
    gapUs = us;
  }
  gaps += times;
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

/** Adds a token to the hash of the open block. A block that becomes full gets its final hash. */
export function extendHash(slot: i32, r: Row, token: i32): void {
  let hash = token === NONE ? r.openHash : fold(r.openHash, token);
  if (r.outputs === r.fullAt) {
    hash = seal(hash);
    const at = appendHash(slot, hash);
    if (r.hashCount <= r.tableCount) expectCached(entryBlock(at), hash);
    r.fullAt = r.fullAt + blockSize;
  }
  r.openHash = hash;
}

/** Counts a request's prefill statistics at its first token. */
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

/** For the `update` of TensorRT-LLM's policies: the start and the end of this file's `update`, as single calls. */
export function beginCounts(): void {
  promptComputed = 0;
  gaps = 0;
}
export function countComputed(tokens: i32): void {
  promptComputed += <f64>tokens;
}
export function observeGaps(): void {
  if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
}
export function observeTokens(): void {
  count(Total.GenerationTokens, <f64>outboxTokens());
  observe(Histogram.IterationTokens, promptComputed + <f64>outboxTokens());
}
