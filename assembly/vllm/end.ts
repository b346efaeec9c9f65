// How does a request leave the batch: preempted, ended, aborted? vLLM 0.33 `v1/core/sched/scheduler.py`.
import { moveAdapter } from "../adapters";
import { nextDetached, releaseDetached, releasePages } from "../arena";
import { column } from "../column";
import { fixes } from "../config";
import { count } from "../header";
import { observe } from "../histogram";
import {
  FIX_ABORT_COUNTED,
  FIX_ABORT_TIMES,
  Histogram,
  Reason,
  SLOTS,
  Status,
  SUBMIT_CHOICE,
  SUBMIT_ELSEWHERE,
  Total,
} from "../layout";
import { prependWaiting, removeRunningAt, removeWaiting, runningIndexOf, setDeferred } from "../queues";
import {
  arrivalUs,
  cachedPrompt,
  closed,
  firstTokenUs,
  handleOf,
  preemptions,
  preemptionsTold,
  queuedUs,
  releaseSlot,
  row,
  scheduledUs,
  slotOf,
  stopPage,
} from "../slots";
import { noteEnded, notePreempted } from "../steps";
import { freeBlocks } from "./allocate";

/** Handles that the front has ended; they are freed at the next abort point. */
let closing = changetype<StaticArray<i32>>(0);
let closingCount: i32 = 0;
/** Aborts of the engine that no message has brought yet. */
let abortsSent = false;

export function takeClosing(): void {
  closing = column(SLOTS);
}

/** Back to the front of the queue with nothing computed; what is in flight will be stale. The caller took it off `running`. */
export function preempt(slot: i32, drop: bool): void {
  freeBlocks(slot);
  row(slot).status = Status.Preempted;
  row(slot).flags = row(slot).flags & ~SUBMIT_ELSEWHERE;
  row(slot).computed = 0;
  row(slot).quietUntil = 0;
  row(slot).calmUntil = 0;
  row(slot).drafts = 0;
  if (drop || (row(slot).dropStale !== 0 && row(slot).stale > 0)) row(slot).dropStale = 1;
  else row(slot).dropStale = 0;
  row(slot).stale = row(slot).inFlight;
  row(slot).placeholders = 0;
  preemptions[slot] = preemptions[slot] + 1;
  moveAdapter(slot, -1, 1);
  notePreempted(handleOf(slot));
  count(Total.Preemptions, 1);
  prependWaiting(slot);
}

/** Blocks, pages and slot are free; the caller takes it off `running`, the waiting queue is done here. */
export function release(slot: i32): void {
  freeBlocks(slot);
  if (row(slot).status === Status.Running) moveAdapter(slot, -1, 0);
  else {
    removeWaiting(slot);
    setDeferred(slot, 0);
    moveAdapter(slot, 0, -1);
  }
  for (let page = stopPage[slot]; page !== 0; ) {
    const next = nextDetached(page);
    releaseDetached(page);
    page = next;
  }
  releasePages(slot);
  noteEnded(handleOf(slot));
  releaseSlot(slot);
}

/**
 * The one place where a request's own histograms are observed and its end is counted, as vLLM's front end does: of a
 * client that left nothing, unless that is repaired.
 */
export function countEnd(slot: i32, reason: Reason, tokens: i32, now: f64): void {
  count(<Total>(Total.FinishedStop + (reason === Reason.Rejected ? Reason.Error : reason)), 1);
  if (reason === Reason.Abort && (fixes & FIX_ABORT_COUNTED) === 0) return;
  if (reason === Reason.EngineAbort) {
    count(Total.FinishedAbort, 1);
    countEmptyOutput(slot, now);
  }
  if (reason === Reason.Error) countEmptyOutput(slot, now);
  const unheard = row(slot).outputs === 0;
  observe(Histogram.E2eLatency, now - arrivalUs[slot]);
  observe(Histogram.PromptTokens, <f64>row(slot).prompt);
  observe(Histogram.GenerationTokens, <f64>tokens);
  observe(Histogram.MaxTokens, <f64>row(slot).maxTokens);
  observe(Histogram.RequestPreemptions, <f64>preemptionsTold[slot]);
  observe(Histogram.PrefillComputed, <f64>(row(slot).prompt - (unheard ? 0 : max(cachedPrompt[slot] - 1, 0))));
  if ((row(slot).flags & SUBMIT_CHOICE) === 0) observeChoices(1, tokens);
  if (unheard) {
    // No output brought the times of queue and schedule, so vLLM reckons from the zero of the machine's clock.
    const sinceZero = reason === Reason.EngineAbort && (fixes & FIX_ABORT_TIMES) === 0 ? now : 0;
    observe(Histogram.QueueTime, 0);
    observe(Histogram.PrefillTime, sinceZero);
    observe(Histogram.DecodeTime, 0);
    observe(Histogram.InferenceTime, sinceZero);
    observe(Histogram.TimePerOutputToken, 0);
    return;
  }
  const scheduled = scheduledUs[slot];
  const first = firstTokenUs[slot];
  const decode = row(slot).lastTokenUs - first;
  observe(Histogram.QueueTime, Math.max(scheduled - queuedUs[slot], 0));
  observe(Histogram.PrefillTime, first - scheduled);
  observe(Histogram.DecodeTime, decode);
  observe(Histogram.InferenceTime, row(slot).lastTokenUs - scheduled);
  observe(Histogram.TimePerOutputToken, tokens > 1 ? decode / <f64>(tokens - 1) : 0);
}

/** All choices of a prompt have ended, in this engine the last one. */
export function observeChoices(choices: i32, longest: i32): void {
  observe(Histogram.RequestChoices, <f64>choices);
  observe(Histogram.LongestChoice, <f64>longest);
}

/** The engine's abort or error is an output without tokens, and vLLM takes its time as it does any output's. */
function countEmptyOutput(slot: i32, now: f64): void {
  abortsSent = true;
  if (row(slot).outputs === 0) observe(Histogram.TimeToFirstToken, now - arrivalUs[slot]);
  else {
    observe(Histogram.InterTokenLatency, now - row(slot).lastTokenUs);
    row(slot).lastTokenUs = now;
  }
}

/** The front ends a request: counted now with `tokens` output tokens, silent from now on, freed at the next abort point. */
export function close(handle: i32, reason: Reason, tokens: i32, now: f64): bool {
  const slot = slotOf(handle);
  if (slot < 0 || closed[slot] !== 0) return false;
  closed[slot] = 1;
  countEnd(slot, reason, tokens, now);
  closing[closingCount++] = handle;
  return true;
}

/** Frees what the front has closed, in order. */
export function applyClosed(): void {
  if (abortsSent) observe(Histogram.IterationTokens, 0);
  abortsSent = false;
  for (let i = 0; i < closingCount; i++) {
    const slot = slotOf(closing[i]);
    if (slot < 0) continue;
    if (row(slot).status === Status.Running) removeRunningAt(runningIndexOf(slot));
    release(slot);
  }
  closingCount = 0;
}
export function closedPending(): i32 {
  return closingCount;
}

/** For another policy's end: the closed handles one by one, and none any more. */
export function closedAt(at: i32): i32 {
  return closing[at];
}
export function forgetClosed(): void {
  closingCount = 0;
}
