/** The alarm thread of the wall clock, seen from the loop: one shared page of memory, one message per ring. */
import { type Alarm, epochUsOf } from "./clock.ts";

export function createAlarm(ring: () => void): Alarm {
  const shared = new SharedArrayBuffer(16);
  const turn = new Int32Array(shared, 0, 2);
  const dueMs = new Float64Array(shared, 8, 1);
  const worker = new Worker(new URL("./clock-worker.ts", import.meta.url));
  worker.onmessage = ring;
  worker.postMessage(shared);
  worker.unref();
  return {
    order(dueUs) {
      dueMs[0] = epochUsOf(dueUs) / 1000;
      Atomics.add(turn, 0, 1);
      Atomics.notify(turn, 0);
    },
    close: () => worker.terminate(),
  };
}
