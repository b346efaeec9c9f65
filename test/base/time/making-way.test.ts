/** Tests that long work on another thread sleeps while the loop's thread is busy, works otherwise, and never stops for good. */
import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { DueTime } from "../../../src/base/time/due-time.ts";
import { MakingWay } from "../../../src/base/time/making-way.ts";
import { BpeEncoder } from "../../../src/text/tokens/bpe.ts";
import { createEncoder } from "../../../src/text/tokens/encoder.ts";

const vocabularyBytes = new Uint8Array(readFileSync(new URL("../../../build/vocabulary.bin", import.meta.url)));

/** Simulates a loop that is due every `periodMs` and then writes for `writeMs`, as a thread with long work observes it. */
function world(periodMs: number, writeMs: number) {
  let nowMs = 1e12;
  const sleeps: [fromMs: number, untilMs: number][] = [];
  const startMs = nowMs;
  const periodOf = (ms: number) => Math.floor((ms - startMs - writeMs) / periodMs) + 1;
  const due = {
    get ms() {
      return startMs + periodMs * periodOf(nowMs);
    },
    get turn() {
      return periodOf(nowMs);
    },
    wait(seen: number, ms: number) {
      const fromMs = nowMs;
      while (periodOf(nowMs) === seen && nowMs - fromMs < ms) nowMs += 0.05;
      sleeps.push([fromMs, nowMs]);
      return periodOf(nowMs) !== seen;
    },
  };
  const way = new MakingWay(due, () => nowMs);
  const work = (ms: number) => {
    nowMs += ms;
  };
  return { way, sleeps, at: () => nowMs, work };
}

test("the thread works between two steps, and never while a step is due or being written", () => {
  const any = fc.record({
    periodMs: fc.integer({ min: 4, max: 40 }),
    share: fc.double({ min: 0.1, max: 0.6, noNaN: true }),
  });
  fc.assert(
    fc.property(any, ({ periodMs, share }) => {
      const { way, at, work, sleeps } = world(periodMs, periodMs * share);
      let worked = 0;
      while (worked < 100) {
        way.pass();
        const before = at();
        work(0.05);
        worked += 0.05;
        const inPeriod = (before - 1e12) % periodMs;
        // Work happens after the writing, and not just before the next due time.
        expect(inPeriod).toBeGreaterThanOrEqual(periodMs * share - 0.1);
        expect(inPeriod).toBeLessThanOrEqual(periodMs - 0.5 + 0.1);
      }
      expect(sleeps.length).toBeGreaterThan(0);
    }),
    { numRuns: 20 },
  );
});

test("if the loop is always busy, the thread still works a little every 25 ms", () => {
  const { way, at, work } = world(30, 30);
  let worked = 0;
  const fromMs = at();
  while (worked < 20) {
    way.pass();
    work(0.05);
    worked += 0.05;
  }
  expect(at() - fromMs).toBeLessThan((20 / 2 + 1) * (25 + 2 + 0.2));
});

test("the thread does not wait for an idle loop", () => {
  let waits = 0;
  const wait = () => {
    waits++;
    return true;
  };
  for (const ms of [0, 1e12 - 51, 1e12 + 0.6, 1e12 + 5000]) new MakingWay({ ms, turn: 1, wait }, () => 1e12).pass();
  expect(waits).toBe(0);
  for (const ms of [1e12 - 49, 1e12, 1e12 + 0.4]) new MakingWay({ ms, turn: 1, wait }, () => 1e12).pass();
  expect(waits).toBe(3);
});

test("an order wakes a thread that waits for it", async () => {
  const due = new DueTime();
  const folder = mkdtempSync(join(tmpdir(), "understudy-due-"));
  const script = join(folder, "waiter.ts");
  writeFileSync(
    script,
    `import { DueTime } from ${JSON.stringify(new URL("../../../src/base/time/due-time.ts", import.meta.url).pathname)};
    declare const self: Worker;
    self.onmessage = ({ data }) => {
      const due = new DueTime(data);
      postMessage("waits");
      postMessage([due.wait(0, 20_000), due.ms, due.turn, due.wait(1, 1)]);
    };`,
  );
  const waiter = new Worker(script);
  const messages: unknown[] = [];
  const done = Promise.withResolvers<void>();
  waiter.onmessage = ({ data }) => {
    messages.push(data);
    if (data === "waits") due.order(1234);
    else done.resolve();
  };
  waiter.postMessage(due.shared);
  await done.promise;
  expect(messages).toEqual(["waits", [true, 1234, 1, false]]);
  waiter.terminate();
  rmSync(folder, { recursive: true });
});

test("an encoder that makes way returns the same ids, and checks the loop often", async () => {
  const text = "The quick brown fox jumps over the lazy dog. ".repeat(500);
  let passes = 0;
  const bpe = new BpeEncoder(vocabularyBytes, undefined, () => void passes++);
  const ids = bpe.encode([text], false);
  expect(passes).toBeGreaterThan(ids.length / 64 / 1.2);
  const due = new DueTime();
  due.order(performance.timeOrigin + performance.now());
  const encoder = createEncoder(vocabularyBytes, due.shared);
  expect(await encoder.encode([text], false)).toEqual(ids);
  encoder.close();
});
