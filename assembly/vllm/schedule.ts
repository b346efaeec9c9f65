// Plans the next step: schedule() of vLLM 0.33 (`v1/core/sched/scheduler.py`). Running requests come first, in order of
// admission, then waiting requests. If blocks run out, requests are preempted and recompute later. This file has the
// whole control flow.

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
import { withNoise } from "../noise";
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
/** First row of the step in the ring, and its rows so far. */
let base: i32 = 0;
let rows: i32 = 0;
let preemptedNow: i32 = 0;
let prefills = false;
/** Executed steps, the last of them with prefill, and whether requests still waited after the last full scan of the queue. */
let executed: f64 = 0;
let lastPrefill: f64 = NEVER;
let capacityBound = false;
/** Requests that this scan skipped (priority policy). */
let skipped = changetype<StaticArray<i32>>(0);

export function allocateScheduler(slots: i32): void {
  skipped = column(slots);
}
export function initScheduler(): void {
  lastPrefill = -(<f64>prefillScheduleInterval);
}

export function setPause(state: i32): void {
  pauseState = state;
  setWord(Word.PauseState, state);
}

/** Returns true if a request is left to schedule or an end to report: `get_num_unfinished_requests` and `has_finished_requests`. */
export function hasWork(): bool {
  return unfinished() > 0 || endedUnreported() > 0;
}
export function unfinished(): i32 {
  if (pauseState === Pause.PausedAll) return 0;
  if (pauseState === Pause.PausedNew) return runningLength();
  return runningLength() + waitingLength();
}

/** Plans one step at `now` and returns its duration in microseconds. The plan is in the words and columns of layout.ts. */
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
  if (rows > 0) return withNoise(stepUs(), now);
  return openSteps() === 1 && unfinished() > 0 ? 1000 : 0;
}

/** Returns true if `prefill_schedule_interval` delays prefills in this step. */
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
    const placeholders = row(slot).placeholders;
    const computed = row(slot).computed;
    // Asynchronous scheduling: the step in flight reaches max_tokens, so another token would be wasted.
    if (placeholders > 0 && computed + 2 - placeholders >= row(slot).prompt + row(slot).maxTokens) {
      i++;
      continue;
    }
    if (deferPrefills && row(slot).isChunk !== 0) {
      i++;
      continue;
    }
    let n = tokensOf(slot) + row(slot).drafts + placeholders - computed;
    if (threshold > 0 && threshold < n) n = threshold;
    n = min(min(n, budget), maxModelLen - computed - 1);
    if (n <= 0) {
      i++;
      continue;
    }
    let newBlocks = grow(slot, n, computed);
    while (newBlocks === NONE) {
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
      newBlocks = grow(slot, n, computed);
    }
    if (newBlocks === NONE) {
      if (priorityPolicy) continue;
      break;
    }
    if (row(slot).isChunk !== 0) prefills = true;
    plan(slot, n, computed, newBlocks);
    i++;
  }
}

/**
 * Plans a run of requests that only need their next position, usually nearly all running requests. Decides the same as
 * the other path, because `quietUntil` limits it. The request at `from` is quiet. Returns the index of the first
 * request that needs more.
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
    const computed = r.computed;
    r.computed = computed + 1;
    r.moveInFlight(move);
    attended += computed;
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

/**
 * Returns true if the next plan of the request is one plain token. Asynchronous scheduling with nothing in flight is
 * not plain: a full block may have content that is known now and is entered in this plan.
 */
function isQuiet(r: Row): bool {
  return r.computed < r.quietUntil && (!asyncScheduling || r.inFlight > 0);
}

/** Picks the request to preempt: the last (fcfs), or the first of those with the largest (priority, arrival). */
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

/** Removes a preempted request from the step being planned, if it is in it, and returns its tokens to the budget. */
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
      // A skipped request keeps its position. In the linked queue, the scan just continues after it. In the heap, a
      // request with output in flight returns after the scan, any other when the reason for the skip may have gone.
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
    const computed = hits * blockSize;
    if (preemptions[slot] === 0) cachedPrompt[slot] = computed + 1;
    if (deferPrefills && computed < known - 1) break;
    let n = known - computed;
    if (threshold > 0 && threshold < n) n = threshold;
    if (!chunkedPrefill && n > budget) break;
    n = min(n, budget);
    const newBlocks = admit(slot, n, hits);
    if (newBlocks === NONE) {
      noteRefused(handleOf(slot));
      break;
    }
    countLookUp(slot, known, computed);
    const next = priorityPolicy ? NONE : afterWaiting(slot);
    removeWaiting(slot);
    setDeferred(slot, 0);
    pushRunning(slot);
    moveAdapter(slot, 1, -1);
    row(slot).status = Status.Running;
    if (preemptions[slot] === 0) scheduledUs[slot] = now;
    if (computed < known - 1) prefills = true;
    plan(slot, n, computed, newBlocks);
    slot = priorityPolicy ? firstWaiting() : next;
  }
  while (skips > 0) prependWaiting(skipped[--skips]);
}

/** Returns true if the request cannot be admitted: it is blocked, output in flight must be delivered first, or its adapter may not run. */
function mustSkip(slot: i32): bool {
  if ((row(slot).flags & SUBMIT_BLOCKED) !== 0) return true;
  if (row(slot).stale > 0 && row(slot).dropStale === 0) return true;
  return lacksAdapter(slot);
}

/** Counts prefix cache queries and hits at an admission. Preempted requests have their own counters. */
function countLookUp(slot: i32, known: i32, hit: i32): void {
  if (!prefixCaching || (row(slot).flags & SUBMIT_SKIP_READING) !== 0) return;
  const first = preemptions[slot] === 0;
  count(first ? Total.PrefixRequests : Total.PreemptedRequests, 1);
  count(first ? Total.PrefixQueries : Total.PreemptedQueries, <f64>known);
  count(first ? Total.PrefixHits : Total.PreemptedHits, <f64>hit);
}

/** Adds a row to the plan. From here on, its tokens count as computed. */
function plan(slot: i32, n: i32, computed: i32, newBlocks: i32): void {
  const at = base + rows++;
  const placeholders = row(slot).placeholders;
  const samples = computed + n >= row(slot).prompt + row(slot).outputs + placeholders;
  rowHandle[at] = handleOf(slot);
  rowTokens[at] = n;
  rowFlags[at] = (newBlocks << 1) | <i32>samples;
  row(slot).computed = computed + n;
  row(slot).inFlight = row(slot).inFlight + n;
  row(slot).isChunk = <i32>!samples;
  if (samples && asyncScheduling) row(slot).placeholders = placeholders + 1;
  row(slot).quietUntil = samples && row(slot).drafts === 0 ? quietUntil(row(slot)) : 0;
  budget -= n;
  cost(slot, n, computed, 1);
}

/**
 * Adds a row to the sums of timing.ts. One token after the prompt is a decode. Everything else, including
 * recomputation, is prefill, which costs nothing if another instance computes it.
 */
function cost(slot: i32, n: i32, computed: i32, sign: i32): void {
  if (n === 1 && computed >= row(slot).prompt) addDecodes(sign, <f64>(sign * (computed + 1)));
  else if ((row(slot).flags & SUBMIT_ELSEWHERE) === 0) addPrefill(n, computed, <f64>sign);
}
