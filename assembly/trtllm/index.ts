// What can be asked of the core of TensorRT-LLM's policies? The calls of ../index.ts, by the same names, and the parts of
// `schedule` one by one. Order of a life: write both configurations, `init`, fill the tables, then submit, schedule, update.
import { publishAdapters, takeAdapters } from "../adapters";
import { publishAnswers, takeAnswers } from "../answers";
import { publishArena, takeArena } from "../arena";
import { measure, measuredBytes } from "../column";
import { prefixCaching, readConfig } from "../config";
import { clearEvents, publishEvents, takeEvents } from "../events";
import { configAt, setTotal, setting, setWord, totalsAt, wordsAt } from "../header";
import { publishHistograms, takeHistograms } from "../histogram";
import { ABI, Config, NONE, Reason, SUBMIT_HASHED, Total, Word } from "../layout";
import { initNoise } from "../noise";
import { publishOutbox, takeOutbox } from "../outbox";
import { publishQueues, running, runningLength, takeQueues } from "../queues";
import { publishSlots, row, slotOf, takeSlots } from "../slots";
import { clearPreempted, openSteps, publishSteps, sealPreempted, takeSteps } from "../steps";
import {
  feed as feedSlot,
  givenRoot,
  publishInput,
  submit as submitRequest,
  takeInput,
  unblock as unblockSlot,
} from "../submit";
import { publishTiming, readTiming, takeTiming } from "../timing";
import { publishCoast } from "../vllm/coast";
import { closedPending, close as closeRequest, observeChoices as countChoices, takeClosing } from "../vllm/end";
import { capacity as decideCapacity, takeCapacity } from "./capacity";
import { coast as coastOn } from "./coast";
import { partialReuse, readTrtConfig, trtConfigAt } from "./config";
import { applyClosed, release } from "./end";
import { kvTotalsAt, trtWordsAt } from "./header";
import { publishLines, startLine, takeLines } from "./line";
import { microBatch as decideBatch, chunkContexts as decideChunks, takeMicroBatch } from "./micro-batch";
import { resumePrompts, takePauses } from "./pause";
import { initPool, resetCache, takePool } from "./pool";
import { retain as retainTokens, takeRetention } from "./retention";
import {
  hasWork as anyWork,
  execute as carryOut,
  fetch as fetchRequests,
  pause as pauseRequest,
  schedule as planStep,
  publishScheduler,
  setPause,
  takeScheduler,
} from "./schedule";
import { keepPrompt, takeTokens } from "./tokens";
import { takeTree } from "./tree";
import { update as takeOutcome } from "./update";
import { check, takeVerify, verify as verifyAll } from "./verify";

export { configAt, kvTotalsAt, totalsAt, trtConfigAt, trtWordsAt, wordsAt };

/** Bytes that `init` would take with the configuration as written. */
export function bytesNeeded(): f64 {
  readConfig();
  readTrtConfig();
  measure(true);
  takeAll();
  measure(false);
  return measuredBytes();
}

/** From the next plan on steps last as the words of timing and noise say now, and the table. */
export function retime(): void {
  readTiming();
  initNoise();
}

/** Takes all memory. The caller has checked `bytesNeeded`. */
export function init(): void {
  readConfig();
  readTrtConfig();
  takeAll();
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

function takeAll(): void {
  takeSlots();
  takeLines();
  takeAdapters();
  takeArena();
  takeTokens();
  takePool();
  takeTree();
  takeQueues();
  takeSteps();
  takeOutbox();
  takeEvents();
  takeInput();
  takeClosing();
  takeRetention();
  takePauses();
  takeCapacity();
  takeMicroBatch();
  takeScheduler();
  takeHistograms();
  takeAnswers();
  takeTiming();
  takeVerify();
}

/** The new request that the input buffer and the row of Submit describe; its handle or NONE (full). */
export function submit(): i32 {
  const handle = submitRequest();
  if (handle === NONE) return NONE;
  const slot = slotOf(handle);
  startLine(slot);
  if (partialReuse && prefixCaching && (row(slot).flags & SUBMIT_HASHED) === 0 && !keepPrompt(slot, givenRoot())) {
    release(slot);
    return NONE;
  }
  check();
  return handle;
}

/** How long the content of a request that was just submitted is to stay: a row and `ranges` more in the input buffer, see RANGE_WORDS. */
export function retain(handle: i32, ranges: i32): void {
  const slot = slotOf(handle);
  if (slot >= 0) retainTokens(slot, ranges);
}

/** `ids` more scripted output ids from the input buffer; false when the request is gone. */
export function feed(handle: i32, ids: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  feedSlot(slot, ids);
  return true;
}

/** A request submitted with SUBMIT_BLOCKED may become active from the next plan on; false when it is gone already. */
export function unblock(handle: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  unblockSlot(slot);
  check();
  return true;
}

/** Ends a request from the front: counted now, freed before the next update's rows. False when it is gone already. */
export function close(handle: i32, reason: i32, tokens: i32, nowUs: f64): bool {
  return closeRequest(handle, <Reason>reason, tokens, nowUs);
}

/** All `choices` of a prompt have ended, the longest with so many tokens: for those submitted with SUBMIT_CHOICE. */
export function observeChoices(choices: i32, longest: i32): void {
  countChoices(choices, longest);
}

/** Frees what was closed, at once: for an engine without an open step. */
export function flush(): void {
  applyClosed();
  check();
}

/** Plans the next iteration; its duration in microseconds. At most one, with overlap two may be open. */
export function schedule(nowUs: f64): f64 {
  const durationUs = planStep(nowUs);
  check();
  return durationUs;
}

/** The parts of `schedule`, in this order: who becomes active, who may hold memory, who runs, and the rest. */
export function fetch(): void {
  fetchRequests();
}
export function capacity(): void {
  decideCapacity();
}
export function microBatch(): void {
  decideBatch();
}
/** In place of `microBatch`: the chunking policy alone shares `tokens` among all that fit, which are in their context. */
export function chunkContexts(tokens: i32): void {
  decideChunks(tokens);
}
export function execute(nowUs: f64): f64 {
  const durationUs = carryOut(nowUs);
  check();
  return durationUs;
}

/** Takes in the oldest open iteration at its end; the number of outbox rows. */
export function update(nowUs: f64): i32 {
  const rows = takeOutcome(nowUs);
  check();
  return rows;
}

/** Plans and takes in while nobody outside is concerned; the number of iterations taken in. */
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

/** Nothing can be reused any more; with `force` those that started are paused first, from the back. False while blocks are in use. */
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

/** All invariants; a broken one is a trap that names it. The debug core checks after every call. */
export function verify(): void {
  verifyAll();
}
