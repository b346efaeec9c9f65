/** Tests unexpected errors: the number of log lines is limited, and a clock survives errors of its callbacks and its alarm. */
import { expect, test } from "bun:test";
import { ALARMS_MAX, type Alarm, WallClock } from "../../src/base/clock.ts";
import { LOGGED_ERRORS_MAX, STACK_LINES_MAX, UnexpectedErrors, WINDOW_MS } from "../../src/base/unexpected.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { CoreTrap } from "../../src/engine/wasm/core.ts";
import { EngineBroken, EngineClock, isBroken } from "../../src/kernel/broken-engine.ts";

test("an error is logged once with its stack, and a storm of errors takes few lines", () => {
  const lines: string[] = [];
  let nowMs = 0;
  const errors = new UnexpectedErrors(
    (line) => lines.push(line),
    () => nowMs,
  );
  const error = new Error("planted");
  for (let i = 0; i < 3; i++) errors.log("a timer failed", error);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toStartWith("understudy: a timer failed: ");
  expect(lines[0]).toContain("planted");
  expect(lines[0]).toContain("unexpected.test.ts");
  for (let i = 1; i < 100_000; i++) errors.log("a timer failed", new Error(`number ${i}`));
  expect(lines).toHaveLength(LOGGED_ERRORS_MAX + 4); // and a line at 100, 1000, 10,000 and 100,000 errors
  expect(lines.at(-1)).toContain("100000 unexpected errors");
  nowMs += WINDOW_MS + 1;
  errors.log("a timer failed", new Error("later"));
  expect(lines.at(-1)).toContain("later");
});

test("a long stack is cut, and a reason that is no Error is shown as text", () => {
  const lines: string[] = [];
  const errors = new UnexpectedErrors(
    (line) => lines.push(line),
    () => 0,
  );
  const long = new Error("planted");
  long.stack = `Error: planted\n${"    at f (a.ts:1:1)\n".repeat(1000)}`;
  errors.log("x", long);
  expect(lines[0]!.split("\n")).toHaveLength(STACK_LINES_MAX);
  errors.log("x", undefined);
  expect(lines[1]).toBe("understudy: x: undefined");
});

test("a callback that throws is reported, and all others are still called", async () => {
  const failed: string[] = [];
  using clock = new WallClock(undefined, (error) => failed.push(String(error)));
  const called: string[] = [];
  const done = Promise.withResolvers<void>();
  const throws = (where: string) => () => {
    called.push(where);
    throw new Error(where);
  };
  clock.at(clock.now(), throws("at"));
  clock.about(clock.now(), throws("about"));
  clock.turn(throws("turn"));
  clock.soon(throws("soon"));
  // Timers of `about` may fire after those of `at`, on a busy machine by milliseconds.
  const look = () => (called.length < 4 ? clock.at(clock.now() + 3000, look) : done.resolve());
  look();
  await done.promise;
  expect(called.sort()).toEqual(["about", "at", "soon", "turn"]);
  expect(failed.sort()).toEqual(["Error: about", "Error: at", "Error: soon", "Error: turn"]);
});

test("a dead alarm is replaced by a new one, and by timers after several deaths", async () => {
  let made = 0;
  const dies = (_ring: () => void, died: () => string): Alarm => {
    made++;
    return { order: () => queueMicrotask(() => died()), close() {} };
  };
  using clock = new WallClock(dies);
  for (let i = 0; i < 3; i++) {
    const dueUs = clock.now() + 5000;
    await new Promise<void>((wake) => clock.at(dueUs, wake));
    expect(clock.now()).toBeGreaterThanOrEqual(dueUs);
  }
  expect(made).toBe(ALARMS_MAX);
});

test("an error in an engine's callback is reported as a broken engine, and does not reach the clock's owner", () => {
  const broke: unknown[] = [];
  const whole = new VirtualClock();
  const clock = new EngineClock(whole, (error) => broke.push(error));
  const trap = new CoreTrap("planted");
  clock.at(1, () => {
    throw trap;
  });
  clock.turn(() => {
    throw new TypeError("planted");
  });
  whole.drain();
  expect(broke.map(String)).toEqual(["TypeError: planted", "CoreTrap: planted"]);
  expect([trap, new EngineBroken("x"), new WebAssembly.RuntimeError("x")].every(isBroken)).toBe(true);
  expect([new TypeError("x"), "x", null].some(isBroken)).toBe(false);
});
