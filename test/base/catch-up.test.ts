/** Tests `catchUp`, which calls overdue callbacks of the wall clock during a long turn of the event loop. */
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

test("each call runs one overdue callback, the earliest first, and no callback runs twice", async () => {
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

test("a callback whose time has not come is not called", () => {
  const clock = started();
  const startUs = clock.now();
  clock.at(startUs + 3_600_000_000, () => expect.unreachable());
  clock.catchUp();
  clock.catchUp();
});

test("a timer set within a callback fires later, and another overdue timer fires without catchUp", async () => {
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
    clock.catchUp(); // has no effect inside a callback
  });
  clock.at(startUs + 1500, () => woken.push("second"));
  busyUntil(clock, startUs + 3000);
  clock.catchUp();
  expect(woken).toEqual(["first"]);
  await done.promise;
  expect(woken).toEqual(["first", "second", "third"]);
});

test("a cancelled timer does not fire", () => {
  const clock = started();
  let woken = 0;
  const startUs = clock.now();
  const cancel = clock.at(startUs + 100, () => woken++);
  cancel();
  busyUntil(clock, startUs + 2000);
  clock.catchUp();
  expect(woken).toBe(0);
});

test("after close() no timer fires", () => {
  const clock = started();
  const startUs = clock.now();
  clock.at(startUs + 100, () => expect.unreachable());
  busyUntil(clock, startUs + 2000);
  clock.close();
  clock.catchUp();
});
