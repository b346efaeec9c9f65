/** Tests work that a server does while it is idle. */
import { expect, test } from "bun:test";
import { workWhenIdle } from "../../../src/base/time/idle-work.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";

/** Advances the clock in steps, and lets the promises of a piece settle after each step. */
async function pass(clock: VirtualClock, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    clock.advanceBy(100_000);
    await Bun.sleep(0);
  }
}

test("pieces of work run in order, one at a time, only while the server is idle", async () => {
  const clock = new VirtualClock();
  const done: string[] = [];
  let idle = false;
  const piece = (name: string) => async () => {
    done.push(`${name} begins`);
    await Promise.resolve();
    done.push(`${name} ends`);
  };
  workWhenIdle(clock, () => idle, [piece("a"), piece("b")]);
  expect(done).toEqual([]);
  await pass(clock, 3);
  expect(done).toEqual([]);
  idle = true;
  await pass(clock, 1);
  expect(done).toEqual(["a begins", "a ends"]);
  idle = false;
  await pass(clock, 3);
  expect(done).toHaveLength(2);
  idle = true;
  await pass(clock, 5);
  expect(done).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  // After the last piece no timer is left.
  expect(clock.nextUs()).toBe(Number.POSITIVE_INFINITY);
});

test("pieces after a failed piece still run, and after the end no piece begins", async () => {
  const clock = new VirtualClock();
  const done: string[] = [];
  const failing = [() => Promise.reject(new Error("on purpose, by a test")), () => done.push("next")];
  const stop = workWhenIdle(clock, () => true, [...failing, () => done.push("after the end")]);
  await pass(clock, 2);
  expect(done).toEqual(["next"]);
  stop();
  await pass(clock, 3);
  expect(done).toEqual(["next"]);
});
