// Runs several steps in one call while no caller needs their results. As long as no request ends, arrives or is read,
// the loop would only alternate update and schedule. This file makes the same calls in the same order.
// src/engine/loop.ts decides when to use it.
import { setAddress, word } from "../header";
import { Coast, Word } from "../layout";
import { muteOutbox } from "../outbox";
import { check } from "../verify";
import { hasWork, schedule } from "./schedule";
import { update } from "./update";

const state = memory.data(Coast.Count << 3, 8);

export function publishCoast(): void {
  setAddress(Word.CoastAt, state);
}

export function coastAt(at: Coast): f64 {
  return load<f64>(state + ((<usize>at) << 3));
}
export function setCoast(at: Coast, value: f64): void {
  store<f64>(state + ((<usize>at) << 3), value);
}

/**
 * Continues from a step boundary at which a step is open that ends at Coast.NextEndUs. Plans and updates steps while
 * the next end is before `limitUs`, no request has ended, and fewer than `most` steps were updated. A step lasts at
 * least `leastUs`. Returns the number of updates. Afterwards only those outbox rows are valid that end requests.
 */
export function coast(limitUs: f64, leastUs: f64, most: i32): i32 {
  let boundaryUs = coastAt(Coast.BoundaryUs);
  let nextEndUs = coastAt(Coast.NextEndUs);
  let lastEndUs = coastAt(Coast.LastEndUs);
  let busyUs: f64 = 0;
  let plans = 0;
  let steps = 0;
  let tokenSteps = 0;
  muteOutbox(true);
  while (steps < most && nextEndUs < limitUs && word(Word.OutEnds) === 0) {
    // Without work, only the steps in flight are left to update.
    const isLast = !hasWork();
    if (!isLast) {
      const durationUs = schedule(boundaryUs);
      check();
      busyUs += durationUs;
      plans++;
      lastEndUs = Math.max(lastEndUs, boundaryUs) + Math.max(durationUs, leastUs);
    }
    boundaryUs = nextEndUs;
    nextEndUs = isLast ? Infinity : lastEndUs;
    if (update(boundaryUs) > 0) tokenSteps++;
    check();
    steps++;
  }
  muteOutbox(false);
  setCoast(Coast.BoundaryUs, boundaryUs);
  setCoast(Coast.NextEndUs, nextEndUs);
  setCoast(Coast.LastEndUs, lastEndUs);
  setCoast(Coast.BusyUs, busyUs);
  setCoast(Coast.Plans, <f64>plans);
  setCoast(Coast.TokenSteps, <f64>tokenSteps);
  return steps;
}
