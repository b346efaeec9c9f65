// The exported calls of the core with TensorRT-LLM's policies: those of ../vllm/index.ts by the same names, and the
// parts of `schedule` as calls of their own. Order: write both configurations, `init`, fill the tables, then submit,
// schedule and update.
import { allocateAdapters, publishAdapters } from "../adapters";
import { allocateAnswers, publishAnswers } from "../answers";
import { allocateArena, publishArena } from "../arena";
import { measure, measuredBytes } from "../column";
import { prefixCaching, readConfig } from "../config";
import { allocateEvents, clearEvents, publishEvents } from "../events";
import { configAt, setTotal, setting, setWord, totalsAt, wordsAt } from "../header";
import { allocateHistograms, publishHistograms } from "../histogram";
import { ABI, Config, NONE, Reason, SUBMIT_HASHED, Total, Word } from "../layout";
import { initNoise } from "../noise";
import { allocateOutbox, publishOutbox } from "../outbox";
import { allocateQueues, publishQueues, running, runningLength } from "../queues";
import { allocateSlots, publishSlots, row, slotOf } from "../slots";
import { allocateSteps, clearPreempted, openSteps, publishSteps, sealPreempted } from "../steps";
import {
  allocateInput,
  feed as feedSlot,
  publishInput,
  submit as submitRequest,
  submittedRoot,
  unblock as unblockSlot,
} from "../submit";
import { allocateTiming, publishTiming, readTiming } from "../timing";
import { publishCoast } from "../vllm/coast";
import { allocateClosing, closedPending, close as closeRequest, observeChoices as countChoices } from "../vllm/end";
import { allocateCapacity, capacity as decideCapacity } from "./capacity";
import { coast as coastOn } from "./coast";
import { partialReuse, readTrtConfig, trtConfigAt } from "./config";
import { applyClosed, release } from "./end";
import { kvTotalsAt, trtWordsAt } from "./header";
import { allocateLines, publishLines, startLine } from "./line";
import { allocateMicroBatch, microBatch as decideBatch, chunkContexts as decideChunks } from "./micro-batch";
import { allocatePauses, resumePrompts } from "./pause";
import { allocatePool, initPool, resetCache } from "./pool";
import { allocateRetention, retain as retainTokens } from "./retention";
import {
  allocateScheduler,
  hasWork as anyWork,
  execute as carryOut,
  fetch as fetchRequests,
  pause as pauseRequest,
  schedule as planStep,
  publishScheduler,
  setPause,
} from "./schedule";
import { allocateTokens, keepPrompt } from "./tokens";
import { allocateTree } from "./tree";
import { update as updateStep } from "./update";
import { allocateVerify, check, verify as verifyAll } from "./verify";

export { configAt, kvTotalsAt, totalsAt, trtConfigAt, trtWordsAt, wordsAt };

/** Returns the bytes that `init` would allocate with the current configuration. */
export function bytesNeeded(): f64 {
  readConfig();
  readTrtConfig();
  measure(true);
  allocateAll();
  measure(false);
  return measuredBytes();
}

/** Applies the current words and table of step times and noise from the next plan on. */
export function retime(): void {
  readTiming();
  initNoise();
}

/** Allocates all memory. The caller has checked `bytesNeeded`. */
export function init(): void {
  readConfig();
  readTrtConfig();
  allocateAll();
  initPool();
  initNoise();
  publishAdapters();
  publishAnswers();
  publishArena();
  publishCoast();
  publishEvents();
  publishHistograms();
  publishInput();
  publishLines();
  publishOutbox();
  publishQueues();
  publishScheduler();
  publishSlots();
  publishSteps();
  publishTiming();
  const from = setting(Config.CountersFrom);
  for (let i = 0; i < Total.Count; i++) setTotal(<Total>i, from);
  setWord(Word.Abi, ABI);
}

function allocateAll(): void {
  allocateSlots();
  allocateLines();
  allocateAdapters();
  allocateArena();
  allocateTokens();
  allocatePool();
  allocateTree();
  allocateQueues();
  allocateSteps();
  allocateOutbox();
  allocateEvents();
  allocateInput();
  allocateClosing();
  allocateRetention();
  allocatePauses();
  allocateCapacity();
  allocateMicroBatch();
  allocateScheduler();
  allocateHistograms();
  allocateAnswers();
  allocateTiming();
  allocateVerify();
}

/** Submits the request in the input buffer and in the fields of Submit. Returns its handle, or NONE if the core is full. */
export function submit(): i32 {
  const handle = submitRequest();
  if (handle === NONE) return NONE;
  const slot = slotOf(handle);
  startLine(slot);
  if (partialReuse && prefixCaching && (row(slot).flags & SUBMIT_HASHED) === 0 && !keepPrompt(slot, submittedRoot())) {
    release(slot);
    return NONE;
  }
  check();
  return handle;
}

/**
 * Sets how long the blocks of a request that was just submitted are retained: the input buffer has a row for generated
 * tokens and then `ranges` rows, see RANGE_WORDS.
 */
export function retain(handle: i32, ranges: i32): void {
  const slot = slotOf(handle);
  if (slot >= 0) retainTokens(slot, ranges);
}

/** Feeds `ids` output ids from the input buffer. Returns false if the request is gone. */
export function feed(handle: i32, ids: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  feedSlot(slot, ids);
  return true;
}

/** Lets a request with SUBMIT_BLOCKED become active from the next plan on. Returns false if the request is gone. */
export function unblock(handle: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  unblockSlot(slot);
  check();
  return true;
}

/** Ends a request at the request of the front end: counted now, freed at the start of the next update. Returns false if the request is gone. */
export function close(handle: i32, reason: i32, tokens: i32, nowUs: f64): bool {
  return closeRequest(handle, <Reason>reason, tokens, nowUs);
}

/** Records that all `choices` of a prompt have ended; the longest has `longest` tokens. For requests with SUBMIT_CHOICE. */
export function observeChoices(choices: i32, longest: i32): void {
  countChoices(choices, longest);
}

/** Frees closed requests at once. For an engine without an open step. */
export function flush(): void {
  applyClosed();
  check();
}

/** Plans the next iteration and returns its duration in microseconds. Without overlap one iteration may be open, with overlap two. */
export function schedule(nowUs: f64): f64 {
  const durationUs = planStep(nowUs);
  check();
  return durationUs;
}

/** The parts of `schedule` in their order: make requests active, decide which fit, form the batch, and execute the decisions. */
export function fetch(): void {
  fetchRequests();
}
export function capacity(): void {
  decideCapacity();
}
export function microBatch(): void {
  decideBatch();
}
/** Replaces `microBatch` in tests: the chunking policy shares `tokens` among all requests that fit, all of which must be contexts. */
export function chunkContexts(tokens: i32): void {
  decideChunks(tokens);
}
export function execute(nowUs: f64): f64 {
  const durationUs = carryOut(nowUs);
  check();
  return durationUs;
}

/** Processes the result of the oldest open iteration at its end. Returns the number of outbox rows. */
export function update(nowUs: f64): i32 {
  const rows = updateStep(nowUs);
  check();
  return rows;
}

/** Plans and updates several iterations while no caller needs their results. Returns the number of updates. */
export function coast(limitUs: f64, leastUs: f64, most: i32): i32 {
  return coastOn(limitUs, leastUs, most);
}

export function open(): i32 {
  return openSteps();
}
export function hasWork(): bool {
  return anyWork() || closedPending() > 0;
}
export function pause(state: i32): void {
  setPause(state);
}

/** Empties the cache for reuse. With `force`, first pauses started requests, the last first. Returns false if blocks are still in use. */
export function resetPrefixCache(force: bool): bool {
  clearPreempted();
  for (let i = runningLength() - 1; force && i >= 0; i--) if (row(running[i]).tableCount > 0) pauseRequest(running[i]);
  sealPreempted();
  if (openSteps() === 0) resumePrompts();
  const done = resetCache();
  check();
  return done;
}

export function drainEvents(): void {
  clearEvents();
}

/** Checks all invariants. A violation traps with a message that names it. The debug build checks after every call. */
export function verify(): void {
  verifyAll();
}
