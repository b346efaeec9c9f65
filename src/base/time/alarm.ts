/** The alarm thread of the wall clock, seen from the loop: one shared page of memory, one message per ring. */
import { type Alarm, epochUsOf } from "../clock.ts";
import { onThreadEnd } from "../thread-end.ts";
import { logUnexpected } from "../unexpected.ts";
import { DueTime } from "./due-time.ts";

/** `due`: memory in which other threads may see when the loop is due next. `died`: see `MakeAlarm`. */
export function createAlarm(ring: () => void, died: () => string, due = new DueTime()): Alarm {
  const worker = new Worker(new URL("./clock-worker.ts", import.meta.url));
  worker.onmessage = ring;
  const forget = onThreadEnd(worker, (why) => logUnexpected(`the alarm thread ended, ${died()}`, why));
  worker.postMessage(due.shared);
  worker.unref();
  return {
    order: (dueUs) => due.order(epochUsOf(dueUs) / 1000),
    close() {
      forget();
      worker.terminate();
    },
  };
}
