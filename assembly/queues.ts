// The running list and the waiting queue. Running requests are in order of admission. Waiting requests are in a linked
// list (fcfs) or in a binary heap by (priority, arrival, order of submission), as in vLLM 0.33
// `v1/core/sched/request_queue.py`.

import { column } from "./column";
import { maxNumSeqs, priorityPolicy } from "./config";
import { setAddress, setWord } from "./header";
import { NONE, SLOTS, Status, Word } from "./layout";
import { arrivalUs, deferred, lora, priority, row, sequence } from "./slots";

export let running = changetype<StaticArray<i32>>(0);
let runningCount: i32 = 0;

/** Neighbours in the fcfs queue, as slot + 1. */
let waitNext = changetype<StaticArray<i32>>(0);
let waitPrev = changetype<StaticArray<i32>>(0);
let head: i32 = 0;
let tail: i32 = 0;
/** Heap of slots, and the position of each slot in it. */
let heap = changetype<StaticArray<i32>>(0);
let heapPlace = changetype<StaticArray<i32>>(0);
/** Length of the heap. After the heap, the same array holds in no order the requests that were set aside, so that scans skip them. */
let ready: i32 = 0;
let waitingCount: i32 = 0;
let deferredTotal: i32 = 0;

export function allocateQueues(): void {
  running = column(maxNumSeqs);
  waitNext = column(SLOTS);
  waitPrev = column(SLOTS);
  heap = column(SLOTS);
  heapPlace = column(SLOTS);
}

export function publishQueues(): void {
  setAddress(Word.RunningAt, changetype<usize>(running));
  setAddress(Word.HeapAt, changetype<usize>(heap));
  setAddress(Word.WaitNextAt, changetype<usize>(waitNext));
}

export function runningLength(): i32 {
  return runningCount;
}
export function waitingLength(): i32 {
  return waitingCount;
}
export function deferredLength(): i32 {
  return deferredTotal;
}

export function pushRunning(slot: i32): void {
  assert(runningCount < maxNumSeqs, "more requests run than max_num_seqs");
  running[runningCount++] = slot;
  setWord(Word.Running, runningCount);
}
export function removeRunningAt(index: i32): void {
  runningCount--;
  for (let at = index; at < runningCount; at++) running[at] = running[at + 1];
  setWord(Word.Running, runningCount);
}
/** Removes requests that have just ended. The others keep their order. */
export function pruneRunning(): void {
  let left = 0;
  for (let at = 0; at < runningCount; at++) {
    const slot = running[at];
    if (row(slot).status === Status.Running) running[left++] = slot;
  }
  runningCount = left;
  setWord(Word.Running, runningCount);
}
export function runningIndexOf(slot: i32): i32 {
  for (let at = 0; at < runningCount; at++) if (running[at] === slot) return at;
  return NONE;
}

export function setDeferred(slot: i32, on: i32): void {
  if (deferred[slot] === on) return;
  deferred[slot] = on;
  deferredTotal += on ? 1 : -1;
  setWord(Word.Deferred, deferredTotal);
}

function setWaiting(value: i32): void {
  waitingCount = value;
  setWord(Word.Waiting, value);
}

export function heapAt(place: i32): i32 {
  return heap[place];
}

/** Adds a request at the end of the queue (fcfs), or by priority. */
export function pushWaiting(slot: i32): void {
  if (priorityPolicy) heapPush(slot);
  else {
    waitPrev[slot] = tail;
    waitNext[slot] = 0;
    if (tail === 0) setHead(slot + 1);
    else waitNext[tail - 1] = slot + 1;
    tail = slot + 1;
  }
  setWaiting(waitingCount + 1);
}

/** Adds a preempted request at the front of the queue (fcfs), or by priority. */
export function prependWaiting(slot: i32): void {
  if (priorityPolicy) heapPush(slot);
  else {
    waitPrev[slot] = 0;
    waitNext[slot] = head;
    if (head === 0) tail = slot + 1;
    else waitPrev[head - 1] = slot + 1;
    setHead(slot + 1);
  }
  setWaiting(waitingCount + 1);
}

export function removeWaiting(slot: i32): void {
  if (priorityPolicy) heapRemove(heapPlace[slot]);
  else {
    const next = waitNext[slot];
    const prev = waitPrev[slot];
    if (prev === 0) setHead(next);
    else waitNext[prev - 1] = next;
    if (next === 0) tail = prev;
    else waitPrev[next - 1] = prev;
  }
  setWaiting(waitingCount - 1);
}

/** Returns the slot to be admitted next, or NONE. */
export function firstWaiting(): i32 {
  if (priorityPolicy) return ready > 0 ? heap[0] : NONE;
  return head - 1;
}
/** fcfs only: returns the slot after this one in the queue, or NONE. */
export function afterWaiting(slot: i32): i32 {
  return waitNext[slot] - 1;
}

function setHead(value: i32): void {
  head = value;
  setWord(Word.WaitHead, value);
}

/** Returns true if `a` comes before `b` in the priority queue. Order numbers are unique, so no two requests are equal. */
function before(a: i32, b: i32): bool {
  if (priority[a] !== priority[b]) return priority[a] < priority[b];
  if (arrivalUs[a] !== arrivalUs[b]) return arrivalUs[a] < arrivalUs[b];
  return sequence[a] < sequence[b];
}

/** Takes a request out of the heap until `recall`, because it cannot be admitted before something else changes. Priority policy only. */
export function setAside(slot: i32): void {
  leaveHeap(heapPlace[slot]);
}
/** Puts a request back into the heap, if it was set aside. */
export function recall(slot: i32): void {
  if (!priorityPolicy || heapPlace[slot] < ready) return;
  place(heap[ready], heapPlace[slot]);
  place(slot, ready);
  rise(ready++);
}
/** Recalls all requests with an adapter that were set aside. */
export function recallAdapters(): void {
  for (let at = ready; at < waitingCount; at++) if (lora[heap[at]] !== 0) recall(heap[at]);
}
/** Returns the position in the heap array at which the requests that were set aside begin. */
export function asideFrom(): i32 {
  return ready;
}

function heapPush(slot: i32): void {
  if (ready < waitingCount) place(heap[ready], waitingCount);
  place(slot, ready);
  rise(ready++);
}

function heapRemove(at: i32): void {
  if (at < ready) {
    leaveHeap(at);
    at = ready;
  }
  if (at < waitingCount - 1) place(heap[waitingCount - 1], at);
}

/** Moves the entry at `at` out of the heap, to the first position after its end. */
function leaveHeap(at: i32): void {
  ready--;
  const slot = heap[at];
  const last = heap[ready];
  place(slot, ready);
  if (at === ready) return;
  place(last, at);
  rise(at);
  sink(heapPlace[last]);
}

function rise(at: i32): void {
  const slot = heap[at];
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!before(slot, heap[parent])) break;
    place(heap[parent], at);
    at = parent;
  }
  place(slot, at);
}

function sink(at: i32): void {
  const length = ready;
  const slot = heap[at];
  for (;;) {
    let child = 2 * at + 1;
    if (child >= length) break;
    if (child + 1 < length && before(heap[child + 1], heap[child])) child++;
    if (!before(heap[child], slot)) break;
    place(heap[child], at);
    at = child;
  }
  place(slot, at);
}

function place(slot: i32, at: i32): void {
  heap[at] = slot;
  heapPlace[slot] = at;
}
