/** Tests that wrapped work becomes the cause of a step that it delayed, and that the wrapper changes nothing else. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { CAUSE_NAMES, Cause, Causes } from "../../src/engine/lateness/causes.ts";
import { Marks, thisHost } from "../../src/kernel/marks.ts";
import type { Encoder } from "../../src/text/tokens/types.ts";

/** A host on which the loop's thread slept while other threads of this process worked. */
const host = { threadUs: () => 0, processUs: () => 1e9 };

function world() {
  const clock = new VirtualClock();
  const causes = new Causes(host);
  /** Simulates work of `us` microseconds. */
  const busy = (us: number) => clock.skip(clock.now() + us);
  return { clock, causes, marks: new Marks(causes, clock), busy };
}
const named = (cause: Cause): string | undefined => CAUSE_NAMES[cause - 1];

test.each([
  ["log", Cause.Log],
  ["scrape", Cause.Scrape],
  ["collection", Cause.Collection],
  ["truth", Cause.Truth],
])("wrapped work on this thread is the cause: %s", (name, cause) => {
  const { causes, marks, busy } = world();
  const work = () => {
    busy(8000);
    return 7;
  };
  expect(marks.timed(cause, work)).toBe(7);
  expect(named(causes.of(500, 8000))).toBe(name);
  // Work that throws also counts.
  expect(() =>
    marks.timed(cause, () => {
      busy(8000);
      throw new Error("no");
    }),
  ).toThrow("no");
  expect(named(causes.of(8500, 16_000))).toBe(name);
});

test("printing a log line is a cause, and so is other threads' work while it lasts", () => {
  const { clock, causes, marks, busy } = world();
  const lines: string[] = [];
  marks.log((line) => {
    busy(5000);
    lines.push(line);
  })("hello");
  expect([lines, named(causes.of(0, 5000))]).toEqual([["hello"], "log"]);
  const { busy: page } = marks.of(Cause.Scrape);
  page(true);
  clock.advanceTo(20_000);
  expect(named(causes.of(12_000, 20_000))).toBe("scrape");
  page(false);
  clock.advanceTo(60_000);
  expect(named(causes.of(50_000, 60_000))).toBe("host");
});

test("an encoder's thread is a cause while it encodes, and so is work after a gap in the same turn", async () => {
  const { clock, causes, marks, busy } = world();
  const encoding = Promise.withResolvers<Uint32Array>();
  let closed = 0;
  const inner: Encoder = {
    encode: (parts, allowSpecial) => {
      expect([parts, allowSpecial]).toEqual([["text"], false]);
      return encoding.promise;
    },
    close: () => void closed++,
  };
  const encoder = marks.encoder(inner);
  expect(encoder.short).toBeUndefined();
  const ids = encoder.encode(["text"], false);
  clock.advanceTo(10_000);
  expect(named(causes.of(5000, 10_000))).toBe("tokenization");
  encoding.resolve(new Uint32Array([1]));
  expect(await ids).toEqual(new Uint32Array([1]));
  clock.advanceTo(30_000);
  expect(named(causes.of(25_000, 30_000))).toBe("host");
  encoder.close();
  expect(closed).toBe(1);
  expect(encoder.write).toBeUndefined();

  await marks.beforeLongPrompt(async () => {});
  busy(6000);
  clock.advanceTo(clock.now());
  expect(named(causes.of(31_000, 36_000))).toBe("tokenization");
});

test("ids for a constraint are generated on the encoder's thread, and count as its work", async () => {
  const { clock, causes, marks } = world();
  const writing = Promise.withResolvers<Uint32Array[]>();
  const calls: unknown[] = [];
  const { write } = marks.encoder({
    encode: async () => new Uint32Array(),
    write(structure, seeds) {
      calls.push(structure, seeds);
      return writing.promise;
    },
    close() {},
  });
  const ids = write!({ kind: "object" }, [1, 2]);
  expect(calls).toEqual([{ kind: "object" }, [1, 2]]);
  clock.advanceTo(10_000);
  expect(named(causes.of(5000, 10_000))).toBe("tokenization");
  writing.resolve([new Uint32Array([1])]);
  expect(await ids).toEqual([new Uint32Array([1])]);
  clock.advanceTo(30_000);
  expect(named(causes.of(25_000, 30_000))).toBe("host");
});

test("this thread's CPU time rises when it works, and that of the process is at least as large", () => {
  const [thread, all] = [thisHost.threadUs(), thisHost.processUs()];
  for (let i = 0, until = thread + 2000; thisHost.threadUs() < until && i < 1e8; i++);
  expect(thisHost.threadUs() - thread).toBeGreaterThanOrEqual(2000);
  expect(thisHost.processUs()).toBeGreaterThan(all);
});
