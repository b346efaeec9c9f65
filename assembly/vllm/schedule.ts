// What does the next step compute? vLLM 0.33 `v1/core/sched/scheduler.py`, schedule(): first those that run, in order of
// admission, then those that wait; preemption by recompute when blocks run out. This file is the whole control flow.

import { adaptersMoved, lacksAdapter, moveAdapter, noteAdapters } from "../adapters";
import { noteFree } from "../blocks";
import { column } from "../column";
import {
  asyncScheduling,
  blockSize,
  chunkedPrefill,
  longPrefillAdaptive,
  longPrefillTokenThreshold,
  maxModelLen,
  maxNumActiveSeqs,
  maxNumBatchedTokens,
  maxNumScheduledTokens,
  prefillScheduleInterval,
  prefixCaching,
  priorityPolicy,
} from "../config";
import { count, setWord } from "../header";
import {
  NONE,
  Pause,
  ROW_SAMPLES,
  SLOT_BITS,
  Status,
  SUBMIT_BLOCKED,
  SUBMIT_ELSEWHERE,
  SUBMIT_SKIP_READING,
  Total,
  Word,
} from "../layout";
import { strayed } from "../noise";
import {
  afterWaiting,
  deferredLength,
  firstWaiting,
  prependWaiting,
  pushRunning,
  recallAdapters,
  removeRunningAt,
  removeWaiting,
  running,
  runningLength,
  setAside,
  setDeferred,
  waitingLength,
} from "../queues";
import { arrivalUs, cachedPrompt, handleOf, preemptions, priority, Row, row, scheduledUs, tokensOf } from "../slots";
import {
  endedUnreported,
  noteRefused,
  noteUndone,
  openStep,
  openSteps,
  rowFlags,
  rowHandle,
  rowTokens,
  sealPlan,
} from "../steps";
import { addDecodes, addPrefill, clearSums, publishSums, stepUs } from "../timing";
import { admit, grow, lookUp } from "./allocate";
import { preempt } from "./end";
import { quietUntil } from "./plain";

const NEVER: f64 = -1;

let pauseState: i32 = Pause.Unpaused;
let budget: i32 = 0;
/** First row of the step in the ring, rows so far. */
let base: i32 = 0;
let rows: i32 = 0;
let preemptedNow: i32 = 0;
let prefills = false;
/** Executed steps, the last one that carried prefill, and whether the last full scan left somebody waiting. */
let executed: f64 = 0;
let lastPrefill: f64 = NEVER;
let capacityBound = false;
/** Requests that this scan skipped (priority policy). */
let skipped = changetype<StaticArray<i32>>(0);

export function takeScheduler(slots: i32): void {
  skipped = column(slots);
}
export function initScheduler(): void {
  lastPrefill = -(<f64>prefillScheduleInterval);
}

export function setPause(state: i32): void {
  pauseState = state;
  setWord(Word.PauseState, state);
}

/** Is there anything to schedule or to report? `get_num_unfinished_requests` and `has_finished_requests`. */
export function hasWork(): bool {
  return unfinished() > 0 || endedUnreported() > 0;
}
export function unfinished(): i32 {
  if (pauseState === Pause.PausedAll) return 0;
  if (pauseState === Pause.PausedNew) return runningLength();
  return runningLength() + waitingLength();
}

/** Plans one step at `now` and gives its duration in microseconds. The plan stands in the words and columns of layout.ts. */
export function schedule(now: f64): f64 {
  base = openStep();
  rows = 0;
  preemptedNow = 0;
  prefills = false;
  clearSums();
  budget = pauseState === Pause.PausedAll ? 0 : maxNumScheduledTokens;

  const candidates = runningLength() + waitingLength();
  let threshold = candidates > 1 ? longPrefillTokenThreshold : 0;
  if (threshold > 0 && longPrefillAdaptive) threshold = max(threshold, maxNumBatchedTokens / candidates);
  const deferPrefills = prefillScheduleInterval > 1 && defersPrefills();

  planRunning(threshold, deferPrefills);
  const admitted = rows;
  if (preemptedNow === 0 && pauseState !== Pause.PausedAll) {
    admitWaiting(now, threshold, deferPrefills);
    if (!deferPrefills) capacityBound = waitingLength() > deferredLength();
  }
  if (rows > 0) executed += 1;
  if (prefillScheduleInterval > 1 && prefills) lastPrefill = executed;
  sealPlan(rows, admitted);
  publishSums();
  setWord(Word.PlanRequests, runningLength() + waitingLength());
  noteFree();
  count(Total.Steps, 1);
  if (rows > 0) return strayed(stepUs(), now);
  return openSteps() === 1 && unfinished() > 0 ? 1000 : 0;
}

/** `prefill_schedule_interval`: are prefills held in this step? */
function defersPrefills(): bool {
  if (capacityBound || executed + 1 - lastPrefill >= <f64>prefillScheduleInterval) return false;
  for (let i = 0; i < runningLength(); i++) if (row(running[i]).isChunk === 0) return true;
  return false;
}

function planRunning(threshold: i32, deferPrefills: bool): void {
  let i = 0;
  while (i < runningLength() && budget > 0) {
    const slot = running[i];
    if (isQuiet(row(slot))) {
      i = planQuiet(i);
      continue;
    }
    const held = row(slot).placeholders;
    const done = row(slot).computed;
    // Asynchronous: the step in flight reaches max_tokens, one more would be wasted.
    if (held > 0 && done + 2 - held >= row(slot).prompt + row(slot).maxTokens) {
      i++;
      continue;
    }
    if (deferPrefills && row(slot).isChunk !== 0) {
      i++;
      continue;
    }
    let n = tokensOf(slot) + row(slot).drafts + held - done;
    if (threshold > 0 && threshold < n) n = threshold;
    n = min(min(n, budget), maxModelLen - done - 1);
    if (n <= 0) {
      i++;
      continue;
    }
    let taken = grow(slot, n, done);
    while (taken === NONE) {
      noteRefused(handleOf(slot));
      const at = victimIndex();
      const victim = running[at];
      removeRunningAt(at);
      if (at < i) {
        i--;
        undo(victim);
      }
      preempt(victim, false);
      preemptedNow++;
      if (victim === slot) break;
      taken = grow(slot, n, done);
    }
    if (taken === NONE) {
      if (priorityPolicy) continue;
      break;
    }
    if (row(slot).isChunk !== 0) prefills = true;
    plan(slot, n, done, taken);
    i++;
  }
}

/**
 * Plans a run of requests that decode and need nothing but the next position, which is nearly all of them nearly always;
 * the index of the first that needs more. It decides as the long way does: `quietUntil` says how far. The first is quiet.
 */
function planQuiet(from: i32): i32 {
  const end = min(runningLength(), from + budget);
  const ids = running;
  const move: i64 = 1 | ((<i64>asyncScheduling) << 32);
  const first = (<usize>(base + rows)) << 2;
  let handleAt = changetype<usize>(rowHandle) + first;
  let tokensAt = changetype<usize>(rowTokens) + first;
  let flagsAt = changetype<usize>(rowFlags) + first;
  let attended: i64 = 0;
  let i = from;
  for (; i < end; i++) {
    const slot = ids[i];
    const r = row(slot);
    if (!isQuiet(r)) break;
    const done = r.computed;
    r.computed = done + 1;
    r.moveInFlight(move);
    attended += done;
    store<i32>(handleAt, (r.generation << SLOT_BITS) | slot);
    store<i32>(tokensAt, 1);
    store<i32>(flagsAt, ROW_SAMPLES);
    handleAt += 4;
    tokensAt += 4;
    flagsAt += 4;
  }
  const planned = i - from;
  rows += planned;
  budget -= planned;
  addDecodes(planned, <f64>(attended + planned));
  return i;
}

/** Asynchronous: with nothing in flight a block may be full whose content is known, and is entered now. */
function isQuiet(r: Row): bool {
  return r.computed < r.quietUntil && (!asyncScheduling || r.inFlight > 0);
}

/** Who loses its blocks: the last one (fcfs), or the first of those with the largest (priority, arrival). */
function victimIndex(): i32 {
  const length = runningLength();
  if (!priorityPolicy) return length - 1;
  let worst = 0;
  for (let i = 1; i < length; i++) {
    const slot = running[i];
    const other = running[worst];
    if (
      priority[slot] > priority[other] ||
      (priority[slot] === priority[other] && arrivalUs[slot] > arrivalUs[other])
    ) {
      worst = i;
    }
  }
  return worst;
}

/** Takes a victim out of this very step, if it is in: its tokens return to the budget. */
function undo(slot: i32): void {
  const handle = handleOf(slot);
  let at = base;
  while (at < base + rows && rowHandle[at] !== handle) at++;
  if (at === base + rows) return;
  const n = rowTokens[at];
  budget += n;
  row(slot).inFlight = row(slot).inFlight - n;
  cost(slot, n, row(slot).computed - n, -1);
  rows--;
  for (; at < base + rows; at++) {
    rowHandle[at] = rowHandle[at + 1];
    rowTokens[at] = rowTokens[at + 1];
    rowFlags[at] = rowFlags[at + 1];
  }
  noteUndone(handle);
}

function admitWaiting(now: f64, threshold: i32, deferPrefills: bool): void {
  if (pauseState !== Pause.Unpaused) return;
  let skips = 0;
  if (priorityPolicy && adaptersMoved()) recallAdapters();
  noteAdapters();
  let slot = firstWaiting();
  while (slot !== NONE && budget > 0 && runningLength() < maxNumActiveSeqs) {
    if (mustSkip(slot)) {
      setDeferred(slot, 1);
      // A skipped request keeps its place: the linked queue is read past it, the heap gets it back: after the scan where
      // output is in flight, else when what it lacks may be there.
      if (!priorityPolicy) {
        slot = afterWaiting(slot);
        continue;
      }
      if (row(slot).stale > 0) {
        removeWaiting(slot);
        skipped[skips++] = slot;
      } else setAside(slot);
      slot = firstWaiting();
      continue;
    }
    const hits = lookUp(slot);
    const known = tokensOf(slot);
    const done = hits * blockSize;
    if (preemptions[slot] === 0) cachedPrompt[slot] = done + 1;
    if (deferPrefills && done < known - 1) break;
    let n = known - done;
    if (threshold > 0 && threshold < n) n = threshold;
    if (!chunkedPrefill && n > budget) break;
    n = min(n, budget);
    const taken = admit(slot, n, hits);
    if (taken === NONE) {
      noteRefused(handleOf(slot));
      break;
    }
    countLookUp(slot, known, done);
    const next = priorityPolicy ? NONE : afterWaiting(slot);
    removeWaiting(slot);
    setDeferred(slot, 0);
    pushRunning(slot);
    moveAdapter(slot, 1, -1);
    row(slot).status = Status.Running;
    if (preemptions[slot] === 0) scheduledUs[slot] = now;
    if (done < known - 1) prefills = true;
    plan(slot, n, done, taken);
    slot = priorityPolicy ? firstWaiting() : next;
  }
  while (skips > 0) prependWaiting(skipped[--skips]);
}

/** Not ready by itself, output still in flight that must be delivered first, or an adapter for which there is no room. */
function mustSkip(slot: i32): bool {
  if ((row(slot).flags & SUBMIT_BLOCKED) !== 0) return true;
  if (row(slot).stale > 0 && row(slot).dropStale === 0) return true;
  return lacksAdapter(slot);
}

/** Prefix statistics at admission; a resumed request counts apart. */
function countLookUp(slot: i32, known: i32, hit: i32): void {
  if (!prefixCaching || (row(slot).flags & SUBMIT_SKIP_READING) !== 0) return;
  const first = preemptions[slot] === 0;
  count(first ? Total.PrefixRequests : Total.PreemptedRequests, 1);
  count(first ? Total.PrefixQueries : Total.PreemptedQueries, <f64>known);
  count(first ? Total.PrefixHits : Total.PreemptedHits, <f64>hit);
}

/** Scheduled counts as computed from here on. */
function plan(slot: i32, n: i32, done: i32, taken: i32): void {
  const at = base + rows++;
  const held = row(slot).placeholders;
  const samples = done + n >= row(slot).prompt + row(slot).outputs + held;
  rowHandle[at] = handleOf(slot);
  rowTokens[at] = n;
  rowFlags[at] = (taken << 1) | <i32>samples;
  row(slot).computed = done + n;
  row(slot).inFlight = row(slot).inFlight + n;
  row(slot).isChunk = <i32>!samples;
  if (samples && asyncScheduling) row(slot).placeholders = held + 1;
  row(slot).quietUntil = samples && row(slot).drafts === 0 ? quietUntil(row(slot)) : 0;
  budget -= n;
  cost(slot, n, done, 1);
}

/** A decode is one token after the prompt; everything else, recomputation included, is prefill, and free where it is done elsewhere. */
function cost(slot: i32, n: i32, done: i32, sign: i32): void {
  if (n === 1 && done >= row(slot).prompt) addDecodes(sign, <f64>(sign * (done + 1)));
  else if ((row(slot).flags & SUBMIT_ELSEWHERE) === 0) addPrefill(n, done, <f64>sign);
}
