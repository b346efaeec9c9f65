// Plans the next iteration: the executor's loop up to the forward pass (`_torch/pyexecutor/py_executor.py`). Fetches
// requests, decides which fit, forms the batch, pauses requests, allocates blocks and trims chunks. Each part is also a
// call of its own, which tests use to replay recordings of the real scheduler.
import { moveAdapter } from "../adapters";
import { column } from "../column";
import {
  asyncScheduling,
  blockSize,
  chunkedPrefill,
  maxNumActiveSeqs,
  maxNumBatchedTokens,
  maxNumSeqs,
  priorityPolicy,
} from "../config";
import { count, setWord } from "../header";
import { NONE, Pause, RING, ROW_SAMPLES, Status, SUBMIT_BLOCKED, SUBMIT_ELSEWHERE, Total, Word } from "../layout";
import { withNoise } from "../noise";
import {
  afterWaiting,
  firstWaiting,
  pushRunning,
  removeWaiting,
  running,
  runningLength,
  setAside,
  setDeferred,
  waitingLength,
} from "../queues";
import { preemptions, priority, row, scheduledUs } from "../slots";
import { notePreempted, openStep, openSteps, planned, rowFlags, rowHandle, rowTokens, sealPlan } from "../steps";
import { addDecodes, addPrefill, clearSums, publishSums, stepUs } from "../timing";
import { capacity, noCapacity, pausedAt } from "./capacity";
import { cppExecutor, keepsBlocks, maxBatchSize, maxNumRequests, stepsAhead } from "./config";
import { setList, setTrtWord, trtWord } from "./header";
import { claimPrompt, fillPrompt, hold, release } from "./kv";
import { State, TrtWord } from "./layout";
import { adapted, forget, Line, line, noteActive, prefilling, setState } from "./line";
import { contextAt, generationAt, keepGeneration, lastChunksBehind, microBatch, noMicroBatch } from "./micro-batch";
import { notePause, resumePrompts } from "./pause";
import { blocksFree, noteLeast, refreshBlocks } from "./pool";

let pauseState: i32 = Pause.Unpaused;
/** First row of the step in the ring, and its rows so far. `rowEnd`: for rows of contexts, the position after the row. */
let base: i32 = 0;
let rows: i32 = 0;
export let rowEnd = changetype<StaticArray<i32>>(0);
/** Number of context rows of each step in the ring. They come first. */
export let contextRows = changetype<StaticArray<i32>>(0);
/**
 * Contexts in the order in which they get blocks and run; start, chunk and trimmed tokens of each context as executed,
 * by its index in the batch.
 */
let contexts = changetype<StaticArray<i32>>(0);
let started = changetype<StaticArray<i32>>(0);
let taken = changetype<StaticArray<i32>>(0);
let trimmed = changetype<StaticArray<i32>>(0);

export function allocateScheduler(): void {
  rowEnd = column(RING * maxNumSeqs);
  contextRows = column(RING);
  contexts = column(maxNumSeqs);
  started = column(maxNumSeqs);
  taken = column(maxNumSeqs);
  trimmed = column(maxNumSeqs);
}
export function publishScheduler(): void {
  setList(TrtWord.ContextStartAt, started);
  setList(TrtWord.ContextTakenAt, taken);
  setList(TrtWord.ContextTrimAt, trimmed);
}

export function setPause(state: i32): void {
  pauseState = state;
  setWord(Word.PauseState, state);
}

export function hasWork(): bool {
  if (pauseState === Pause.PausedAll) return false;
  return runningLength() + (pauseState === Pause.PausedNew ? 0 : waitingLength()) > 0;
}

/** Plans one iteration at `now` and returns its duration in microseconds. */
export function schedule(now: f64): f64 {
  refreshBlocks(now);
  fetch();
  if (pauseState === Pause.PausedAll) {
    noCapacity();
    noMicroBatch();
  } else if (isQuiet()) return planQuiet(now);
  else {
    capacity();
    microBatch();
  }
  return execute(now);
}

/** Makes waiting requests active, in order, up to the limit of active requests. */
export function fetch(): void {
  if (pauseState !== Pause.Unpaused) return;
  let slot = firstWaiting();
  while (slot !== NONE && runningLength() < maxNumActiveSeqs) {
    if ((row(slot).flags & SUBMIT_BLOCKED) !== 0) {
      setDeferred(slot, 1);
      if (priorityPolicy) setAside(slot);
      slot = priorityPolicy ? firstWaiting() : afterWaiting(slot);
      continue;
    }
    const next = priorityPolicy ? NONE : afterWaiting(slot);
    removeWaiting(slot);
    setDeferred(slot, 0);
    activate(slot);
    slot = priorityPolicy ? firstWaiting() : next;
  }
}

function activate(slot: i32): void {
  pushRunning(slot);
  row(slot).status = Status.Running;
  moveAdapter(slot, 1, -1);
  noteActive(slot, 1);
  if (!cppExecutor) return;
  let at = runningLength() - 1;
  for (; at > 0 && priority[running[at - 1]] > priority[slot]; at--) running[at] = running[at - 1];
  running[at] = slot;
}

/** Returns true if every active request decodes, fits and runs, so that nothing has to be decided. */
function isQuiet(): bool {
  const active = runningLength();
  if (prefilling > 0 || adapted > 0 || active === 0) return false;
  if (active > maxBatchSize || active > maxNumRequests || active > maxNumBatchedTokens) return false;
  return !keepsBlocks || active * stepsAhead <= blocksFree();
}

/** Plans a quiet iteration: faster than `capacity`, `microBatch` and `execute`, with the same result. */
function planQuiet(now: f64): f64 {
  const active = runningLength();
  begin();
  noMicroBatch();
  noCapacity();
  setTrtWord(TrtWord.Fit, active);
  setList(TrtWord.FitAt, running);
  const ids = running;
  const first = (<usize>base) << 2;
  const handleAt = changetype<usize>(rowHandle) + first;
  const tokensAt = changetype<usize>(rowTokens) + first;
  const flagsAt = changetype<usize>(rowFlags) + first;
  let end: usize = 0;
  let attended: i64 = 0;
  for (let i = 0; i < active; i++) {
    const slot = ids[i];
    const l = line(slot);
    if (l.state !== State.GenerationInProgress) continue;
    const tokens = l.length + l.flight;
    if (tokens <= l.room) l.held = tokens;
    else hold(slot, l);
    attended += tokens;
    expectToken(l);
    store<i32>(handleAt + end, l.handle);
    store<i32>(tokensAt + end, 1);
    store<i32>(flagsAt + end, ROW_SAMPLES);
    keepGeneration(<i32>(end >> 2), slot);
    end += 4;
  }
  rows = <i32>(end >> 2);
  contextRows[planned & (RING - 1)] = 0;
  addDecodes(rows, <f64>attended);
  setTrtWord(TrtWord.Generations, rows);
  setTrtWord(TrtWord.Charged, rows);
  return seal(now, 0);
}

function begin(): void {
  base = openStep();
  rows = 0;
  clearSums();
}

function seal(now: f64, tokens: i32): f64 {
  setTrtWord(TrtWord.ForwardTokens, tokens + trtWord(TrtWord.Generations));
  sealPlan(rows, rows);
  publishSums();
  setWord(Word.PlanRequests, runningLength() + waitingLength());
  noteLeast();
  count(Total.Steps, 1);
  if (rows > 0) return withNoise(stepUs(), now);
  return openSteps() === 1 && hasWork() ? 1000 : 0;
}

/** Adds the row of a request that decodes and has room for its token. */
function generate(l: Line): void {
  const at = base + rows++;
  rowHandle[at] = l.handle;
  rowTokens[at] = 1;
  rowFlags[at] = ROW_SAMPLES;
  addDecodes(1, <f64>l.held);
  expectToken(l);
}

/** Counts a token in flight. With overlap, a request whose last token is in flight is not scheduled again. */
function expectToken(l: Line): void {
  l.flight++;
  if (asyncScheduling && l.length + l.flight >= l.end) setState(l, State.GenerationToComplete);
}

/** Executes the decisions of the capacity and micro-batch schedulers. Returns the duration in microseconds. */
export function execute(now: f64): f64 {
  const isFirst = openSteps() === 0;
  begin();
  pauseDecided();
  const contextCount = trtWord(TrtWord.Contexts);
  for (let i = 0; i < contextCount; i++) {
    contexts[i] = contextAt(i);
    trimmed[i] = 0;
  }
  lastChunksBehind(contexts, contextCount);
  const computing = allocate(contextCount, now);
  const generating = holdTokens();
  if (chunkedPrefill) trim(computing, generating);
  for (let i = 0; i < contextCount; i++) {
    started[i] = line(contextAt(i)).position;
    taken[i] = line(contextAt(i)).chunk;
  }
  lastChunksBehind(contexts, computing);
  let tokens = 0;
  for (let i = 0; i < computing; i++) tokens += advance(contexts[i]);
  contextRows[planned & (RING - 1)] = computing;
  for (let i = 0; i < generating; i++) generate(line(generationAt(i)));
  if (isFirst) resumePrompts();
  return seal(now, tokens);
}

/** Pauses requests, which give their blocks back at once. Their generated tokens join the prompt when no token is in flight. */
function pauseDecided(): void {
  const pauses = trtWord(TrtWord.Paused);
  for (let i = 0; i < pauses; i++) pause(pausedAt(i));
}

export function pause(slot: i32): void {
  const l = line(slot);
  release(slot, cppExecutor ? 0 : l.isContext ? min(l.position, l.context - 1) : l.length - 1);
  forget(l);
  setState(l, State.ContextInit);
  row(slot).flags = row(slot).flags & ~SUBMIT_ELSEWHERE;
  preemptions[slot] = preemptions[slot] + 1;
  count(Total.Preemptions, 1);
  notePreempted(l.handle);
  notePause(l.handle);
}

/**
 * Allocates blocks for first chunks. All of them claim cached blocks before any takes a fresh block. A chunk after
 * cached tokens starts later. Requests for which no block is left leave the batch (the real server fails then). Returns
 * the number of contexts left.
 */
function allocate(contextCount: i32, now: f64): i32 {
  for (let i = 0; i < contextCount; i++) if (line(contexts[i]).isFirstChunk) claimPrompt(contexts[i]);
  let left = 0;
  for (let i = 0; i < contextCount; i++) {
    const slot = contexts[i];
    const l = line(slot);
    contexts[left] = slot;
    if (l.started || fill(slot, l, now)) left++;
    else l.chunk = 0;
  }
  return left;
}

function fill(slot: i32, l: Line, now: f64): bool {
  if (!fillPrompt(slot)) return false;
  if (preemptions[slot] === 0) scheduledUs[slot] = now;
  const hit = l.position;
  const end = hit + l.chunk;
  if (hit > 0) l.chunk = end < l.context ? end - (end % blockSize) - hit : l.context - hit;
  return true;
}

/** Makes room for one more token of each generating request and pauses those without a block. Returns the number of requests left. */
function holdTokens(): i32 {
  const generations = trtWord(TrtWord.Generations);
  let left = 0;
  for (let i = 0; i < generations; i++) {
    const slot = generationAt(i);
    keepGeneration(left, slot);
    if (hold(slot, line(slot))) left++;
    else pause(slot);
  }
  setTrtWord(TrtWord.Generations, left);
  return left;
}

/** Shortens chunks, the last first, if the forward pass exceeds max_num_tokens. Each chunk keeps at least the rest of its block. */
function trim(contextCount: i32, generating: i32): void {
  let over = generating - maxNumBatchedTokens;
  for (let i = 0; i < contextCount; i++) over += line(contexts[i]).chunk;
  for (let i = contextCount - 1; i >= 0 && over > 0; i--) {
    const l = line(contexts[i]);
    const end = l.position + l.chunk - over;
    const chunk = max(blockSize - (l.position % blockSize), end - (end % blockSize) - l.position);
    if (chunk >= l.chunk) continue;
    over -= l.chunk - chunk;
    noteTrim(contexts[i], l.chunk - chunk, contextCount);
    l.chunk = chunk;
  }
}

function noteTrim(slot: i32, tokens: i32, contextCount: i32): void {
  for (let i = 0; i < contextCount; i++) if (contextAt(i) === slot) trimmed[i] = tokens;
}

/** Adds the row of a context and returns its tokens. */
function advance(slot: i32): i32 {
  const l = line(slot);
  const at = base + rows++;
  const isLast = l.isLastChunk;
  rowHandle[at] = l.handle;
  rowTokens[at] = l.chunk;
  rowFlags[at] = isLast ? ROW_SAMPLES : 0;
  if ((row(slot).flags & SUBMIT_ELSEWHERE) === 0) addPrefill(l.chunk, l.position, 1);
  l.position += l.chunk;
  rowEnd[at] = l.position;
  if (isLast) {
    setState(l, State.GenerationInProgress);
    expectToken(l);
  }
  return l.chunk;
}
