// Runs several steps in one call while no caller needs their results: ../vllm/coast.ts for TensorRT-LLM's policies.

import { word } from "../header";
import { Coast, Word } from "../layout";
import { muteOutbox } from "../outbox";
import { coastAt, setCoast } from "../vllm/coast";
import { hasWork, schedule } from "./schedule";
import { update } from "./update";
import { check } from "./verify";

/** Like `coast` in ../vllm/coast.ts, which documents arguments and results, with the steps of this policy. */
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
