// Which steps concern nobody outside? While nothing ends, nothing comes and nobody listens, the loop would take a step in,
// plan the next, and so on: here this is one call. The same functions in the same order; src/engine/loop.ts decides when.
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
 * Goes on from a boundary with a step open that ends at Coast.NextEndUs: plans and takes in, while the next end is before
 * `limitUs` and none of the rows taken in ends a request; steps taken in, at most `most`. Afterwards the outbox holds the
 * rows that end requests, and is not to be trusted for others.
 */
export function coast(limitUs: f64, leastUs: f64, most: i32): i32 {
  let boundaryUs = coastAt(Coast.BoundaryUs);
  let nextEndUs = coastAt(Coast.NextEndUs);
  let lastEndUs = coastAt(Coast.LastEndUs);
  let busyUs: f64 = 0;
  let plans = 0;
  let steps = 0;
  let given = 0;
  muteOutbox(true);
  while (steps < most && nextEndUs < limitUs && word(Word.OutEnds) === 0) {
    // Empty once the last step is planned.
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
    if (update(boundaryUs) > 0) given++;
    check();
    steps++;
  }
  muteOutbox(false);
  setCoast(Coast.BoundaryUs, boundaryUs);
  setCoast(Coast.NextEndUs, nextEndUs);
  setCoast(Coast.LastEndUs, lastEndUs);
  setCoast(Coast.BusyUs, busyUs);
  setCoast(Coast.Plans, <f64>plans);
  setCoast(Coast.Given, <f64>given);
  return steps;
}
