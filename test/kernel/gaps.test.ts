/** Is garbage collected when much has gathered, or when nothing comes any more? */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/clock.ts";
import { type Collection, Garbage, SpareTime } from "../../src/base/time/spare-time.ts";
import type { Cause } from "../../src/engine/lateness/causes.ts";
import { gapsOf } from "../../src/kernel/gaps.ts";
import type { Marks } from "../../src/kernel/marks.ts";

const MIB = 2 ** 20;
const SECOND_US = 1_000_000;

function world() {
  const clock = new VirtualClock();
  const collected: [atUs: number, what: Collection][] = [];
  const garbage = new Garbage(new SpareTime(clock, 60_000, 2 * SECOND_US), (what) => {
    collected.push([clock.now(), what]);
  });
  /** The promises of a gap settle between the clock's turns. */
  const pass = async (us: number) => {
    for (const end = clock.now() + us; clock.now() < end; ) {
      clock.advanceTo(Math.min(end, clock.now() + 100_000));
      await Promise.resolve();
      await Promise.resolve();
    }
  };
  /** Streams whose steps leave no gap; gives what ends them. */
  const streams = () => {
    let open = true;
    const step = () => void (open && clock.at(clock.now() + 20_000, step));
    step();
    return () => {
      open = false;
    };
  };
  return { clock, garbage, collected, pass, streams };
}

test("what a burst left is collected when nothing has come for half a second; what is little is left", async () => {
  const { garbage, collected, pass } = world();
  garbage.add(3 * MIB);
  await pass(0.3 * SECOND_US);
  expect(collected).toEqual([]);
  await pass(SECOND_US);
  expect(collected).toHaveLength(1);
  garbage.add(MIB);
  await pass(60 * SECOND_US);
  expect(collected).toHaveLength(1);
});

test("where steps leave no gap it goes on beside them, when its patience is over", async () => {
  const { garbage, collected, pass, streams } = world();
  streams();
  garbage.add(4 * MIB);
  await pass(SECOND_US);
  expect(collected).toEqual([]);
  await pass(2 * SECOND_US);
  expect(collected.map(([, what]) => what)).toEqual(["young"]);
});

test("what opening streams leaves is collected beside them, after 256 that were read and opened", () => {
  const { garbage, collected } = world();
  const stream = () => {
    garbage.read();
    garbage.opened();
  };
  for (let i = 0; i < 255; i++) stream();
  expect(collected).toEqual([]);
  for (let i = 0; i < 600; i++) stream();
  expect(collected).toEqual([0, 0, 0].map((atUs) => [atUs, "young"]));
});

test("a burst of requests that is read before its first stream is opened does not wait for that", () => {
  const { garbage, collected } = world();
  for (let i = 0; i < 2000; i++) garbage.read();
  expect(collected).toHaveLength(3);
  for (let i = 0; i < 2000; i++) garbage.opened();
  expect(collected).toHaveLength(7);
});

test("after 4096 streams the next collection is a whole one, beside the steps where they leave no gap", async () => {
  const { garbage, collected, pass, streams } = world();
  streams();
  const wholes: number[] = [];
  for (let streams = 1; streams <= 10_000; streams++) {
    garbage.opened();
    if (streams % 1024 !== 0) continue;
    await pass(3 * SECOND_US);
    if (collected.at(-1)![1] === "whole, beside streams") wholes.push(streams);
  }
  expect(wholes).toEqual([4096, 8192]);
});

test("behind a burst there is one more: the last of its requests were on their way at the last one", async () => {
  const { garbage, collected, pass } = world();
  for (let i = 0; i < 5; i++) {
    garbage.add(4 * MIB);
    await pass(0.2 * SECOND_US);
  }
  garbage.add(1);
  expect(collected).toHaveLength(5);
  await pass(2 * SECOND_US);
  expect(collected.map(([, what]) => what)).toEqual(Array(6).fill("whole"));
  await pass(60 * SECOND_US);
  expect(collected).toHaveLength(6);
});

test("while it waits for a gap, what is new is collected after each further 4 MiB", async () => {
  const { garbage, collected, pass, streams } = world();
  streams();
  for (let i = 0; i < 12; i++) garbage.add(MIB);
  await pass(3 * SECOND_US);
  expect(collected.map(([, what]) => what)).toEqual(["young", "young", "young"]);
});

/** Streams have left no gap for a whole one. */
async function owing() {
  const made = world();
  const end = made.streams();
  made.garbage.add(4 * MIB);
  await made.pass(10 * SECOND_US);
  expect(made.collected.map(([, what]) => what)).toEqual(["young"]);
  return { ...made, end };
}

test("a whole one that found no gap is made up for when the streams are over, and there is one more behind it", async () => {
  const { collected, pass, end } = await owing();
  end();
  // Found by bench:hold: 80 MB of what it had collected were not given back before the next one.
  await pass(60 * SECOND_US);
  expect(collected.map(([, what]) => what)).toEqual(["young", "whole", "whole"]);
});

test("the one more behind a made-up one, where it finds no gap, is made up for once", async () => {
  const { collected, pass, streams, ...first } = await owing();
  let { end } = first;
  // A gap between streams, again and again: just long enough for what is owed.
  for (let gap = 0; gap < 10; gap++) {
    end();
    while (collected.at(-1)![1] !== "whole" && gap < 2) await pass(SECOND_US / 100);
    await pass(SECOND_US / 100);
    end = streams();
    await pass(5 * SECOND_US);
  }
  end();
  expect(collected.map(([, what]) => what)).toEqual(["young", "whole", "young", "whole"]);
});

test("what is due every half a second, shortly behind each look for a gap, does not put it off for ever", async () => {
  const { clock, collected, pass, end } = await owing();
  // Found by bench:hold: 130 MB stayed for as long as nothing was asked.
  const beside = () => {
    clock.at(clock.now() + 19_000, () => {});
    clock.at(clock.now() + SECOND_US / 2, beside);
  };
  beside();
  end();
  await pass(4 * SECOND_US);
  expect(collected.map(([, what]) => what)).toEqual(["young", "whole", "whole"]);
});

test("what is new is collected at once where no step is due for a while, in a gap where one is", async () => {
  const clock = new VirtualClock();
  let collections = 0;
  const timed = (_: Cause, collect: () => void) => {
    collect();
    collections++;
  };
  const marks = { timed };
  const { garbage } = gapsOf(clock, marks as unknown as Marks);
  const burst = () => {
    for (let i = 0; i < 512; i++) garbage.read();
    return collections;
  };
  expect(burst()).toBe(1);
  clock.at(clock.now() + 1000, () => {});
  expect(burst()).toBe(1);
  clock.advanceTo(clock.now() + 1000);
  await Promise.resolve();
  expect(collections).toBe(2);
  // One waits for a gap, and does not wait any longer when the next is asked for: the two are one.
  clock.at(clock.now() + 1000, () => {});
  burst();
  expect(collections).toBe(2);
  expect(burst()).toBe(3);
  clock.advanceTo(clock.now() + 1000);
  await Promise.resolve();
  expect(collections).toBe(3);
});
