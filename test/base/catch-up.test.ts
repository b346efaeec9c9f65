/** Is who should have been woken long ago woken within a turn that lasts, once, in order, and nobody else? */
import { afterEach, expect, test } from "bun:test";
import { WallClock } from "../../src/base/clock.ts";

const clocks: WallClock[] = [];
afterEach(() => {
  for (const clock of clocks.splice(0)) clock.close();
});

function started(): WallClock {
  const clock = new WallClock();
  clocks.push(clock);
  return clock;
}

function busyUntil(clock: WallClock, us: number): void {
  while (clock.now() < us);
}

test("one at a time, the earliest first, and none again when the turn ends", async () => {
  const clock = started();
  const woken: string[] = [];
  const startUs = clock.now();
  clock.at(startUs + 2000, () => woken.push("second"));
  clock.at(startUs + 1000, () => woken.push("first"));
  clock.at(startUs + 3_600_000_000, () => woken.push("much later"));
  busyUntil(clock, startUs + 4000);
  clock.catchUp();
  expect(woken).toEqual(["first"]);
  clock.catchUp();
  clock.catchUp();
  expect(woken).toEqual(["first", "second"]);
  await Bun.sleep(5);
  expect(woken).toEqual(["first", "second"]);
});

test("nobody whose time has not come", () => {
  const clock = started();
  const startUs = clock.now();
  clock.at(startUs + 3_600_000_000, () => expect.unreachable());
  clock.catchUp();
  clock.catchUp();
});

test("a wait that begins while one is woken is kept, and another that was overdue goes on by itself", async () => {
  const clock = started();
  const woken: string[] = [];
  const done = Promise.withResolvers<void>();
  const startUs = clock.now();
  clock.at(startUs + 1000, () => {
    woken.push("first");
    clock.at(clock.now() + 1000, () => {
      woken.push("third");
      done.resolve();
    });
    busyUntil(clock, startUs + 6000);
    clock.catchUp(); // not within a wake-up
  });
  clock.at(startUs + 1500, () => woken.push("second"));
  busyUntil(clock, startUs + 3000);
  clock.catchUp();
  expect(woken).toEqual(["first"]);
  await done.promise;
  expect(woken).toEqual(["first", "second", "third"]);
});

test("who was taken back is not woken", () => {
  const clock = started();
  let woken = 0;
  const startUs = clock.now();
  const cancel = clock.at(startUs + 100, () => woken++);
  cancel();
  busyUntil(clock, startUs + 2000);
  clock.catchUp();
  expect(woken).toBe(0);
});

test("a closed clock wakes nobody", () => {
  const clock = started();
  const startUs = clock.now();
  clock.at(startUs + 100, () => expect.unreachable());
  busyUntil(clock, startUs + 2000);
  clock.close();
  clock.catchUp();
});
