// The exported calls of the core with vLLM's policy. Order: write the configuration, `init`, fill the tables whose
// addresses are in the words, then submit, schedule and update.
import { allocateAdapters, publishAdapters } from "../adapters";
import { allocateAnswers, publishAnswers } from "../answers";
import { allocateArena, publishArena } from "../arena";
import { allocateBlocks, initBlocks, resetCache } from "../blocks";
import { measure, measuredBytes } from "../column";
import { readConfig } from "../config";
import { allocateEvents, clearEvents, publishEvents } from "../events";
import { allocateFetch } from "../fetch";
import { configAt, setTotal, setting, setWord, totalsAt, wordsAt } from "../header";
import { allocateHistograms, publishHistograms } from "../histogram";
import { ABI, Config, Reason, SLOTS, Total, Word } from "../layout";
import { initNoise } from "../noise";
import { allocateOutbox, publishOutbox } from "../outbox";
import { allocatePrefixes } from "../prefix";
import { allocateQueues, publishQueues, removeRunningAt, running, runningLength } from "../queues";
import { allocateSlots, publishSlots, slotOf } from "../slots";
import { allocateSteps, clearPreempted, openSteps, publishSteps, sealPreempted } from "../steps";
import {
  allocateInput,
  feed as feedSlot,
  publishInput,
  submit as submitRequest,
  unblock as unblockSlot,
} from "../submit";
import { allocateTiming, publishTiming, readTiming } from "../timing";
import { allocateVerify, check, verify as verifyAll } from "../verify";
import { coast as coastOn, publishCoast } from "./coast";
import {
  allocateClosing,
  applyClosed,
  closedPending,
  close as closeRequest,
  observeChoices as countChoices,
  preempt,
} from "./end";
import { allocateScheduler, hasWork as anyWork, initScheduler, schedule as planStep, setPause } from "./schedule";
import { update as updateStep } from "./update";

export { configAt, totalsAt, wordsAt };

/** Returns the bytes that `init` would allocate with the current configuration. */
export function bytesNeeded(): f64 {
  readConfig();
  measure(true);
  allocateAll();
  measure(false);
  return measuredBytes();
}

/** Applies the current words and table of step times and noise from the next plan on. Scheduling decisions do not depend on them. */
export function retime(): void {
  readTiming();
  initNoise();
}

/** Allocates all memory. The caller has checked `bytesNeeded`. */
export function init(): void {
  readConfig();
  allocateAll();
  initBlocks();
  initScheduler();
  initNoise();
  publishAdapters();
  publishAnswers();
  publishArena();
  publishCoast();
  publishEvents();
  publishHistograms();
  publishInput();
  publishOutbox();
  publishQueues();
  publishSlots();
  publishSteps();
  publishTiming();
  const from = setting(Config.CountersFrom);
  for (let i = 0; i < Total.Count; i++) setTotal(<Total>i, from);
  setWord(Word.Abi, ABI);
}

function allocateAll(): void {
  allocateSlots();
  allocateAdapters();
  allocateArena();
  allocateBlocks();
  allocatePrefixes();
  allocateFetch();
  allocateQueues();
  allocateSteps();
  allocateOutbox();
  allocateEvents();
  allocateInput();
  allocateClosing();
  allocateScheduler(SLOTS);
  allocateHistograms();
  allocateAnswers();
  allocateTiming();
  allocateVerify();
}

/** Submits the request in the input buffer and in the fields of Submit. Returns its handle, or NONE if the core is full. */
export function submit(): i32 {
  const handle = submitRequest();
  check();
  return handle;
}

/** Feeds `ids` output ids from the input buffer. Returns false if the request is gone. */
export function feed(handle: i32, ids: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  feedSlot(slot, ids);
  return true;
}

/** Lets a request with SUBMIT_BLOCKED be admitted from the next plan on. Returns false if the request is gone. */
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

/** Plans the next step and returns its duration in microseconds. At most one step (synchronous) or two steps may be open. */
export function schedule(nowUs: f64): f64 {
  const durationUs = planStep(nowUs);
  check();
  return durationUs;
}

/** Processes the result of the oldest open step at its end. Returns the number of outbox rows. */
export function update(nowUs: f64): i32 {
  const rows = updateStep(nowUs);
  check();
  return rows;
}

/** Plans and updates several steps while no caller needs their results (coast.ts). Returns the number of updates. */
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

/** Empties the prefix cache. With `force`, first preempts running requests, the last first. Returns false if blocks are still in use. */
export function resetPrefixCache(force: bool): bool {
  clearPreempted();
  while (force && runningLength() > 0) {
    const slot = running[runningLength() - 1];
    removeRunningAt(runningLength() - 1);
    preempt(slot, true);
  }
  sealPreempted();
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
