/**
 * Checks that every end of a request reaches vLLM's counters as in 0.33 and leaves no gauge behind. First random lives
 * with clients that disconnect and pauses that abort, with scrapes in between. Then an example for each defect of vLLM
 * and its repair.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { EngineConfig, FixName } from "../../../src/engine/config/engine-config.ts";
import { type Choices, type EngineSnapshot, Finish } from "../../../src/engine/interface/types.ts";
import { anyConfig, anyRequest, live } from "../../engine/random-requests.ts";
import { configOf, promptOf, World } from "../../engine/simulated-engine.ts";
import { times } from "../../size.ts";

setDefaultTimeout(60_000);

/** Observed once per request that vLLM counts. */
const PER_REQUEST = [
  "queueTime",
  "prefillTime",
  "decodeTime",
  "inferenceTime",
  "timePerOutputToken",
  "promptTokens",
  "generationTokens",
  "maxTokens",
  "requestPreemptions",
  "prefillComputed",
] as const;

/** Checks the laws that hold at any moment. */
function checkLaws(snapshot: EngineSnapshot, fixes: readonly FixName[]): void {
  const { finished, abortedByEngine, histograms } = snapshot;
  const aborts = fixes.includes("abort-counted") ? finished[Finish.Abort] : abortedByEngine;
  const counted = finished[Finish.Stop] + finished[Finish.Length] + finished[Finish.Error] + aborts;
  expect(histograms.e2eLatency.count).toBe(counted);
  for (const name of PER_REQUEST) expect([name, histograms[name].count]).toEqual([name, counted]);
  expect(histograms.requestChoices.count).toBe(histograms.longestChoice.count);
  expect(histograms.requestChoices.count).toBeLessThanOrEqual(counted);
  expect(histograms.requestChoices.sum).toBeLessThanOrEqual(counted);
  expect(snapshot.generationTokens).toBeGreaterThanOrEqual(histograms.generationTokens.sum);
  expect(snapshot.preemptionsTold).toBeLessThanOrEqual(snapshot.preemptions);
  expect(snapshot.preemptionsTold).toBeGreaterThanOrEqual(histograms.requestPreemptions.sum);
  expect(snapshot.prefixHits).toBeLessThanOrEqual(snapshot.prefixQueries);
  expect(histograms.iterationTokens.sum).toBe(
    snapshot.promptTokens - snapshot.promptTokensCached + snapshot.generationTokens,
  );
  for (const { buckets, sum } of Object.values(histograms)) {
    expect(Math.min(...buckets)).toBeGreaterThanOrEqual(0);
    expect(sum).toBeGreaterThanOrEqual(0);
  }
}
const gauges = ({ running, waiting, deferred, kvUsage, blocksUsed }: EngineSnapshot) => [
  running,
  waiting,
  deferred,
  kvUsage,
  blocksUsed,
];

const anyFixes: fc.Arbitrary<FixName[]> = fc.subarray(["abort-counted", "abort-times", "preemptions-at-once"]);

test("counters always agree with each other, and gauges are 0 after all requests have ended", () => {
  let aborts = 0;
  const property = fc.property(
    anyConfig,
    anyFixes,
    fc.array(fc.record({ request: anyRequest, after: fc.constantFrom("scrape", "", "", "pause") }), { maxLength: 40 }),
    fc.constantFrom("drain", "cancel all", "pause"),
    (config, fixes, events, end) => {
      const world = new World({ ...config, fixes });
      const scrape = () => {
        checkLaws(world.engine.snapshot(), fixes);
        checkLaws(world.engine.snapshot("now"), fixes);
      };
      for (const { request, after } of events) {
        world.clock.advanceTo(world.clock.now() + request.gapUs);
        live(world, request);
        if (after === "pause") {
          world.engine.pause("abort");
          world.clock.advanceTo(world.clock.now() + 500);
          world.engine.resume();
        }
        if (after !== "") scrape();
      }
      if (end === "cancel all")
        for (const receiver of world.receivers) if (receiver.finish === null && !receiver.ended) receiver.cancel();
      if (end === "pause") world.engine.pause("abort");
      world.clock.drain();
      scrape();
      expect(gauges(world.engine.snapshot())).toEqual([0, 0, 0, 0, 0]);
      expect(gauges(world.engine.snapshot("now"))).toEqual([0, 0, 0, 0, 0]);
      aborts += world.engine.snapshot().abortedByEngine;
    },
  );
  fc.assert(property, { numRuns: times(150) });
  expect(aborts).toBeGreaterThan(times(100));
});

test("a request that is cancelled while nothing runs is gone at the next scrape, without another step", () => {
  for (const asyncScheduling of [true, false]) {
    const world = new World(configOf({ asyncScheduling, numGpuBlocks: 33 }));
    const two = [0, 1].map((stream) => world.submit({ promptIds: promptOf(40, stream), maxTokens: 400 })!);
    world.clock.advanceTo(20_000);
    world.engine.pause("keep");
    world.clock.drain();
    expect(gauges(world.engine.snapshot())[0]).toBeGreaterThan(0);
    const { steps } = world.engine.snapshot();
    for (const receiver of two) receiver.cancel();
    expect(gauges(world.engine.snapshot())).toEqual([0, 0, 0, 0, 0]);
    expect(world.engine.snapshot().steps).toBe(steps);
  }
});

test("counts of a plan show with the next update and not before", () => {
  const world = new World(configOf({ asyncScheduling: true }));
  world.submit({ promptIds: promptOf(50) });
  world.clock.advanceTo(world.clock.now());
  const now = world.engine.snapshot("now");
  expect([now.prefixQueries, now.running, now.kvUsage > 0]).toEqual([50, 1, true]);
  const held = world.engine.snapshot();
  expect([held.prefixQueries, ...gauges(held)]).toEqual([0, 0, 0, 0, 0, 0]);
  world.clock.advanceTo(world.clock.nextUs());
  expect(world.engine.snapshot()).toMatchObject({ prefixQueries: 50, running: 1 });
});

/** One request that generates and one that waits for its place. */
function busy(fixes: readonly FixName[]) {
  const world = new World(configOf({ maxNumSeqs: 1, fixes }), { startUs: 1_000_000 });
  const runs = world.submit({ promptIds: promptOf(40), maxTokens: 100 })!;
  world.clock.advanceTo(world.clock.now() + 20_000);
  const waits = world.submit({ promptIds: promptOf(30, 1), maxTokens: 100 })!;
  world.clock.advanceTo(world.clock.now() + 10_000);
  expect([runs.ids.length > 3, waits.ids.length]).toEqual([true, 0]);
  return { world, runs, waits };
}

describe("a client that disconnects", () => {
  test.each([
    [[], 0],
    [["abort-counted"], 2],
  ] as [FixName[], number][])("with --fix %j: %i of two counted", (fixes, counted) => {
    const { world, runs, waits } = busy(fixes);
    const before = world.engine.snapshot();
    runs.cancel();
    waits.cancel();
    world.clock.drain();
    const { histograms, finished, abortedByEngine } = world.engine.snapshot();
    expect([finished[Finish.Abort], abortedByEngine]).toEqual([2, 0]);
    expect(histograms.e2eLatency.count).toBe(counted);
    // The request's first token and other tokens stay counted, and nothing is added.
    expect(histograms.timeToFirstToken.count).toBe(before.histograms.timeToFirstToken.count);
    if (counted === 0) return;
    expect(histograms.generationTokens.sum).toBe(runs.ids.length);
    expect(histograms.promptTokens.sum).toBe(70);
    expect(histograms.requestChoices.sum).toBe(2);
    // The waiting request has no times.
    expect(histograms.prefillTime.sum).toBeLessThan(0.1);
  });
});

describe("an engine that aborts", () => {
  const paused = (fixes: readonly FixName[]) => {
    const { world, runs, waits } = busy(fixes);
    const before = world.engine.snapshot();
    world.engine.pause("abort");
    world.clock.drain();
    expect([runs.finish, waits.finish]).toEqual([Finish.Abort, Finish.Abort]);
    return { before, after: world.engine.snapshot(), nowS: world.clock.now() / 1e6, tokens: runs.ids.length };
  };

  test("sends an output without tokens: an interval for a request with output, a first token for one without, and an iteration of 0", () => {
    const { before, after, tokens } = paused([]);
    expect(after.abortedByEngine).toBe(2);
    expect(after.histograms.e2eLatency.count).toBe(2);
    expect(after.histograms.timeToFirstToken.count - before.histograms.timeToFirstToken.count).toBe(1);
    const newTokens = after.generationTokens - before.generationTokens;
    expect(after.histograms.interTokenLatency.count - before.histograms.interTokenLatency.count).toBe(newTokens + 1);
    expect(after.histograms.iterationTokens.buckets[0]! - before.histograms.iterationTokens.buckets[0]!).toBe(
      newTokens + 1,
    );
    expect(after.histograms.generationTokens.sum).toBe(tokens);
    // No output reported the prompt of the waiting request.
    expect(after.promptTokens).toBe(40);
    expect(after.histograms.promptTokens.sum).toBe(70);
    expect(after.histograms.prefillComputed.sum).toBe(70);
  });

  test("a request without output has a prefill since the clock's zero as in vLLM, and none with --fix abort-times", () => {
    const real = paused([]);
    expect(real.after.histograms.prefillTime.sum).toBeGreaterThan(1);
    expect(real.after.histograms.prefillTime.sum).toBeLessThan(real.nowS);
    const fixed = paused(["abort-times"]);
    expect(fixed.after.histograms.prefillTime.sum).toBeLessThan(0.1);
    expect(fixed.after.histograms.prefillTime.count).toBe(2);
  });
});

test("a preemption is counted with the next output, or never if there is none", () => {
  // Two requests that do not fit together for long.
  const config: EngineConfig = configOf({
    numGpuBlocks: 9,
    maxModelLen: 128,
    enablePrefixCaching: false,
    asyncScheduling: false, // else the token in flight reports it
  });
  const world = new World(config);
  const two = [0, 1].map((stream) => world.submit({ promptIds: promptOf(30, stream), maxTokens: 90 })!);
  world.clock.advanceTo(0);
  while (world.engine.snapshot("now").preemptions === 0) world.clock.advanceTo(world.clock.nextUs());
  expect(world.engine.snapshot("now").preemptionsTold).toBe(0);
  const { preemptionsTold } = world.engine.snapshot();
  for (const receiver of two) receiver.cancel();
  world.clock.drain();
  expect(world.engine.snapshot()).toMatchObject({ preemptions: 1, preemptionsTold });
  expect(preemptionsTold).toBe(0);

  const other = new World(config);
  for (const stream of [0, 1]) other.submit({ promptIds: promptOf(30, stream), maxTokens: 90 });
  other.clock.drain();
  const { preemptions, histograms } = other.engine.snapshot();
  expect(preemptions).toBeGreaterThan(0);
  expect(other.engine.snapshot().preemptionsTold).toBe(preemptions);
  expect(histograms.requestPreemptions.sum).toBe(preemptions);
});

describe("choices of a prompt", () => {
  const three = (world: World) => {
    const choices: Choices = { count: 3, left: 3, longest: 0 };
    return [5, 9, 7].map((maxTokens, seed) => world.submit({ maxTokens, seed, ignoreEos: true, choices })!);
  };

  test("are observed once, with the longest, when the last has ended", () => {
    const world = new World(configOf());
    three(world);
    world.submit({ maxTokens: 2, ignoreEos: true });
    world.clock.drain();
    const { requestChoices, longestChoice, e2eLatency } = world.engine.snapshot().histograms;
    expect([requestChoices.count, requestChoices.sum, longestChoice.sum, e2eLatency.count]).toEqual([2, 4, 11, 4]);
  });

  test("are not observed if the client disconnects", () => {
    const world = new World(configOf());
    const choices = three(world);
    world.clock.advanceTo(0);
    while (choices[0]!.finish === null) world.clock.advanceTo(world.clock.nextUs());
    for (const choice of choices.slice(1)) choice.cancel();
    world.clock.drain();
    const { requestChoices, e2eLatency } = world.engine.snapshot().histograms;
    expect([requestChoices.count, e2eLatency.count]).toEqual([0, 1]);
  });
});
