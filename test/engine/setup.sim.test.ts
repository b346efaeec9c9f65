/**
 * Checks that a running engine changes its pace at a boundary: open steps end as planned, and later steps are as if the
 * pace had always been the new one.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { StepPacing } from "../../src/engine/config/engine-config.ts";
import type { Timing } from "../../src/engine/config/step-times.ts";
import { findPreset, presetNames } from "../../src/engine/timing/presets.ts";
import { times } from "../size.ts";
import { configOf, World } from "./simulated-engine.ts";

const constant = (itlMs: number, ttftMs = itlMs): Timing => ({
  kind: "constant",
  ttftUs: ttftMs * 1000,
  itlUs: itlMs * 1000,
});
const change = (world: World, pace: StepPacing) => world.engine.between(() => world.engine.retime(pace));

test("open steps keep their ends, and later ones have the new duration", () => {
  const world = new World(configOf({ timing: constant(10) }));
  const receiver = world.submit({ maxTokens: 12, ignoreEos: true })!;
  world.clock.advanceTo(55_000);
  change(world, { timing: constant(4) });
  world.clock.advanceTo(1_000_000);
  // Two steps are open, because asynchronous scheduling has also planned the next one.
  expect(receiver.gapsUs.map((us) => us / 1000)).toEqual([10, 10, 10, 10, 10, 10, 4, 4, 4, 4, 4]);
});

test("later requests wait before the queue by the new pace", () => {
  const world = new World(configOf({ timing: constant(10, 10) }));
  change(world, { timing: constant(10, 50) });
  const receiver = world.submit({ maxTokens: 2 })!;
  world.clock.advanceTo(1_000_000);
  expect(receiver.ttftUs).toBe(50_000);
});

test("the speed applies, and jitter can be switched on and off", () => {
  const world = new World(configOf({ timing: constant(10) }));
  const receiver = world.submit({ maxTokens: 400, ignoreEos: true })!;
  change(world, { timing: constant(10), speed: 10 });
  world.clock.advanceTo(100_000);
  change(world, { timing: constant(10), noise: { jitterSigma: 0.3 } });
  world.clock.advanceTo(500_000);
  change(world, { timing: constant(10) });
  world.clock.advanceTo(10_000_000);
  const kinds = receiver.gapsUs.map((us) => (us === 1000 ? "fast" : us === 10_000 ? "plain" : "strays"));
  const runs = kinds.filter((kind, i) => kind !== kinds[i - 1]);
  expect(runs.filter((kind) => kind !== "plain" || runs.indexOf(kind) === runs.lastIndexOf(kind))).toContain("fast");
  expect(kinds.slice(0, 50).every((kind) => kind === "fast")).toBe(true);
  expect(kinds.slice(-100).every((kind) => kind === "plain")).toBe(true);
  expect(kinds.filter((kind) => kind === "strays").length).toBeGreaterThan(20);
});

const timings = fc.oneof(
  fc.constantFrom(...presetNames).map((name) => findPreset(name)!.timing),
  fc.integer({ min: 1, max: 50 }).map((ms) => constant(ms)),
  fc.record({
    kind: fc.constant("linear" as const),
    baseUs: fc.integer({ min: 1, max: 10_000 }),
    prefillUs: fc.integer({ min: 0, max: 100 }),
    decodeUs: fc.integer({ min: 0, max: 100 }),
  }),
);

test("after changes of pace, answers are the same and times equal those of an engine that started with that pace", () =>
  fc.assert(
    fc.property(
      fc.array(timings, { minLength: 2, maxLength: 5 }),
      fc.integer({ min: 1, max: 120 }),
      (paces, prompt) => {
        const last = paces.at(-1)!;
        const [changed, plain] = [new World(configOf({ timing: paces[0]! })), new World(configOf({ timing: last }))];
        for (const timing of paces.slice(1)) change(changed, { timing });
        for (const world of [changed, plain]) {
          for (let i = 0; i < 3; i++)
            world.submit({ seed: i, maxTokens: 20, promptIds: new Uint32Array(prompt).fill(7) });
          world.clock.advanceTo(60_000_000);
        }
        expect(changed.digest()).toBe(plain.digest());
        expect(changed.digest().length).toBeGreaterThan(100);
      },
    ),
    { numRuns: times(40) },
  ));
