// Processes the oldest open iteration at its end: draws tokens, ends requests, frees their blocks and makes prompts
// reusable (`_torch/pyexecutor/py_executor.py`; with overlap, one iteration later than without).
import { drawNext } from "../answers";
import { asyncScheduling, blockSize, prefixCaching } from "../config";
import { fold } from "../hashing";
import { count } from "../header";
import { observe } from "../histogram";
import {
  FED_MORE,
  FEED_HALF,
  Histogram,
  NONE,
  OUT_FEED,
  OUT_FIRST,
  OUT_REASON,
  OUT_WORDS,
  Reason,
  RING,
  ROW_SAMPLES,
  SLOTS,
  SUBMIT_FED,
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
import { pruneRunning, running, runningLength } from "../queues";
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
} from "../slots";
import { closeStep, firstRow, rowFlags, rowHandle, rowsOf } from "../steps";
import { countEnd } from "../vllm/end";
import {
  beginCounts,
  countComputed,
  countGaps,
  countPreemptions,
  draw,
  endOf,
  extendHash,
  isCalm,
  observeGaps,
  observeTokens,
} from "../vllm/update";
import { applyClosed, release } from "./end";
import { reads, storeFull } from "./kv";
import { State } from "./layout";
import { line, setState } from "./line";
import { resumePrompts } from "./pause";
import { refreshBlocks } from "./pool";
import { contextRows, rowEnd } from "./schedule";
import { keepToken } from "./tokens";

let ended = false;

/** Processes the oldest open step, which ended at `now`. Returns the number of outbox rows. */
export function update(now: f64): i32 {
  refreshBlocks(now);
  applyClosed();
  const step = closeStep();
  clearOutbox();
  beginCounts();
  ended = false;
  const from = firstRow(step);
  const to = from + rowsOf(step);
  for (let at = from; at < to; ) {
    if (isCalm(row(rowHandle[at] & (SLOTS - 1)))) at = handleCalmRows(at, to, now);
    else {
      if ((rowFlags[at] & ROW_SAMPLES) !== 0) handleRow(rowHandle[at], now);
      at++;
    }
  }
  observeGaps();
  resumePrompts();
  if (!asyncScheduling) showPrompts(step);
  if (ended) releaseEnded();
  if (asyncScheduling) showPrompts(step);
  const emitted = outboxRows();
  if (emitted > 0) observeTokens();
  sealOutbox();
  return emitted;
}

/** Stores the full blocks of the prompts that the step computed, so that other requests can reuse them. Rows of contexts come first. */
function showPrompts(step: i32): void {
  if (!prefixCaching) return;
  const from = firstRow(step);
  const to = from + contextRows[step & (RING - 1)];
  for (let at = from; at < to; at++) {
    const slot = slotOf(rowHandle[at]);
    if (slot !== NONE && line(slot).started) storeFull(slot, min(rowEnd[at], line(slot).context - 1));
  }
}

/** Releases the requests that ended, in the order of the active list. */
function releaseEnded(): void {
  for (let i = 0, active = runningLength(); i < active; i++) {
    if (line(running[i]).state === State.GenerationComplete) release(running[i]);
  }
  pruneRunning();
}

/**
 * Handles consecutive rows that receive one ordinary token each, like vLLM's `handleCalmRows`. Also updates the row's
 * TensorRT-LLM state.
 */
function handleCalmRows(from: i32, to: i32, now: f64): i32 {
  const handles = rowHandle;
  const silent = muted;
  const lastUs = row(handles[from] & (SLOTS - 1)).lastTokenUs;
  let outAt = outboxRowsEnd();
  let tokenAt = outboxTokensEnd();
  let out = (<u64>outboxTokens()) << 32;
  let at = from;
  for (; at < to; at++) {
    const slot = handles[at] & (SLOTS - 1);
    const r = row(slot);
    const position = r.outputs;
    if (!isCalm(r) || r.lastTokenUs !== lastUs) break;
    const l = line(slot);
    let token = NONE;
    if ((r.flags & SUBMIT_UNREAD) === 0) {
      token = drawNext(r, position);
      if (prefixCaching) r.openHash = fold(r.openHash, token);
      keepToken(slot, l, token);
    }
    l.land();
    r.outputs = position + 1;
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

/** Returns the number of outputs up to which each output is one plain token. */
function calmUntil(r: Row): i32 {
  if ((r.flags & (SUBMIT_FED | SUBMIT_STOPS)) !== 0) return 0;
  const until = (r.eosAt > 0 ? min(r.eosAt, r.lastOutput) : r.lastOutput) - 1;
  return prefixCaching ? min(until, r.fullAt - 1) : until;
}

function handleRow(handle: i32, now: f64): void {
  const slot = slotOf(handle);
  if (slot === NONE) {
    lose(handle);
    return;
  }
  const r = row(slot);
  const l = line(slot);
  const before = r.outputs;
  l.flight--;
  // The pause cut this token off the prompt, so it is generated again. The client has it already and must not get it
  // twice.
  if (l.length < r.prompt + before) {
    l.length++;
    lose(handle);
    return;
  }
  const flags = r.flags;
  let outputs = before;
  let outFlags = 0;
  for (let more = true; more && outFlags === 0; ) {
    let token = draw(slot, r);
    more = token < NONE;
    if (more) token ^= FED_MORE;
    r.outputs = ++outputs;
    if (prefixCaching) extendHash(slot, r, token);
    keepToken(slot, l, token);
    outFlags = endOf(slot, flags, token, outputs);
    putToken(token);
  }
  l.length += outputs - before;
  if (before === 0) {
    outFlags |= OUT_FIRST;
    countFirst(slot, now);
  } else countGaps(now - r.lastTokenUs, 1);
  r.lastTokenUs = now;
  if (preemptions[slot] !== preemptionsReported[slot]) countPreemptions(slot);
  if ((flags & SUBMIT_FED) !== 0 && fed[slot] - before > FEED_HALF && fed[slot] - outputs <= FEED_HALF)
    outFlags |= OUT_FEED;
  emit(slot, outputs - before, outFlags);
  const reason = (outFlags & OUT_REASON) - 1;
  if (reason < 0) {
    r.calmUntil = calmUntil(r);
    return;
  }
  countEnd(slot, <Reason>reason, outputs, now);
  setState(l, State.GenerationComplete);
  ended = true;
}

/** Counts a request's prefill statistics at its first token. */
function countFirst(slot: i32, now: f64): void {
  const tokens = row(slot).prompt;
  const hit = cachedPrompt[slot] - 1;
  createdPrompt[slot] = reads(slot) ? max(0, tokens - 1 - ((tokens - 1) % blockSize) - hit) : 0;
  firstTokenUs[slot] = now;
  observe(Histogram.TimeToFirstToken, now - arrivalUs[slot]);
  count(Total.PromptTokens, <f64>tokens);
  count(Total.PromptTokensCached, <f64>hit);
  countComputed(tokens - hit);
}
