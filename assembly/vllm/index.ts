// What can be asked of the core? The exported calls, a line or two each. Order of a life: write the configuration,
// `init`, fill the tables whose addresses the words give, then submit, schedule, update.
import { publishAdapters, takeAdapters } from "../adapters";
import { publishAnswers, takeAnswers } from "../answers";
import { publishArena, takeArena } from "../arena";
import { initBlocks, resetCache, takeBlocks } from "../blocks";
import { measure, measuredBytes } from "../column";
import { readConfig } from "../config";
import { clearEvents, publishEvents, takeEvents } from "../events";
import { takeFetch } from "../fetch";
import { configAt, setTotal, setting, setWord, totalsAt, wordsAt } from "../header";
import { publishHistograms, takeHistograms } from "../histogram";
import { ABI, Config, Reason, SLOTS, Total, Word } from "../layout";
import { initNoise } from "../noise";
import { publishOutbox, takeOutbox } from "../outbox";
import { takePrefixes } from "../prefix";
import { publishQueues, removeRunningAt, running, runningLength, takeQueues } from "../queues";
import { publishSlots, slotOf, takeSlots } from "../slots";
import { clearPreempted, openSteps, publishSteps, sealPreempted, takeSteps } from "../steps";
import { feed as feedSlot, publishInput, submit as submitRequest, takeInput, unblock as unblockSlot } from "../submit";
import { publishTiming, readTiming, takeTiming } from "../timing";
import { check, takeVerify, verify as verifyAll } from "../verify";
import { coast as coastOn, publishCoast } from "./coast";
import {
  applyClosed,
  closedPending,
  close as closeRequest,
  observeChoices as countChoices,
  preempt,
  takeClosing,
} from "./end";
import { hasWork as anyWork, initScheduler, schedule as planStep, setPause, takeScheduler } from "./schedule";
import { update as takeOutcome } from "./update";

export { configAt, totalsAt, wordsAt };

/** Bytes that `init` would take with the configuration as written. */
export function bytesNeeded(): f64 {
  readConfig();
  measure(true);
  takeAll();
  measure(false);
  return measuredBytes();
}

/** From the next plan on steps last as the words of timing and noise say now, and the table. Decisions do not look at it. */
export function retime(): void {
  readTiming();
  initNoise();
}

/** Takes all memory. The caller has checked `bytesNeeded`. */
export function init(): void {
  readConfig();
  takeAll();
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

function takeAll(): void {
  takeSlots();
  takeAdapters();
  takeArena();
  takeBlocks();
  takePrefixes();
  takeFetch();
  takeQueues();
  takeSteps();
  takeOutbox();
  takeEvents();
  takeInput();
  takeClosing();
  takeScheduler(SLOTS);
  takeHistograms();
  takeAnswers();
  takeTiming();
  takeVerify();
}

/** The new request that the input buffer and the row of Submit describe; its handle or NONE (full). */
export function submit(): i32 {
  const handle = submitRequest();
  check();
  return handle;
}

/** `ids` more scripted output ids from the input buffer; false when the request is gone. */
export function feed(handle: i32, ids: i32): bool {
  const slot = slotOf(handle);
  if (slot < 0) return false;
  feedSlot(slot, ids);
  return true;
}

/** A request submitted with SUBMIT_BLOCKED may be admitted from the next plan on; false when it is gone already. */
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

/** Plans the next step; its duration in microseconds. At most one (synchronous) or two steps may be open. */
export function schedule(nowUs: f64): f64 {
  const durationUs = planStep(nowUs);
  check();
  return durationUs;
}

/** Takes in the oldest open step at its end; the number of outbox rows. */
export function update(nowUs: f64): i32 {
  const rows = takeOutcome(nowUs);
  check();
  return rows;
}

/** Plans and takes in while nobody outside is concerned, see coast.ts; the number of steps taken in. */
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

/** Empties the prefix cache; with `force` running requests are preempted first, from the back. False while blocks are in use. */
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

/** All invariants; a broken one is a trap that names it. The debug core checks after every call. */
export function verify(): void {
  verifyAll();
}
