// Takes requests out of the batch when they are preempted, end or are aborted. Source: vLLM 0.33
// `v1/core/sched/scheduler.py`.
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
  preemptionsReported,
  queuedUs,
  releaseSlot,
  row,
  scheduledUs,
  slotOf,
  stopPage,
} from "../slots";
import { noteEnded, notePreempted } from "../steps";
import { freeBlocks } from "./allocate";

/** Handles that the front end has closed. They are freed at the next update. */
let closing = changetype<StaticArray<i32>>(0);
let closingCount: i32 = 0;
/** True if the engine aborted requests that no output has reported yet. */
let abortsSent = false;

export function allocateClosing(): void {
  closing = column(SLOTS);
}

/**
 * Preempts a request: nothing is computed any more, and it returns to the front of the waiting queue. Tokens in flight
 * become stale; `drop` discards their output. The caller has removed it from `running`.
 */
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

/**
 * Frees blocks, pages and slot of a request. Also removes a waiting request from its queue. The caller removes a
 * running request from `running`.
 */
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
 * Counts the end of a request and observes its histograms, as vLLM's front end does. A client that disconnected is not
 * observed, unless FIX_ABORT_COUNTED is set. No other place does this.
 */
export function countEnd(slot: i32, reason: Reason, tokens: i32, now: f64): void {
  count(<Total>(Total.FinishedStop + (reason === Reason.Rejected ? Reason.Error : reason)), 1);
  if (reason === Reason.Abort && (fixes & FIX_ABORT_COUNTED) === 0) return;
  if (reason === Reason.EngineAbort) {
    count(Total.FinishedAbort, 1);
    countEmptyOutput(slot, now);
  }
  if (reason === Reason.Error) countEmptyOutput(slot, now);
  const hasNoOutput = row(slot).outputs === 0;
  observe(Histogram.E2eLatency, now - arrivalUs[slot]);
  observe(Histogram.PromptTokens, <f64>row(slot).prompt);
  observe(Histogram.GenerationTokens, <f64>tokens);
  observe(Histogram.MaxTokens, <f64>row(slot).maxTokens);
  observe(Histogram.RequestPreemptions, <f64>preemptionsReported[slot]);
  observe(Histogram.PrefillComputed, <f64>(row(slot).prompt - (hasNoOutput ? 0 : max(cachedPrompt[slot] - 1, 0))));
  if ((row(slot).flags & SUBMIT_CHOICE) === 0) observeChoices(1, tokens);
  if (hasNoOutput) {
    // vLLM learns the times of queue and schedule with the first output; without one, it counts from zero of the clock.
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

/** Observes a prompt whose choices have all ended, if necessary on several engines. */
export function observeChoices(choices: i32, longest: i32): void {
  observe(Histogram.RequestChoices, <f64>choices);
  observe(Histogram.LongestChoice, <f64>longest);
}

/** An abort or error of the engine is an output without tokens, and vLLM observes its time like that of any output. */
function countEmptyOutput(slot: i32, now: f64): void {
  abortsSent = true;
  if (row(slot).outputs === 0) observe(Histogram.TimeToFirstToken, now - arrivalUs[slot]);
  else {
    observe(Histogram.InterTokenLatency, now - row(slot).lastTokenUs);
    row(slot).lastTokenUs = now;
  }
}

/**
 * Ends a request for the front end: counted now with `tokens` output tokens, without output from now on, freed at the
 * next update. Returns false if it is gone or closed.
 */
export function close(handle: i32, reason: Reason, tokens: i32, now: f64): bool {
  const slot = slotOf(handle);
  if (slot < 0 || closed[slot] !== 0) return false;
  closed[slot] = 1;
  countEnd(slot, reason, tokens, now);
  closing[closingCount++] = handle;
  return true;
}

/** Frees the requests that the front end has closed, in the order of closing. */
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

/** For the `applyClosed` of TensorRT-LLM's policies: reads the closed handles and clears the list. */
export function closedAt(at: i32): i32 {
  return closing[at];
}
export function forgetClosed(): void {
  closingCount = 0;
}
