/**
 * Checks that a late host does not change decisions: with late wake-ups, the same steps happen at the same due times, up to a
 * limit.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../../../src/base/random.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { LATE_US } from "../../../src/engine/lateness/causes.ts";
import { times } from "../../size.ts";
import { LateClock } from "../late-clock.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "../simulated-engine.ts";

setDefaultTimeout(60_000);

interface LateRow {
  readonly timeline: { readonly prefillEndUs: number; readonly endUs: number; readonly rebasedUs: number };
  readonly firstWrittenUs: number;
  readonly lastWrittenUs: number;
  readonly lateSteps: number;
  readonly lateUs: number;
}

type Options = ConstructorParameters<typeof Engine>[0];

/** Returns an engine on this clock. */
function engineOn(clock: LateClock, options: Pick<Options, "config" | "loopObservers" | "observer">): Engine {
  return new Engine({ clock, module: debug, free: false, eosId: EOS, answers, ...options });
}

/** Runs requests at time 0. Returns due time and start of each step, and the engine's counts. */
function run(lateUs: () => number, asyncScheduling: boolean) {
  const clock = new LateClock(lateUs);
  const steps: { dueUs: number; startUs: number }[] = [];
  /** Rows of steps and requests in the truth log, without the times of writing. */
  const truth: unknown[][] = [];
  /** Rows about lateness. */
  const lateRows: LateRow[] = [];
  const engine = engineOn(clock, {
    config: configOf({ asyncScheduling, numGpuBlocks: 40 }),
    loopObservers: [{ delivered: ({ dueUs, startUs, rows }) => void (rows > 0 && steps.push({ dueUs, startUs })) }],
    observer: {
      step: ({ step, plannedUs, dueUs, tokens, preemptions }) =>
        void truth.push([step, plannedUs, dueUs, tokens, preemptions]),
      request: ({ recorder: _, receiver: __, firstWrittenUs, lastWrittenUs, lateSteps, lateUs, ...timeline }) => {
        lateRows.push({ timeline, firstWrittenUs, lastWrittenUs, lateSteps, lateUs });
        truth.push(Object.entries(timeline).flat(2));
      },
      idle() {},
    },
  });
  for (let i = 0; i < 12; i++) {
    const promptIds = promptOf(10 + 13 * i, i % 3);
    engine.submit(generationOf({ promptIds, maxTokens: 5 + 9 * i, seed: i }), { onTokens() {} });
  }
  clock.inner.drain(1_000_000);
  return { steps, truth, lateRows, snapshot: engine.snapshot(), lateness: engine.lateness() };
}

/** Compares the late steps in a request's row with the steps during its life. */
function expectLate(row: LateRow, steps: readonly { dueUs: number; startUs: number }[]): void {
  const { prefillEndUs, endUs, rebasedUs } = row.timeline;
  const decodes = steps.filter(({ dueUs }) => dueUs >= prefillEndUs && dueUs <= endUs);
  const lateUs = decodes.map(({ dueUs, startUs }) => startUs - dueUs).filter((us) => us > LATE_US);
  expect([row.lateSteps, row.lateUs]).toEqual([lateUs.length, lateUs.reduce((sum, us) => sum + us, 0)]);
  expect([row.firstWrittenUs, row.lastWrittenUs]).toEqual([decodes[0]!.startUs, decodes.at(-1)!.startUs]);
  expect(rebasedUs).toBe(0);
}

describe.each([true, false])("asynchronous scheduling %p", (asyncScheduling) => {
  const punctual = run(() => 0, asyncScheduling);

  test("up to 100 ms late, every boundary is at its due time and all measurements are the same", () => {
    const property = fc.property(fc.integer(), fc.integer({ min: 1, max: 100_000 }), (seed, most) => {
      const draw = seeded(seed);
      const late = run(() => draw() % most, asyncScheduling);
      expect(late.steps.map(({ dueUs }) => dueUs)).toEqual(punctual.steps.map(({ dueUs }) => dueUs));
      expect(late.snapshot).toEqual(punctual.snapshot);
      expect(late.truth).toEqual(punctual.truth);
      expect(late.lateness.clockRebasedSeconds).toBe(0);
      for (const { dueUs, startUs } of late.steps) expect(startUs).toBeGreaterThanOrEqual(dueUs);
      const { count, sum } = late.lateness.stepStartLateness;
      expect(count).toBe(late.steps.length);
      const wantedUs = late.steps.reduce((total, { dueUs, startUs }) => total + startUs - dueUs, 0);
      expect(sum).toBeCloseTo(wantedUs / 1e6, 6);
      expect(late.lateRows).toHaveLength(12);
      for (const row of late.lateRows) expectLate(row, late.steps);
    });
    fc.assert(property, { numRuns: times(30) });
  });

  test("if later once, engine time moves forward by it and decisions are the same", () => {
    let calls = 0;
    const late = run(() => (++calls === 7 ? 3_000_000 : 0), asyncScheduling);
    expect(late.lateness.clockRebasedSeconds).toBe(3);
    // That step was late by the whole time, which the histogram shows.
    expect(late.lateness.stepStartLateness.sum).toBeCloseTo(3, 6);
    expect(late.lateness.stepsLate).toBe(1);
    // Only requests in progress at that time have it in their rows.
    expect(new Set(late.lateRows.map(({ timeline }) => timeline.rebasedUs))).toEqual(new Set([0, 3_000_000]));
    const gap = (steps: readonly { dueUs: number }[]) => steps.slice(1).map(({ dueUs }, i) => dueUs - steps[i]!.dueUs);
    const [ours, theirs] = [gap(late.steps), gap(punctual.steps)];
    // One interval is longer, and no burst follows it.
    expect(ours.filter((us, i) => us !== theirs[i]!).length).toBe(1);
    expect(Math.max(...ours.map((us, i) => us - theirs[i]!))).toBe(3_000_000);
    expect(late.snapshot.finished).toEqual(punctual.snapshot.finished);
    expect(late.snapshot.preemptions).toBe(punctual.snapshot.preemptions);
  });
});

interface Way {
  readonly arrivalUs: number;
  readonly queuedUs: number;
  readonly scheduledUs: number;
  readonly prefillEndUs: number;
  readonly endUs: number;
  readonly runs: readonly number[];
}

/** Runs requests at these times. Returns the steps and the timeline of each request. */
function arrivals(lateUs: () => number, config: EngineConfig, at: readonly number[], turns = 1) {
  const clock = new LateClock(lateUs);
  const steps: unknown[] = [];
  const ways = new Map<string, Way>();
  const engine = engineOn(clock, {
    config,
    observer: {
      step: ({ step, plannedUs, dueUs, tokens, preemptions }) =>
        void steps.push([step, plannedUs, dueUs, tokens, preemptions]),
      request: ({ id, arrivalUs, queuedUs, scheduledUs, prefillEndUs, endUs, runs }) =>
        void ways.set(id, { arrivalUs, queuedUs, scheduledUs, prefillEndUs, endUs, runs: [...runs] }),
      idle() {},
    },
  });
  /** The next turn of a conversation starts with the last tokens of the one before. */
  const submit = (id: string, us: number, turn: number) => {
    const promptIds = promptOf(10 + (us % 50), us % 3);
    const generation = generationOf({ promptIds, maxTokens: 1 + (us % 7), seed: us, id, arrivalUs: clock.now() });
    const taken = engine.submit(generation, {
      onTokens: (_ids, _at, _count, finish) => {
        if (finish !== null && turn < turns) submit(`${id}.${turn}`, us, turn + 1);
      },
    });
    expect("refused" in taken).toBe(false);
  };
  at.forEach((us, i) => {
    clock.inner.at(us, () => submit(`r${i}`, us, 1));
  });
  clock.inner.drain(1_000_000);
  return { steps, ways, snapshot: engine.snapshot() };
}

function expectInOrder(ways: ReadonlyMap<string, Way>, count: number): void {
  expect(ways.size).toBe(count);
  for (const { arrivalUs, queuedUs, scheduledUs, prefillEndUs, endUs } of ways.values()) {
    const times = [arrivalUs, queuedUs, scheduledUs, prefillEndUs, endUs];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  }
}

test("of several requests that reach an idle engine in one turn, none is planned before its arrival", () => {
  const clock = new LateClock(() => 0);
  const ways: number[][] = [];
  const engine = engineOn(clock, {
    config: configOf({}),
    observer: {
      step() {},
      request: ({ arrivalUs, queuedUs, scheduledUs }) => void ways.push([arrivalUs, queuedUs, scheduledUs]),
      idle() {},
    },
  });
  clock.inner.at(100, () => {
    for (const us of [100, 107]) {
      clock.workedUs = us - 100;
      engine.submit(generationOf({ seed: us, arrivalUs: us }), { onTokens() {} });
    }
    clock.workedUs = 0;
  });
  clock.inner.drain(1_000_000);
  expect(ways).toEqual([
    [100, 100, 107],
    [107, 107, 107],
  ]);
});

test("if time passes while a request is accepted, even past a step's end, it is not planned before it was queued", () => {
  const clock = new (class extends LateClock {
    passes = false;
    override now(): number {
      if (this.passes) this.workedUs += 40;
      return super.now();
    }
  })(() => 0);
  const ways: number[][] = [];
  const timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20, requestOverheadUs: 0 } as const;
  const engine = engineOn(clock, {
    config: configOf({ timing }),
    observer: {
      step() {},
      request: ({ arrivalUs, queuedUs, scheduledUs }) => void ways.push([arrivalUs, queuedUs, scheduledUs]),
      idle() {},
    },
  });
  for (let us = 0; us < 600_000; us += 997)
    clock.inner.at(us, () => {
      clock.passes = true;
      engine.submit(generationOf({ seed: us, arrivalUs: us, maxTokens: 2 }), { onTokens() {} });
      clock.passes = false;
      clock.workedUs = 0;
    });
  clock.inner.drain(1_000_000);
  expect(ways.length).toBe(Math.ceil(600_000 / 997));
  for (const times of ways) expect(times).toEqual(times.toSorted((a, b) => a - b));
});

test.each([
  ["asynchronous", true, 0],
  ["synchronous", false, 0],
  ["asynchronous, with request overhead", true, 3000],
])(
  "requests that come at any time, %s: no step has one that came after it was due",
  (_, asyncScheduling, requestUs) => {
    const timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20, requestOverheadUs: requestUs } as const;
    const config = configOf({ asyncScheduling, numGpuBlocks: 40, timing });
    const property = fc.property(
      fc.integer(),
      fc.integer({ min: 1, max: 100_000 }),
      fc.uniqueArray(fc.integer({ min: 0, max: 300_000 }), { minLength: 1, maxLength: 40 }),
      (seed, most, at) => {
        const draw = seeded(seed);
        const late = arrivals(() => draw() % most, config, at);
        expect(late).toEqual(arrivals(() => 0, config, at));
        expectInOrder(late.ways, at.length);
        expectInOrder(arrivals(() => draw() % most, config, at, 3).ways, 3 * at.length);
      },
    );
    fc.assert(property, { numRuns: times(60) });
  },
);

test("requests that arrive while a boundary is overdue wait for at least 0, so no sum of times falls", () => {
  const property = fc.property(
    fc.integer(),
    fc.array(fc.integer({ min: 0, max: 300_000 }), { minLength: 1 }),
    (seed, at) => {
      const draw = seeded(seed);
      const clock = new LateClock(() => draw() % 90_000);
      const engine = engineOn(clock, { config: configOf({}) });
      let before: number[] = [];
      const look = () => {
        const sums = Object.values(engine.snapshot().histograms).map(({ sum }) => sum);
        for (const [i, sum] of before.entries()) expect(sums[i]!).toBeGreaterThanOrEqual(sum);
        before = sums;
      };
      for (const us of at) {
        clock.inner.at(us, () => {
          const generation = generationOf({ promptIds: promptOf(10, 1), maxTokens: 2, seed: us });
          engine.submit({ ...generation, arrivalUs: clock.now() }, { onTokens: look });
        });
      }
      clock.inner.drain(1_000_000);
      look();
    },
  );
  fc.assert(property, { numRuns: 100 });
});
