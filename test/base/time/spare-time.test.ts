/** Tests that long work of several kinds waits for gaps between steps and never delays a step. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { SpareTime } from "../../../src/base/time/spare-time.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";

/** Starts steps with this period, and counts them. */
function ticking(clock: VirtualClock, periodUs: number): { count: number } {
  const ticks = { count: 0 };
  const tick = () => {
    ticks.count++;
    clock.at(clock.now() + periodUs, tick);
  };
  clock.at(periodUs, tick);
  return ticks;
}

test("two tasks that wait at the same time wake after the step, not each other", async () => {
  const clock = new VirtualClock();
  const ticks = ticking(clock, 20_000);
  const collection = new SpareTime(clock, 60_000, 2_000_000);
  const prompts = new SpareTime(clock, 4000, 200_000);
  const found: [string, boolean, number][] = [];
  // No gap is as long as 60 ms, and less than 4 ms are left of this one.
  clock.at(1000, () => void collection.pass().then((yes) => found.push(["collection", yes, clock.now()])));
  clock.at(18_000, () => void prompts.pass().then((yes) => found.push(["prompts", yes, clock.now()])));
  for (let i = 0; i < 2000 && clock.now() < 3_000_000; i++) {
    clock.next();
    await Promise.resolve();
  }
  expect(ticks.count).toBe(150);
  expect(found).toEqual([
    ["prompts", true, 20_000],
    ["collection", false, 2_020_000],
  ]);
});

test("every waiting task continues once, in a gap or after its longest wait, and no step is late", async () => {
  const kind = fc.record({
    neededUs: fc.integer({ min: 1, max: 60_000 }),
    patienceUs: fc.integer({ min: 0, max: 500_000 }),
  });
  const property = fc.asyncProperty(
    fc.array(kind, { minLength: 1, maxLength: 4 }),
    fc.array(fc.tuple(fc.nat(3), fc.nat(1_000_000)), { minLength: 1, maxLength: 30 }),
    fc.integer({ min: 500, max: 50_000 }),
    async (kinds, passes, periodUs) => {
      const clock = new VirtualClock();
      const ticks = ticking(clock, periodUs);
      const spares = kinds.map(({ neededUs, patienceUs }) => new SpareTime(clock, neededUs, patienceUs));
      let gone = 0;
      for (const [index, atUs] of passes) {
        const spare = spares[index % spares.length]!;
        clock.at(atUs, () => {
          void spare.pass().then((found) => {
            gone++;
            const waitedUs = clock.now() - atUs;
            if (found) expect(clock.nextUs() - clock.now()).toBeGreaterThanOrEqual(spare.neededUs);
            else expect(waitedUs).toBeGreaterThanOrEqual(spare.patienceUs);
          });
        });
      }
      const endUs = 2_000_000;
      for (let i = 0; i < 100_000 && clock.now() < endUs; i++) {
        clock.next();
        await Promise.resolve();
      }
      expect(clock.now()).toBeGreaterThanOrEqual(endUs);
      expect(ticks.count).toBe(Math.floor(clock.now() / periodUs));
      expect(gone).toBe(passes.length);
    },
  );
  await fc.assert(property, { numRuns: 50 });
});
