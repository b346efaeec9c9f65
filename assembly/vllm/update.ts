// What came out of the oldest open step? vLLM 0.33 `v1/core/sched/scheduler.py`, update_from_output, and
// `async_scheduler.py`: tokens are drawn, ends found in vLLM's order, the outbox is filled, statistics move.
import { drawNext, fedToken, redrawToken } from "../answers";
import { appendHash, detachedWord, entryBlock, nextDetached } from "../arena";
import { expectCached, expectNext } from "../blocks";
import { asyncScheduling, blockSize, eosId, prefixCaching } from "../config";
import { fetchSoon } from "../fetch";
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
  preemptionsTold,
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
  for (let at = from; at < to; ) {
    if (isCalm(row(rowHandle[at] & (SLOTS - 1)))) at = takeCalm(at, to, now);
    else {
      takeRow(rowHandle[at], rowTokens[at], (rowFlags[at] & ROW_SAMPLES) !== 0, now);
      at++;
    }
  }
  if (gaps > 0) observeMany(Histogram.InterTokenLatency, gapUs, gaps);
  if (ended) pruneRunning();
  expectNext();
  fetchSoon();
  const emitted = outboxRows();
  if (emitted > 0) {
    count(Total.GenerationTokens, <f64>outboxTokens());
    observe(Histogram.IterationTokens, promptComputed + <f64>outboxTokens());
  }
  sealOutbox();
  return emitted;
}

/**
 * Takes in a run of rows that are one plain token each, as long after their last one, which is nearly all of them; the
 * index of the first that is more. It does what `takeRow` does: `calmUntil` says how far nothing else can happen. The first
 * row is calm.
 */
function takeCalm(from: i32, to: i32, now: f64): i32 {
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

function takeRow(handle: i32, n: i32, samples: bool, now: f64): void {
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
  const how = r.flags;
  const before = r.outputs;
  let have = before;
  let outFlags = 0;
  for (let more = true; more && outFlags === 0; ) {
    let token = draw(slot, r);
    more = token < NONE;
    if (more) token ^= FED_MORE;
    r.outputs = ++have;
    if (prefixCaching) extendHash(slot, r, token);
    outFlags = endOf(slot, how, token, have);
    putToken(token);
  }
  // More than the next plan reckons with: it has to look.
  if (have - before > 1) r.quietUntil = 0;
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
  if (preemptions[slot] !== preemptionsTold[slot]) tellPreemptions(slot);
  if (how !== 0 && (how & SUBMIT_FED) !== 0 && fed[slot] - before > FEED_HALF && fed[slot] - have <= FEED_HALF) {
    outFlags |= OUT_FEED;
  }
  emit(slot, have - before, outFlags);
  const reason = (outFlags & 7) - 1;
  if (reason >= 0) {
    countEnd(slot, <Reason>reason, have, now);
    release(slot);
    ended = true;
  } else r.calmUntil = calmUntil(r);
}

/**
 * The next id; before `min_tokens` no id that would end the request (the real engine masks their logits). FED_MORE marks
 * an id of a script that another of the same step follows.
 */
export function draw(slot: i32, r: Row): i32 {
  const position = r.outputs;
  const how = r.flags;
  if (r.eosAt === position + 1) return eosId;
  if ((how & SUBMIT_UNREAD) !== 0) return NONE;
  if ((how & SUBMIT_FED) !== 0) {
    assert(position < fed[slot], "a fed request ran dry");
    return fedToken(slot);
  }
  let token = drawNext(r, position);
  if ((how & SUBMIT_STOPS) !== 0 && position < r.minTokens) {
    for (let attempt = 1; isStopId(slot, token); attempt++) token = redrawToken(r.seed, position, attempt);
  }
  return token;
}

/** Reason plus one, and OUT_STOP_ID; 0 while it goes on. Order of checks as vLLM's `check_stop`. */
export function endOf(slot: i32, how: i32, token: i32, have: i32): i32 {
  if (token === eosId && (how & SUBMIT_IGNORE_EOS) === 0 && have >= row(slot).minTokens) return Reason.Stop + 1;
  if ((how & SUBMIT_STOPS) !== 0 && have >= row(slot).minTokens && isStopId(slot, token)) {
    return (Reason.Stop + 1) | OUT_STOP_ID;
  }
  return have >= row(slot).lastOutput ? Reason.Length + 1 : 0;
}

/** vLLM's front end hears of preemptions with the request's next output. */
export function tellPreemptions(slot: i32): void {
  count(Total.PreemptionsTold, <f64>(preemptions[slot] - preemptionsTold[slot]));
  preemptionsTold[slot] = preemptions[slot];
}

/** `times` more times between two tokens. */
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

/** The open block has taken one more token; a full one gets its hash. */
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

/** For another policy's update, as this one begins and ends: no gaps and prompts yet, and what was counted of them. */
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
