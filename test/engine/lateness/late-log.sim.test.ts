/** Checks the log line about late steps: at most one every ten seconds, with the numbers of the steps. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../../../src/base/random.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { Cause, LATE_US } from "../../../src/engine/lateness/causes.ts";
import { LATE_LOG_US, LateLog } from "../../../src/engine/lateness/late-log.ts";
import { Lateness } from "../../../src/engine/lateness/lateness.ts";
import { Punctuality } from "../../../src/engine/lateness/punctuality.ts";
import { times } from "../../size.ts";
import { LateClock } from "../late-clock.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "../simulated-engine.ts";

interface Line {
  readonly atUs: number;
  readonly late: number;
  readonly of: number;
  readonly seconds: number;
  readonly mostMs: number;
  readonly meanMs: number;
  readonly causes: number;
  readonly rebasedS: number;
}

const FORM =
  /^late: (\d+) of (\d+) steps in ([\d.]+) s began more than 1 ms after they were due, ([\d.]+) ms at most, ([\d.]+) ms on average; likely causes: ((?:[a-z]+ \d+(?:, )?)+)(?:; engine time was moved on by ([\d.]+) s in all)?$/;

function read(atUs: number, line: string): Line {
  const [, late, of, seconds, mostMs, meanMs, causes, rebasedS] = FORM.exec(line) ?? [];
  if (late === undefined) throw new Error(line);
  const counted = [...causes!.matchAll(/\d+/g)].reduce((sum, [count]) => sum + Number(count), 0);
  const numbers = { late: Number(late), of: Number(of), seconds: Number(seconds), mostMs: Number(mostMs) };
  return { atUs, ...numbers, meanMs: Number(meanMs), causes: counted, rebasedS: Number(rebasedS ?? 0) };
}

/** Runs steps of 50 ms for more than a minute. `lateUs` returns the lateness of each wake-up. */
function run(lateUs: () => number) {
  const clock = new LateClock(lateUs);
  const lateness = new Lateness();
  const lines: Line[] = [];
  const punctual = new Punctuality({
    // The log's own timer must not be late, because the test checks its times.
    clock: clock.inner,
    host: null,
    steps: () => lateness.stepStartLateness.count,
    log: (line) => lines.push(read(clock.now(), line)),
  });
  const steps: { dueUs: number; lateUs: number }[] = [];
  const engine = new Engine({
    config: configOf({ timing: { kind: "constant", ttftUs: 50_000, itlUs: 50_000 } }),
    ...{ clock, lateness, module: debug, free: false, eosId: EOS, answers },
    loopObservers: [
      punctual,
      { delivered: ({ dueUs, startUs, rows }) => void (rows > 0 && steps.push({ dueUs, lateUs: startUs - dueUs })) },
    ],
  });
  for (let i = 0; i < 8; i++) {
    clock.inner.at(i * 9_000_000, () => {
      const generation = generationOf({ promptIds: promptOf(10, i), maxTokens: 150, seed: i, ignoreEos: true });
      engine.submit({ ...generation, arrivalUs: clock.now() }, { onTokens() {} });
    });
  }
  clock.inner.drain(1_000_000);
  punctual.stop();
  return { lines, steps, rebasedS: lateness.clockRebasedSeconds };
}

test("without late steps there is no line", () => {
  expect(run(() => 0).lines).toEqual([]);
  expect(run(() => LATE_US).lines).toEqual([]);
});

test("every late step is in exactly one line, and lines are at least ten seconds apart", () => {
  let several = 0;
  const property = fc.property(fc.integer(), fc.integer({ min: 1, max: 40 }), (seed, rarity) => {
    const draw = seeded(seed);
    const { lines, steps, rebasedS } = run(() => (draw() % rarity === 0 ? draw() % 40_000 : 0));
    expect(rebasedS).toBe(0);
    const late = steps.filter(({ lateUs }) => lateUs > LATE_US);
    expect(lines.reduce((sum, line) => sum + line.late, 0)).toBe(late.length);
    expect(lines.reduce((sum, line) => sum + line.causes, 0)).toBe(late.length);
    for (const [i, line] of lines.entries()) {
      if (i > 0) expect(line.atUs - lines[i - 1]!.atUs).toBeGreaterThanOrEqual(LATE_LOG_US);
      expect(line.late).toBeLessThanOrEqual(line.of);
      expect(line.seconds).toBeLessThanOrEqual(LATE_LOG_US / 1e6);
    }
    const mostUs = late.reduce((most, { lateUs }) => Math.max(most, lateUs), 0);
    expect(lines.reduce((most, line) => Math.max(most, line.mostMs), 0)).toBeCloseTo(mostUs / 1000, 1);
    if (lines.length > 2) several++;
  });
  fc.assert(property, { numRuns: times(20) });
  expect(several).toBeGreaterThan(3);
});

test("a line reports by how much engine time was moved forward", () => {
  let calls = 0;
  const { lines, rebasedS } = run(() => (++calls === 7 ? 3_000_000 : 0));
  expect(rebasedS).toBe(3);
  expect(lines).toMatchObject([{ late: 1, causes: 1, mostMs: 3000, meanMs: 3000, rebasedS: 3 }]);
});

test("the text of the line", () => {
  const clock = new LateClock(() => 0);
  const lines: string[] = [];
  let steps = 100;
  const log = new LateLog(
    clock,
    () => steps,
    (line) => lines.push(line),
  );
  clock.inner.advanceTo(5_000_000);
  log.late(2500, 0, Cause.Scrape);
  log.late(1200, 0, Cause.Collection);
  log.late(150_300, 150_300, Cause.Scrape);
  steps = 600;
  clock.inner.advanceTo(14_999_999);
  expect(lines).toEqual([]);
  clock.inner.advanceTo(60_000_000);
  log.stop();
  expect(lines).toEqual([
    "late: 3 of 500 steps in 10.0 s began more than 1 ms after they were due, 150.3 ms at most, 51.3 ms on average; " +
      "likely causes: scrape 2, collection 1; engine time was moved on by 0.150 s in all",
  ]);
});
