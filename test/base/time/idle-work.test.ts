import { expect, test } from "bun:test";
import { workWhenIdle } from "../../../src/base/time/idle-work.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";

/** Lets the promises of a piece settle between two steps of the clock. */
async function pass(clock: VirtualClock, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    clock.advanceBy(100_000);
    await Bun.sleep(0);
  }
}

test("pieces are done in order, one at a time, only while the server is idle", async () => {
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
  // Nothing is left to wake for.
  expect(clock.nextUs()).toBe(Number.POSITIVE_INFINITY);
});

test("a piece that fails does not keep the others from being done; after the end none begins", async () => {
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
