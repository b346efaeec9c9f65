/** Compares the noise of step times in the core with the same draws in TypeScript. Also checks moments, pauses and speed. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { StepNoise, Timing } from "../../src/engine/config/step-times.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Fleet } from "../../src/engine/fleet.ts";
import { Journal } from "../../src/engine/journal.ts";
import { replayJournal } from "../../src/engine/repeat.ts";
import { findPreset } from "../../src/engine/timing/presets.ts";
import { faster, stepUs } from "../../src/engine/timing/timing.ts";
import {
  configOf,
  debug,
  EOS,
  generationOf,
  promptOf,
  release,
  World,
  watchPlans,
} from "../engine/simulated-engine.ts";
import { times } from "../size.ts";

setDefaultTimeout(60_000);

const BASE_US = 10_000;
const flat: Timing = { kind: "linear", baseUs: BASE_US, prefillUs: 0, decodeUs: 0 };

/** Returns the durations of the first `count` steps of one long answer. */
function durations(changes: Partial<EngineConfig>, count = 300): number[] {
  const found: number[] = [];
  const done = watchPlans(({ durationUs, rows }) => rows > 0 && found.push(durationUs));
  try {
    const world = new World(configOf({ timing: flat, maxModelLen: 50_000, numGpuBlocks: 3200, ...changes }), {
      module: release,
      endsOnly: true,
      // An observer makes the loop run each step by itself.
      more: () => ({ loopObservers: [{}] }),
    });
    world.submit({ maxTokens: count, ignoreEos: true });
    world.clock.drain();
  } finally {
    done();
  }
  return found.slice(0, count);
}

/** Mixes seed and position to 32 bits, like the core. */
function mix(seed: number, position: number): number {
  let h = Math.imul(seed ^ Math.imul(position + 1, 0x9e3779b9), 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Returns the factor by which noise multiplies the time of step `step`. */
function factorOf({ jitterSigma = 0, tail }: StepNoise, seed: number, step: number): number {
  const unit = (stream: number) => (mix(seed ^ Math.imul(stream, 0x9e3779b9), step) + 0.5) / 2 ** 32;
  const normal = () => {
    for (let attempt = 0; ; attempt++) {
      const [x, y] = [0, 1].map((i) => 2 * unit(0x1f83d9ab + 2 * attempt + i) - 1) as [number, number];
      const square = x ** 2 + y ** 2;
      if (square < 1) return x * Math.sqrt((-2 * Math.log(square)) / square);
    }
  };
  const bell = jitterSigma > 0 ? Math.exp(jitterSigma * normal() - jitterSigma ** 2 / 2) : 1;
  if (!tail || unit(0x5be0cd19) >= tail.share) return bell;
  return bell * Math.min(1000, unit(0x137e2179) ** (-1 / tail.alpha));
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("draws", () => {
  test("follow the formula for random seeds", () => {
    const property = fc.property(
      fc.nat(2 ** 32 - 1),
      fc.constantFrom(0, 0.01, 0.3, 2),
      fc.option(fc.record({ share: fc.constantFrom(0.01, 0.5, 1), alpha: fc.constantFrom(1.1, 3) }), {
        nil: undefined,
      }),
      fc.boolean(),
      (seed, jitterSigma, tail, asyncScheduling) => {
        const noise: StepNoise = { jitterSigma, ...(tail ? { tail } : {}) };
        for (const [step, us] of durations({ seed, noise, asyncScheduling }, 60).entries()) {
          // The two languages' exponentials and logarithms may differ in their last bit.
          const expected = Math.max(1, Math.round(BASE_US * factorOf(noise, seed | 0, step)));
          expect(Math.abs(us - expected)).toBeLessThanOrEqual(1 + expected * 1e-9);
        }
      },
    );
    fc.assert(property, { numRuns: times(60) });
  });

  test("the log-normal factor has mean 1 and the configured deviation", () => {
    const factors = durations({ noise: { jitterSigma: 0.2 } }, 20_000).map((us) => us / BASE_US);
    expect(mean(factors)).toBeCloseTo(1, 2);
    const logs = factors.map(Math.log);
    const middle = mean(logs);
    expect(middle).toBeCloseTo(-0.02, 2);
    expect(Math.sqrt(mean(logs.map((log) => (log - middle) ** 2)))).toBeCloseTo(0.2, 2);
  });

  test("the tail has its share and its exponent", () => {
    const factors = durations({ noise: { tail: { share: 0.1, alpha: 2 } } }, 20_000).map((us) => us / BASE_US);
    const slow = factors.filter((factor) => factor > 1);
    expect(slow.length / factors.length).toBeCloseTo(0.1, 2);
    // In a Pareto distribution from 1 with exponent 2, a quarter of the values is above 2 and a sixteenth above 4.
    for (const [above, share] of [
      [2, 1 / 4],
      [4, 1 / 16],
    ] as const) {
      expect(Math.abs(slow.filter((factor) => factor > above).length / slow.length - share)).toBeLessThan(0.03);
    }
  });

  test("equal seeds draw equal noise, other seeds and ranks do not, and without noise options steps follow the formula", () => {
    const noise = { jitterSigma: 0.1 };
    expect(durations({ noise, seed: 7 })).toEqual(durations({ noise, seed: 7 }));
    expect(durations({ noise, seed: 7 })).not.toEqual(durations({ noise, seed: 8 }));
    expect(new Set(durations({ noise: {} }))).toEqual(new Set([BASE_US]));
    const ends = ranksEnds(configOf({ timing: flat, noise }));
    expect(new Set(ends).size).toBe(3);
    expect(new Set(ranksEnds(configOf({ timing: flat }))).size).toBe(1);
  });
});

/** Returns the time at which the same request ends on each of three ranks. */
function ranksEnds(config: EngineConfig): number[] {
  const clock = new VirtualClock();
  const fleet = new Fleet({ engines: 3, config, clock, module: debug, free: false, eosId: EOS });
  const ends: number[] = [];
  for (const rank of [0, 1, 2]) {
    fleet.submit(generationOf({ rank, ignoreEos: true }), {
      onTokens: (_ids, _at, _count, finish) => {
        if (finish !== null) ends[rank] = clock.now();
      },
    });
  }
  clock.drain();
  return ends;
}

describe("pauses", () => {
  test.each([true, false])(
    "the step that spans a multiple of the interval gets the pause, asynchronous %p",
    (asyncScheduling) => {
      const pause = { everyUs: 95_000, forUs: 40_000 };
      let atUs = 0;
      for (const us of durations({ noise: { pause }, asyncScheduling }, 200)) {
        const passes = Math.floor((atUs + BASE_US) / pause.everyUs) > Math.floor(atUs / pause.everyUs);
        expect(us).toBe(BASE_US + (passes ? pause.forUs : 0));
        atUs += us;
      }
    },
  );

  test("a pause without a running step is not added later", () => {
    const world = new World(configOf({ timing: flat, noise: { pause: { everyUs: 100_000, forUs: 40_000 } } }));
    for (const [atUs, pausedUs] of [
      // Time counts from the first step.
      [30_000, 0],
      [1_050_000, 0],
      [1_125_000, 40_000],
    ] as const) {
      world.clock.advanceTo(atUs);
      const receiver = world.submit({ maxTokens: 2 })!;
      world.clock.drain();
      expect(receiver.tokenUs).toEqual([atUs + pausedUs + 10_000, atUs + pausedUs + 20_000]);
    }
  });
});

describe("speed", () => {
  const { timing } = findPreset("llama-3.1-8b-bf16-h100-tp1-vllm")!;

  test.each([10, 2, 0.5])("at %p times the speed, each time is divided and rounded once", (speed) => {
    for (const load of [
      { promptTokens: 1024, prefix: 0, pairs: 524_800, decodes: 0, context: 0 },
      { promptTokens: 0, prefix: 0, pairs: 0, decodes: 32, context: 32_768 },
    ]) {
      const exactUs = stepUs(faster(timing, speed / 1000), load) / 1000;
      expect(Math.abs(stepUs(faster(timing, speed), load) - exactUs)).toBeLessThanOrEqual(0.502);
    }
  });

  test("clients and histograms see the same steps, pre-queue times and pauses", () => {
    const linear: Timing = {
      kind: "linear",
      baseUs: 10_000,
      prefillUs: 0,
      decodeUs: 1000,
      requestOverheadUs: 12_000,
    };
    const noise: StepNoise = { pause: { everyUs: 50_000, forUs: 5000 } };
    const times = [1, 10].map((speed) => {
      const world = new World(configOf({ timing: linear, noise, speed }));
      const receiver = world.submit({ maxTokens: 8 })!;
      world.clock.drain();
      const { timeToFirstToken, e2eLatency } = world.engine.snapshot().histograms;
      expect([timeToFirstToken.sum, e2eLatency.sum]).toEqual([
        receiver.tokenUs[0]! / 1e6,
        receiver.tokenUs.at(-1)! / 1e6,
      ]);
      return receiver.tokenUs;
    });
    expect(times[0]).toEqual([22_000, 33_000, 44_000, 55_000, 71_000, 82_000, 93_000, 104_000]);
    expect(times[1]).toEqual(times[0]!.map((us) => us / 10));
  });

  test("a step that computes takes at least 1 µs", () => {
    const world = new World(configOf({ timing: { kind: "constant", ttftUs: 3, itlUs: 3 }, speed: 1000 }));
    const receiver = world.submit({ maxTokens: 4 })!;
    world.clock.drain();
    expect(receiver.tokenUs).toEqual([1, 2, 3, 4]);
  });
});

describe("request overhead", () => {
  const timing: Timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20, requestOverheadUs: 12_000 };

  test("counts in the time to first token, but in no step time, inter-token time or queue time", () => {
    const world = new World(configOf({ timing }));
    const receiver = world.submit({ promptIds: promptOf(50), maxTokens: 3 })!;
    world.clock.advanceTo(11_999);
    const before = world.engine.snapshot("now");
    expect([before.waiting, before.running, world.engine.live]).toEqual([0, 0, 1]);
    world.clock.drain();
    expect(receiver.tokenUs).toEqual([13_500, 14_520, 15_540]);
    const { timeToFirstToken, queueTime, prefillTime, e2eLatency } = world.engine.snapshot().histograms;
    const sums = [timeToFirstToken, queueTime, prefillTime, e2eLatency].map(({ sum }) => sum);
    expect(sums).toEqual([0.0135, 0, 0.0015, 0.01554]);
  });

  test("pre-queue times get the configured noise by rank and seed, within bounds, and step times do not", () => {
    const timing: Timing = { kind: "constant", ttftUs: 101_000, itlUs: 1000 };
    const waits = (noise: StepNoise, seed = 1, rank = 0) => {
      const world = new World(configOf({ timing, noise, seed, maxNumSeqs: 8 }), { more: () => ({ rank }) });
      return Array.from({ length: 2000 }, () => {
        const beganUs = world.clock.now();
        const receiver = world.submit({ maxTokens: 2 })!;
        world.clock.drain();
        expect(receiver.tokenUs[1]! - receiver.tokenUs[0]!).toBe(1000);
        return receiver.tokenUs[0]! - beganUs - 1000;
      });
    };
    const drawn = waits({ overheadSigma: 0.2 });
    const mean = drawn.reduce((sum, us) => sum + us, 0) / drawn.length;
    const variance = drawn.reduce((sum, us) => sum + (us - mean) ** 2, 0) / drawn.length;
    expect(mean).toBeWithin(98_500, 101_500);
    expect(Math.sqrt(variance)).toBeWithin(19_000, 21_000);
    expect(waits({ overheadSigma: 0.2 })).toEqual(drawn);
    expect(waits({ overheadSigma: 0.2 }, 2)).not.toEqual(drawn);
    expect(waits({ overheadSigma: 0.2 }, 1, 1)).not.toEqual(drawn);
    const wide = waits({ overheadSigma: 1 });
    expect([Math.min(...wide), Math.max(...wide)]).toEqual([30_000, 170_000]);
    expect(new Set(waits({}))).toEqual(new Set([100_000]));
  });

  test("a request can be aborted before it enters the queue", () => {
    const world = new World(configOf({ timing }));
    const receiver = world.submit()!;
    world.clock.advanceTo(5000);
    receiver.cancel();
    world.clock.drain();
    expect(receiver.events).toEqual([]);
    expect(world.engine.live).toBe(0);
  });

  test("running requests are not delayed by arriving ones", () => {
    const world = new World(configOf({ timing }));
    const first = world.submit({ promptIds: promptOf(20, 1), maxTokens: 30 })!;
    world.clock.advanceTo(15_000);
    world.submit({ promptIds: promptOf(20, 2), maxTokens: 2 });
    world.clock.drain();
    expect(new Set(first.gapsUs)).toEqual(new Set([1020, 1220, 1040]));
  });
});

test("a journal of an engine with noisy steps replays with equal results, as after a crash", () => {
  const noise: StepNoise = {
    jitterSigma: 0.3,
    tail: { share: 0.1, alpha: 1.2 },
    pause: { everyUs: 20_000, forUs: 7000 },
  };
  const timing: Timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20, requestOverheadUs: 3000 };
  const config = configOf({ timing, noise, speed: 3, numGpuBlocks: 40, maxModelLen: 256 });
  const clock = new VirtualClock();
  const journal = new Journal();
  const engine = new Engine({ config, clock, module: release, free: false, eosId: EOS, journal });
  for (let i = 0; i < 60; i++) {
    const promptIds = promptOf(1 + ((i * 37) % 120), i % 4);
    const generation = generationOf({ promptIds, maxTokens: 100, ignoreEos: true, arrivalUs: i * 700, seed: i });
    clock.at(i * 700, () => engine.submit(generation, { onTokens() {} }));
  }
  clock.drain();
  const { preemptions } = engine.snapshot();
  const text = journal.text();
  const { commandsRun, skipped, differentHandles, trap } = replayJournal(debug, config, { eosId: EOS }, text);
  expect([text.forgotten, commandsRun, skipped, differentHandles, trap]).toEqual([0, text.commands.length, 0, 0, null]);
  expect(preemptions).toBeGreaterThan(0);
});
