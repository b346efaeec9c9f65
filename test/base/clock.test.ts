/** Who is woken when, by the wall clock? In which order, never too early, and no longer when it was taken back. */
import { expect, test } from "bun:test";
import { WallClock } from "../../src/base/clock.ts";
import { createAlarm } from "../../src/base/time/alarm.ts";

const clocks = [
  ["with its alarm", () => new WallClock(createAlarm)],
  ["without one", () => new WallClock()],
] as const;

test.each(clocks)("%s: nobody is woken before the time, whichever way it waits", async (_, made) => {
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
  "%s: among those that are due together `at` goes first, and nobody is woken who took it back",
  async (_, made) => {
    using clock = made();
    const order: string[] = [];
    const dueUs = clock.now() + 2000;
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.about(dueUs, () => order.push("about"));
    clock.about(dueUs, () => order.push("taken back"))();
    clock.at(dueUs, () => order.push("at"));
    clock.at(dueUs, () => order.push("taken back"))();
    clock.about(dueUs + 1, () => resolve());
    // All of them are overdue by the time the clock may look.
    while (clock.now() < dueUs + 2000);
    await promise;
    expect(order).toEqual(["at", "about"]);
  },
);

test.each(clocks)("%s: who waits by `about` is nothing that is due to others", (_, made) => {
  using clock = made();
  const dueUs = clock.now() + 1e6;
  clock.about(clock.now() + 1000, () => {});
  expect(clock.nextUs()).toBe(Number.POSITIVE_INFINITY);
  clock.at(dueUs, () => {})();
  clock.at(dueUs + 1, () => {});
  expect(clock.nextUs()).toBe(dueUs + 1);
});
