/** The alarm thread of the wall clock, seen from the loop: one shared page of memory, one message per ring. */
import { type Alarm, epochUsOf } from "./clock.ts";
import { DueTime } from "./due-time.ts";

/** `due`: for who wants to look at it too. */
export function createAlarm(ring: () => void, due = new DueTime()): Alarm {
  const worker = new Worker(new URL("./clock-worker.ts", import.meta.url));
  worker.onmessage = ring;
  worker.postMessage(due.shared);
  worker.unref();
  return {
    order: (dueUs) => due.order(epochUsOf(dueUs) / 1000),
    close: () => worker.terminate(),
  };
}
