// What came out of the oldest open step? vLLM 0.33 `v1/core/sched/scheduler.py`, update_from_output, and
// `async_scheduler.py`: tokens are drawn, ends found in vLLM's order, the outbox is filled, statistics move.
import { drawToken, fedToken, redrawToken } from "../answers";
import { appendHash, cachedCount, detachedWord, nextDetached } from "../arena";
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
  PAGE_BLOCKS,
  Reason,
  ROW_SAMPLES,
  Status,
  SUBMIT_FED,
  SUBMIT_IGNORE_EOS,
  SUBMIT_STOPS,
  Total,
} from "../layout";
import { clearOutbox, emit, lose, outboxRows, sealOutbox } from "../outbox";
import { pruneRunning } from "../queues";
import {
  arrivalUs,
  cachedPrompt,
  computed,
  createdPrompt,
  dropStale,
  eosAt,
  fed,
  firstTokenUs,
  flags,
  inFlight,
  lastOutput,
  lastTokenUs,
  minTokens,
  openHash,
  openLeft,
  outputs,
  placeholders,
  prompt,
  seed,
  slotOf,
  stale,
  status,
  stopCount,
  stopPage,
} from "../slots";
import { closeStep, firstRow, rowFlags, rowHandle, rowsOf, rowTokens } from "../steps";
import { store } from "./allocate";
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
  for (let at = from; at < to; at++) takeRow(rowHandle[at], rowTokens[at], (rowFlags[at] & ROW_SAMPLES) !== 0, now);
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

function takeRow(handle: i32, n: i32, samples: bool, now: f64): void {
  const slot = slotOf(handle);
  if (slot === NONE) {
    if (samples) lose(handle);
    return;
  }
  inFlight[slot] = inFlight[slot] - n;
  const isStale = stale[slot] > 0;
  if (isStale) stale[slot] = stale[slot] - n;
  if (!samples) return;
  if (isStale && dropStale[slot] !== 0) {
    lose(handle);
    return;
  }
  const how = flags[slot];
  const token = draw(slot, how);
  const have = outputs[slot] + 1;
  outputs[slot] = have;
  if (prefixCaching) extendHash(slot, token);
  let outFlags = endOf(slot, how, token, have);
  if (asyncScheduling && !isStale && placeholders[slot] > 0) {
    placeholders[slot] = placeholders[slot] - 1;
    if (status[slot] === Status.Running && prefixCaching) store(slot, computed[slot] - inFlight[slot]);
  }
  if (have === 1) {
    outFlags |= OUT_FIRST;
    countFirst(slot, now);
  } else {
    countGap(now - lastTokenUs[slot]);
  }
  lastTokenUs[slot] = now;
  if (how !== 0 && (how & SUBMIT_FED) !== 0 && fed[slot] - have === FEED_HALF) outFlags |= OUT_FEED;
  emit(slot, token, outFlags);
  const reason = (outFlags & 7) - 1;
  if (reason >= 0) {
    countEnd(slot, <Reason>reason, have, now);
    release(slot);
    ended = true;
  }
}

/** The next id; before `min_tokens` no id that would end the request (the real engine masks their logits). */
function draw(slot: i32, how: i32): i32 {
  const position = outputs[slot];
  if (eosAt[slot] === position + 1) return eosId;
  if (how === 0) return drawToken(seed[slot], position);
  if ((how & SUBMIT_FED) !== 0) {
    assert(position < fed[slot], "a fed request ran dry");
    return fedToken(slot);
  }
  let token = drawToken(seed[slot], position);
  if ((how & SUBMIT_STOPS) !== 0 && position < minTokens[slot]) {
    for (let attempt = 1; isStopId(slot, token); attempt++) token = redrawToken(seed[slot], position, attempt);
  }
  return token;
}

/** Reason plus one, and OUT_STOP_ID; 0 while it goes on. Order of checks as vLLM's `check_stop`. */
function endOf(slot: i32, how: i32, token: i32, have: i32): i32 {
  if (token === eosId && (how & SUBMIT_IGNORE_EOS) === 0 && have >= minTokens[slot]) return Reason.Stop + 1;
  if ((how & SUBMIT_STOPS) !== 0 && have >= minTokens[slot] && isStopId(slot, token)) {
    return (Reason.Stop + 1) | OUT_STOP_ID;
  }
  return have >= lastOutput[slot] ? Reason.Length + 1 : 0;
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
function extendHash(slot: i32, token: i32): void {
  let hash = fold(openHash[slot], token);
  const left = openLeft[slot] - 1;
  if (left === 0) {
    hash = seal(hash);
    appendHash(slot, hash);
    openLeft[slot] = blockSize;
  } else openLeft[slot] = left;
  openHash[slot] = hash;
}

/** Prefill statistics of a request, with its first token. */
function countFirst(slot: i32, now: f64): void {
  const tokens = prompt[slot];
  const hit = cachedPrompt[slot] - 1;
  createdPrompt[slot] = max(0, min(cachedCount[slot] * blockSize, tokens) - hit);
  firstTokenUs[slot] = now;
  observe(Histogram.TimeToFirstToken, now - arrivalUs[slot]);
  count(Total.PromptTokens, <f64>tokens);
  count(Total.PromptTokensCached, <f64>hit);
  promptComputed += <f64>(tokens - hit);
}
