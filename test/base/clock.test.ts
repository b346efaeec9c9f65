/** Tests timers of the wall clock: their order, that none fires too early, and that cancelled timers do not fire. */
import { expect, test } from "bun:test";
import { WallClock } from "../../src/base/clock.ts";
import { createAlarm } from "../../src/base/time/alarm.ts";
import { SpareTime } from "../../src/base/time/spare-time.ts";

const clocks = [
  ["with its alarm", () => new WallClock(createAlarm)],
  ["without an alarm", () => new WallClock()],
] as const;

test.each(clocks)("%s: no timer of `at` or `about` fires before its time", async (_, made) => {
  using clock = made();
  const beganUs = clock.now();
  const waits = Array.from({ length: 60 }, (_, i) => ({ dueUs: beganUs + 97 * i, about: i % 3 !== 0 }));
  const woken = await Promise.all(
    waits.map(
      ({ dueUs, about }) =>
        new Promise<number>((wake) => clock[about ? "about" : "at"](dueUs, () => wake(clock.now() - dueUs))),
    ),
  );
  expect(Math.min(...woken)).toBeGreaterThanOrEqual(0);
});

test.each(clocks)(
  "%s: of timers that are due together, those of `at` fire first, and cancelled timers do not fire",
  async (_, made) => {
    using clock = made();
    const order: string[] = [];
    const dueUs = clock.now() + 2000;
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.about(dueUs, () => order.push("about"));
    clock.about(dueUs, () => order.push("cancelled"))();
    clock.at(dueUs, () => order.push("at"));
    clock.at(dueUs, () => order.push("cancelled"))();
    clock.about(dueUs + 1, () => resolve());
    // Stay busy until all timers are overdue.
    while (clock.now() < dueUs + 2000);
    await promise;
    expect(order).toEqual(["at", "about"]);
  },
);

test.each(clocks)("%s: nextUs() ignores timers of `about` and cancelled timers", (_, made) => {
  using clock = made();
  const dueUs = clock.now() + 1e6;
  clock.about(clock.now() + 1000, () => {});
  expect(clock.nextUs()).toBe(Number.POSITIVE_INFINITY);
  clock.at(dueUs, () => {})();
  clock.at(dueUs + 1, () => {});
  expect(clock.nextUs()).toBe(dueUs + 1);
});

test.each(clocks)("%s: nextUs() says that a late callback of `turn` is due until it runs", async (_, made) => {
  using clock = made();
  const seen: number[] = [];
  const ran = Promise.withResolvers<void>();
  clock.turn(() => seen.push(clock.nextUs()), true);
  clock.turn(ran.resolve);
  expect(clock.nextUs()).toBeLessThanOrEqual(clock.now());
  await ran.promise;
  expect(seen).toEqual([Number.POSITIVE_INFINITY]);
});

test("long work that waits for a gap lets a late callback run first", async () => {
  using clock = new WallClock();
  const order: string[] = [];
  const work = new SpareTime(clock, 1000, 1_000_000).pass().then((found) => order.push(`work ${found}`));
  clock.turn(() => order.push("step"), true);
  await work;
  expect(order).toEqual(["step", "work true"]);
});
