/**
 * Starts the alarm thread of the wall clock. The event loop writes its next due time to shared memory, and the thread answers
 * with a message.
 */
import { type Alarm, epochUsOf } from "../clock.ts";
import { onThreadEnd } from "../thread-end.ts";
import { logUnexpected } from "../unexpected.ts";
import { DueTime } from "./due-time.ts";

/**
 * Starts the alarm thread and returns its alarm. `ring`: called shortly before the ordered time. `died`: called if the thread
 * ends; returns a text for the log. `due`: shared memory that holds the ordered time, which other threads may read, too.
 */
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
