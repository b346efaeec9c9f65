// The open steps, from schedule to update: each has a plan of rows (handle, tokens, flags) in the order of scheduling.

import { column } from "./column";
import { maxNumSeqs } from "./config";
import { setAddress, setWord } from "./header";
import { RING, SLOTS, Word } from "./layout";

export let rowHandle = changetype<StaticArray<i32>>(0);
export let rowTokens = changetype<StaticArray<i32>>(0);
export let rowFlags = changetype<StaticArray<i32>>(0);
let counts = changetype<StaticArray<i32>>(0);
/**
 * Handles of requests that the last schedule call preempted, took back from the step, or refused blocks; and of
 * requests that have ended since the call before.
 */
let preempted = changetype<StaticArray<i32>>(0);
let undone = changetype<StaticArray<i32>>(0);
let refused = changetype<StaticArray<i32>>(0);
let ended = changetype<StaticArray<i32>>(0);
let reported = changetype<StaticArray<i32>>(0);
let preemptedCount: i32 = 0;
let undoneCount: i32 = 0;
let refusedCount: i32 = 0;
let endedCount: i32 = 0;

export let planned: i32 = 0;
export let updated: i32 = 0;

export function allocateSteps(): void {
  rowHandle = column(RING * maxNumSeqs);
  rowTokens = column(RING * maxNumSeqs);
  rowFlags = column(RING * maxNumSeqs);
  counts = column(RING);
  preempted = column(maxNumSeqs);
  undone = column(maxNumSeqs);
  refused = column(maxNumSeqs + 1);
  ended = column(SLOTS);
  reported = column(SLOTS);
}
export function publishSteps(): void {
  setAddress(Word.PreemptedAt, changetype<usize>(preempted));
  setAddress(Word.UndoneAt, changetype<usize>(undone));
  setAddress(Word.RefusedAt, changetype<usize>(refused));
  setAddress(Word.ReportedAt, changetype<usize>(reported));
}

/** Opens the next step and returns the index of its first row. */
export function openStep(): i32 {
  assert(planned - updated < RING - 1, "too many steps are open");
  planned++;
  preemptedCount = 0;
  undoneCount = 0;
  refusedCount = 0;
  for (let i = 0; i < endedCount; i++) reported[i] = ended[i];
  setWord(Word.PlanReported, endedCount);
  endedCount = 0;
  return firstRow(planned);
}

export function sealPlan(rows: i32, admitted: i32): void {
  counts[planned & (RING - 1)] = rows;
  const first = firstRow(planned) << 2;
  setWord(Word.PlanStep, planned);
  setWord(Word.PlanRows, rows);
  setWord(Word.PlanAdmitted, admitted);
  setWord(Word.PlanPreempted, preemptedCount);
  setWord(Word.PlanUndone, undoneCount);
  setWord(Word.PlanRefused, refusedCount);
  setAddress(Word.RowHandleAt, changetype<usize>(rowHandle) + first);
  setAddress(Word.RowTokensAt, changetype<usize>(rowTokens) + first);
  setAddress(Word.RowFlagsAt, changetype<usize>(rowFlags) + first);
}

/** Closes the oldest open step and returns its number. */
export function closeStep(): i32 {
  assert(updated < planned, "update without an open step");
  return ++updated;
}
export function openSteps(): i32 {
  return planned - updated;
}
export function rowsOf(step: i32): i32 {
  return counts[step & (RING - 1)];
}
export function firstRow(step: i32): i32 {
  return (step & (RING - 1)) * maxNumSeqs;
}

// A plan preempts, takes back and refuses each running request at most once, and refuses at most one admission.
export function notePreempted(handle: i32): void {
  assert(preemptedCount < maxNumSeqs, "more requests were preempted than can run");
  preempted[preemptedCount++] = handle;
}
export function clearPreempted(): void {
  preemptedCount = 0;
}
export function sealPreempted(): void {
  setWord(Word.PlanPreempted, preemptedCount);
}
export function noteUndone(handle: i32): void {
  assert(undoneCount < maxNumSeqs, "more rows were taken back than a plan can have");
  undone[undoneCount++] = handle;
}
export function noteRefused(handle: i32): void {
  assert(refusedCount <= maxNumSeqs, "blocks were refused more often than a plan asks for them");
  refused[refusedCount++] = handle;
}
/** Records an ended request for the next plan. If more than SLOTS requests end between two plans, the list keeps the first SLOTS. */
export function noteEnded(handle: i32): void {
  if (endedCount < SLOTS) ended[endedCount++] = handle;
}
export function endedUnreported(): i32 {
  return endedCount;
}
