/**
 * Tests a thread that is interrupted between `Atomics.add` and `Atomics.notify`. The late `notify` must not make a
 * waiting thread take an order twice.
 */
import { afterEach, expect, spyOn, test } from "bun:test";
import { WallClock } from "../../src/base/clock.ts";
import { DueTime } from "../../src/base/time/due-time.ts";
import { Renderer } from "../../src/metrics/renderer.ts";
import { emptyEngine, emptySnapshot, heldOf, setup } from "./snapshots.ts";

/** Longer than printing a page of these numbers takes, so that the worker sleeps again before the late `notify`. */
const LATE_MS = 60;
const { notify, wait } = Atomics;
const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Delays each `Atomics.notify` of this thread. */
function notifyLate(): void {
  spyOn(Atomics, "notify").mockImplementation((words: unknown, at: number, count?: number) => {
    wait(asleep, 0, 0, LATE_MS);
    return notify(words as Int32Array, at, count);
  });
}

afterEach(() => {
  spyOn(Atomics, "notify").mockRestore();
});

test("with a late notify, a page is delivered once and to the scrape that ordered it", async () => {
  notifyLate();
  const clock = new WallClock();
  let steps = 0;
  const numbers = () => heldOf(emptySnapshot([{ ...emptyEngine(), steps: ++steps }]));
  const renderer = new Renderer(numbers, setup, clock);
  for (let scrape = 0; scrape < 20; scrape++) {
    const order = renderer.page("understudy");
    const atLeast = steps;
    const page = new TextDecoder().decode(await order);
    expect(Number(/steps_total\{engine="0"\} (\S+)/.exec(page)![1])).toBeGreaterThanOrEqual(atLeast);
  }
  renderer.stop();
  clock.close();
}, 30_000);

test("a thread that waits for the next order ignores the late notify of the last one", async () => {
  const due = new DueTime();
  // Is busy when an order comes, so that it takes the order without sleeping, and asleep when the order's notify comes.
  const script = `
    import { DueTime } from ${JSON.stringify(new URL("../../src/base/time/due-time.ts", import.meta.url).href)};
    self.onmessage = ({ data }) => {
      const due = new DueTime(data);
      for (let seen = 0; seen < 3; seen = due.turn) {
        postMessage(seen);
        Bun.sleepSync(${LATE_MS / 3});
        due.wait(seen);
      }
      postMessage(3);
    };`;
  const url = URL.createObjectURL(new Blob([script], { type: "application/typescript" }));
  const worker = new Worker(url);
  const turns: number[] = [];
  const answered = Promise.withResolvers<void>();
  worker.onmessage = ({ data }: MessageEvent<number>) => {
    turns.push(data);
    if (data === 3) answered.resolve();
    else if (data === due.turn) due.order(0);
  };
  notifyLate();
  worker.postMessage(due.shared);
  await answered.promise;
  worker.terminate();
  URL.revokeObjectURL(url);
  expect(turns).toEqual([0, 1, 2, 3]);
});

test("a wait returns false after its time, and true at once if a newer order exists", () => {
  const due = new DueTime();
  due.order(0);
  expect(due.wait(due.turn, 5)).toBe(false);
  expect(due.wait(0, 5)).toBe(true);
});
