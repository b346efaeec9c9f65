/** Checks the times of tokens to the microsecond: idle engines, arrivals during a step, and each step against the formula. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { Timing } from "../../../src/engine/config/step-times.ts";
import { parseTiming } from "../../../src/engine/timing/parse-timing.ts";
import { presetNames } from "../../../src/engine/timing/presets.ts";
import { stepUs } from "../../../src/engine/timing/timing.ts";
import { times } from "../../size.ts";
import { configOf, promptOf, World, watchPlans } from "../simulated-engine.ts";

setDefaultTimeout(60_000);

const timingOf = (text: string) => parseTiming(text) as Timing;
const modes = [true, false] as const;

describe("constant", () => {
  test("an idle engine has the given time to first token and inter-token time", () => {
    const property = fc.property(
      fc.record({ itlUs: fc.integer({ min: 1, max: 2 ** 31 }), moreUs: fc.nat(2 ** 31), startUs: fc.nat(2 ** 40) }),
      fc.record({ prompt: fc.integer({ min: 1, max: 128 }), maxTokens: fc.integer({ min: 1, max: 40 }) }),
      fc.constantFrom(...modes),
      ({ itlUs, moreUs, startUs }, { prompt, maxTokens }, asyncScheduling) => {
        const timing: Timing = { kind: "constant", ttftUs: itlUs + moreUs, itlUs };
        const world = new World(configOf({ asyncScheduling, timing }), { startUs });
        const receiver = world.submit({ promptIds: promptOf(prompt), maxTokens })!;
        world.clock.drain();
        expect(receiver.ttftUs).toBe(timing.ttftUs);
        expect(new Set(receiver.gapsUs)).toEqual(new Set(maxTokens > 1 ? [itlUs] : []));
        expect(receiver.ids.length).toBe(maxTokens);
      },
    );
    fc.assert(property, { numRuns: times(60) });
  });

  test("the text form has the same effect", () => {
    const world = new World(configOf({ timing: timingOf("constant:ttft=200ms,itl=20ms") }));
    const receiver = world.submit()!;
    world.clock.drain();
    expect(receiver.tokenUs).toEqual([200_000, 220_000, 240_000, 260_000, 280_000, 300_000, 320_000, 340_000]);
  });

  test("the engine's histograms have the same values", () => {
    const world = new World(configOf({ timing: timingOf("constant:ttft=200ms,itl=20ms") }));
    world.submit();
    world.clock.drain();
    const { timeToFirstToken, interTokenLatency, e2eLatency } = world.engine.snapshot().histograms;
    expect([timeToFirstToken.sum, timeToFirstToken.count]).toEqual([0.2, 1]);
    expect(interTokenLatency.sum).toBeCloseTo(0.14, 12);
    expect(interTokenLatency.count).toBe(7);
    expect(e2eLatency.sum).toBe(0.34);
  });
});

describe("linear", () => {
  const timing: Timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20 };

  test.each(modes)("a single request, asynchronous %p, has a prefill step, then decode steps", (asyncScheduling) => {
    const world = new World(configOf({ asyncScheduling, timing }));
    const receiver = world.submit({ promptIds: promptOf(50), maxTokens: 4 })!;
    world.clock.drain();
    expect(receiver.tokenUs).toEqual([1500, 2520, 3540, 4560]);
  });

  test("a long prompt is divided by the budget into one step per chunk", () => {
    const world = new World(configOf({ timing, maxNumBatchedTokens: 128 }));
    const receiver = world.submit({ promptIds: promptOf(300), maxTokens: 1 })!;
    world.clock.drain();
    expect(receiver.tokenUs).toEqual([3 * 1000 + 300 * 10]);
  });

  test("a request that arrives during a step waits for that step and, if asynchronous, for the planned one", () => {
    const property = fc.property(
      fc.constantFrom(...modes),
      fc.integer({ min: 1, max: 20_000 }),
      fc.integer({ min: 1, max: 100 }),
      (asyncScheduling, atUs, prompt) => {
        const world = new World(configOf({ asyncScheduling, timing }));
        const first = world.submit({ promptIds: promptOf(20, 1), maxTokens: 40 })!;
        world.clock.advanceTo(atUs);
        // The tokens of the first request mark the ends of the steps: 1200 for the prefill, then 1020 each.
        const ends = Array.from({ length: 40 }, (_, i) => 1200 + 1020 * i);
        const second = world.submit({ promptIds: promptOf(prompt, 2), maxTokens: 2 })!;
        world.clock.drain();
        const running = ends.findIndex((us) => us > atUs);
        const startUs = ends[running + (asyncScheduling ? 1 : 0)]!;
        expect(second.tokenUs[0]!).toBe(startUs + 1000 + 20 + 10 * prompt);
        expect(first.tokenUs).toContain(second.tokenUs[0]!);
      },
    );
    fc.assert(property, { numRuns: times(60) });
  });

  test("an idle engine plans two steps at once, so a request one microsecond later waits for both", () => {
    for (const [asyncScheduling, firstUs] of [
      [true, 1200 + 1020 + 1220],
      [false, 1200 + 1220],
    ] as const) {
      const world = new World(configOf({ asyncScheduling, timing }));
      world.submit({ promptIds: promptOf(20, 1) });
      world.clock.advanceTo(1);
      const second = world.submit({ promptIds: promptOf(20, 2) })!;
      world.clock.drain();
      expect(second.tokenUs[0]!).toBe(firstUs);
    }
  });

  test("requests of the same turn are in the same step, in order of arrival", () => {
    const world = new World(configOf({ timing, maxNumBatchedTokens: 128 }));
    const all = [1, 2, 3].map((stream) => world.submit({ promptIds: promptOf(50, stream), maxTokens: 1 })!);
    world.clock.drain();
    expect(all.map(({ tokenUs }) => tokenUs[0]!)).toEqual([2280, 2280, 2280 + 1000 + 220]);
  });

  test("an idle engine plans at the next arrival", () => {
    const world = new World(configOf({ timing }));
    for (const us of [0, 10_000, 3_000_000, 2 ** 33]) {
      world.clock.advanceTo(us);
      const receiver = world.submit({ promptIds: promptOf(20, us % 97), maxTokens: 3 })!;
      world.clock.drain();
      expect(receiver.tokenUs.map((at) => at - us)).toEqual([1200, 2220, 3240]);
    }
  });
});

test("without simulated time a step lasts a microsecond in virtual time", () => {
  const world = new World(configOf({ timing: { kind: "none" } }));
  const receiver = world.submit({ maxTokens: 5 })!;
  world.clock.drain();
  expect(receiver.tokenUs).toEqual([1, 2, 3, 4, 5]);
});

describe("each step lasts as long as the formula says", () => {
  const timings: Timing[] = [
    ...presetNames.map(timingOf),
    { kind: "linear", baseUs: 4321.7, prefillUs: 0.37, decodeUs: 31.9 },
    { kind: "constant", ttftUs: 300, itlUs: 7 },
  ];
  const requests = fc.array(
    fc.record({
      gapUs: fc.integer({ min: 1, max: 60_000 }),
      stream: fc.nat(3),
      prompt: fc.integer({ min: 1, max: 400 }),
      maxTokens: fc.integer({ min: 1, max: 40 }),
      priority: fc.nat(2),
    }),
    { minLength: 1, maxLength: 25, size: "max" },
  );

  test("the formula holds for any load in any mode, even if requests are preempted within the step being planned", () => {
    let steps = 0;
    const seen = new Set<string>();
    const property = fc.property(
      fc.constantFrom(...timings),
      fc.record({
        asyncScheduling: fc.boolean(),
        schedulingPolicy: fc.constantFrom("fcfs" as const, "priority" as const),
        numGpuBlocks: fc.integer({ min: 34, max: 80 }),
        maxNumBatchedTokens: fc.constantFrom(64, 200, 512),
      }),
      requests,
      (timing, changes, list) => {
        const config = configOf({ timing, ...changes });
        const done = watchPlans(({ core, durationUs, rows, load }) => {
          if (rows > 0) {
            expect(durationUs).toBe(stepUs(timing, load));
            seen.add(load.promptTokens && load.decodes ? "mixed" : load.decodes ? "decodes" : "prefill");
            steps++;
          } else expect([0, 1000]).toContain(durationUs);
          core.exports.verify();
        });
        try {
          const world = new World(config);
          for (const { gapUs, stream, prompt, maxTokens, priority } of list) {
            world.clock.advanceTo(world.clock.now() + gapUs);
            world.submit({ promptIds: promptOf(prompt, stream), maxTokens, priority });
          }
          world.clock.drain();
        } finally {
          done();
        }
      },
    );
    fc.assert(property, { numRuns: times(60) });
    expect(steps).toBeGreaterThan(1000);
    expect([...seen].sort()).toEqual(["decodes", "mixed", "prefill"]);
  });
});
