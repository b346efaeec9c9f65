/** Checks the cause of a late step for different kinds of work between its due time and its start. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { CAUSE_NAMES, Cause, Causes } from "../../../src/engine/lateness/causes.ts";

/** A thread and its process that have used this much processor time. */
const hostOf = (threadUs: number, processUs = threadUs) => ({ threadUs: () => threadUs, processUs: () => processUs });

test.each<[string, (causes: Causes) => void, readonly [thread: number, process?: number], Cause]>([
  ["a scrape fills it", (c) => c.did(Cause.Scrape, 990, 5000), [4000], Cause.Scrape],
  ["a scrape fills half of it", (c) => c.did(Cause.Scrape, 0, 3000), [4000], Cause.Scrape],
  [
    "a scrape fills less: something unnamed used the processor",
    (c) => c.did(Cause.Scrape, 0, 2500),
    [4000],
    Cause.Loop,
  ],
  ["a scrape that was over before", (c) => c.did(Cause.Scrape, 0, 1000), [4000], Cause.Loop],
  [
    "several short pieces of one kind",
    (c) => {
      for (let at = 1000; at < 5000; at += 400) c.did(Cause.Log, at, at + 300);
    },
    [4000],
    Cause.Log,
  ],
  [
    "the larger of two",
    (c) => {
      c.did(Cause.Collection, 1000, 3100);
      c.did(Cause.Scrape, 3100, 5000);
    },
    [4000],
    Cause.Collection,
  ],
  ["the step before", (c) => c.stepped(900, 4500), [4000], Cause.Writing],
  ["no processor", () => {}, [300], Cause.Host],
  ["no processor while the encoder works", (c) => c.began(Cause.Tokenization, 500), [300, 4000], Cause.Tokenization],
  ["no processor while the encoder waits as well", (c) => c.began(Cause.Tokenization, 500), [300, 900], Cause.Host],
  [
    "no processor after the encoder worked",
    (c) => {
      c.began(Cause.Tokenization, 500);
      c.ended(Cause.Tokenization, 900);
    },
    [300, 4000],
    Cause.Host,
  ],
  [
    "no processor, and the encoder finished only during that time",
    (c) => {
      c.began(Cause.Tokenization, 500);
      c.ended(Cause.Tokenization, 3000);
    },
    [300, 4000],
    Cause.Tokenization,
  ],
  ["the encoder works, and the thread has its processor", (c) => c.began(Cause.Tokenization, 500), [4000], Cause.Loop],
])("the cause of a late step is found: %s", (_, happened, usedUs, wanted) => {
  const causes = new Causes(hostOf(...usedUs));
  happened(causes);
  // Records of the step before are useless for a thread that counts from 0.
  expect(CAUSE_NAMES[causes.of(1000, 5000) - 1]).toBe(CAUSE_NAMES[wanted - 1]!);
});

test("steps that are overdue together have one cause, until another cause delays one", () => {
  let usedUs = 0;
  const causes = new Causes({ threadUs: () => usedUs, processUs: () => usedUs });
  // No thread of ours ran for 80 ms, in which four steps of 20 ms were due.
  const found = [0, 20_000, 40_000, 60_000].map((dueUs, i) => {
    const startUs = 80_000 + 500 * i;
    const cause = causes.of(dueUs, startUs);
    usedUs += 400;
    causes.stepped(startUs, startUs + 400);
    return cause;
  });
  expect(found).toEqual([Cause.Host, Cause.Host, Cause.Host, Cause.Host]);
  causes.did(Cause.Scrape, 81_900, 92_000);
  expect(causes.of(80_000, 92_000)).toBe(Cause.Scrape);
});

test("without processor times, unrecorded work counts as the loop's", () => {
  expect(new Causes().of(0, 10_000)).toBe(Cause.Loop);
});

test("garbage collection since the last step is detected, if this process had the processor", async () => {
  let usedUs = 0;
  const causes = new Causes({ threadUs: () => 0, processUs: () => usedUs });
  causes.stepped(0, 10);
  // A WeakRef that was read stays alive until the end of the turn.
  for (let i = 0; i < 3; i++) {
    await Bun.sleep(1);
    Bun.gc(true);
  }
  expect(causes.of(1000, 5000)).toBe(Cause.Host);
  usedUs = 4000;
  expect(causes.of(11_000, 15_000)).toBe(Cause.Collection);
  // The host collects garbage at any time, so it may happen after this step, but not after each of twenty.
  const later = new Set<Cause>();
  for (let step = 1; step <= 20 && !later.has(Cause.Host); step++) {
    causes.stepped(step * 20_000, step * 20_000 + 10);
    usedUs += 4000;
    await Bun.sleep(1);
    later.add(causes.of(step * 20_000 + 1000, step * 20_000 + 4000));
  }
  expect(later).toContain(Cause.Host);
});

test("for any recorded work, the cause is a documented one", () => {
  const piece = fc.tuple(fc.integer({ min: 1, max: 8 }), fc.nat(10_000), fc.nat(5000));
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 200 }),
      fc.nat(10_000),
      fc.integer({ min: 1001, max: 9000 }),
      (all, due, by) => {
        const causes = new Causes(hostOf(0));
        for (const [cause, from, long] of all) causes.did(cause, from, from + long);
        expect(CAUSE_NAMES[causes.of(due, due + by) - 1]).toBeDefined();
      },
    ),
  );
});
