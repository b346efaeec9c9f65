// Which steps concern nobody outside? What ../coast.ts is for vLLM's policy: the same order of calls, over this one's.

import { word } from "../header";
import { Coast, Word } from "../layout";
import { muteOutbox } from "../outbox";
import { coastAt, setCoast } from "../vllm/coast";
import { hasWork, schedule } from "./schedule";
import { update } from "./update";
import { check } from "./verify";

/** As its twin, which says what is given and what comes of it; the calls of a step are this policy's. */
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
