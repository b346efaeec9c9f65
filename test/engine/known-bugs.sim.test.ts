/**
 * Checks that bugs of other simulators, stand-ins and engines do not occur here. Each test names the reports behind it.
 * `test/conformance/known-bugs.test.ts` has the bugs that only show over HTTP.
 *
 * | Report | Where it is tested instead |
 * |---|---|
 * | aimock#122: a fault mode that is accepted for a stream must act | `test/faults/wire.test.ts` |
 * | aimock, 2,000 streams: durations within 2 % of ideal | `bench stream` measures it; the server publishes its lateness |
 * | elysia#1801: memory stays bounded with a thousand stalled readers | `test/servers/openai/pipeline/stream.test.ts` |
 * | geolens#1240: scrapes of several processes never go backwards | `test/metrics/rows/shared.test.ts` |
 * | TensorRT-LLM's gauges: waiting = active - scheduled, KV use is a fraction | `test/metrics/triton/triton.sim.test.ts` |
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { NONE, Total, Word } from "../../assembly/layout.ts";
import { seeded } from "../../src/base/random.ts";
import { Finish } from "../../src/engine/interface/types.ts";
import type { Core } from "../../src/engine/wasm/core.ts";
import { times } from "../size.ts";
import { anyConfig, anyRequest, run } from "./random-requests.ts";
import { answerOf, configOf, promptOf, release, totalsOf, World, watchPlans } from "./simulated-engine.ts";

setDefaultTimeout(60_000);

/** Runs `act` and calls `look` with each plan. */
function watched<T>(look: (core: Core) => void, act: () => T): T {
  const done = watchPlans(({ core }) => look(core));
  try {
    return act();
  } finally {
    done();
  }
}

/** Forty requests that need twelve blocks each, in a pool of thirty, so that decoding requests are preempted repeatedly. */
function crowded(changes: Parameters<typeof configOf>[0] = {}): { world: World; core: Core; plans: number } {
  const config = configOf({ maxNumSeqs: 16, numGpuBlocks: 31, maxModelLen: 256, ...changes });
  const world = new World(config);
  let plans = 0;
  let seen: Core | undefined;
  watched(
    (core) => {
      seen = core;
      plans++;
    },
    () => {
      for (let i = 0; i < 40; i++) {
        world.submit({ promptIds: promptOf(70, i), maxTokens: 120, ignoreEos: true, seed: i, arrivalUs: i });
      }
      world.clock.drain(1_000_000);
    },
  );
  return { world, core: seen!, plans };
}

const modes = [
  ["asynchronous", { asyncScheduling: true }],
  ["synchronous", { asyncScheduling: false }],
  ["asynchronous, by priority", { schedulingPolicy: "priority" }],
  ["synchronous, in chunks", { asyncScheduling: false, longPrefillTokenThreshold: 24, maxNumBatchedTokens: 32 }],
  ["without a prefix cache", { enablePrefixCaching: false }],
] as const;

describe.each(modes)("a pool that is far too small, %s", (_, changes) => {
  const { world, core, plans } = crowded(changes);
  const totals = totalsOf(core);

  test("BLIS #963: all requests end, without a livelock", () => {
    expect(totals[Total.Preemptions]!).toBeGreaterThan(10);
    expect(world.engine.live).toBe(0);
    expect(world.receivers.map(({ finish }) => finish)).toEqual(world.receivers.map(() => Finish.Length));
    // Only steps that compute prompts have no token, so there are far fewer steps than tokens.
    expect(plans).toBeLessThan(40 * 120);
  });

  test("BLIS #1321: preemption during decode conserves tokens", () => {
    const inDecode = world.receivers.filter(({ gapsUs }) => Math.max(...gapsUs) > 10_000);
    expect(inDecode.length).toBeGreaterThan(0);
    for (const receiver of world.receivers) expect(receiver.ids).toEqual(answerOf(receiver.generation, 256).ids);
    expect(totals[Total.GenerationTokens]!).toBe(40 * 120);
    // Recomputed tokens do not count as prompt tokens again.
    expect(totals[Total.PromptTokens]!).toBe(40 * 70);
    expect(core.views.word(Word.BlocksFree)).toBe(30);
  });

  test("vllm#25780: recomputation counts neither as hit nor as query of the prefix cache", () => {
    const { prefixHits, prefixQueries } = world.engine.snapshot();
    const caching = world.config.enablePrefixCaching;
    expect([prefixHits, prefixQueries]).toEqual([0, caching ? 40 * 70 : 0]);
    expect(totals[Total.PreemptedQueries]! > 0).toBe(caching);
  });
});

describe.each([true, false])("asynchronous scheduling %p", (asyncScheduling) => {
  test("BLIS #1057: a re-admitted request keeps its hashes and finds its remaining blocks", () => {
    // 18 usable blocks of 16. Two requests grow; the younger is preempted, and the other does not need all of its
    // blocks.
    const world = new World(configOf({ asyncScheduling, numGpuBlocks: 19, maxModelLen: 256 }));
    let core: Core | undefined;
    const [older, younger] = watched(
      (seen) => {
        core = seen;
      },
      () => {
        const both = [0, 1].map((i) => world.submit({ promptIds: promptOf(100, i), maxTokens: 60, seed: i })!);
        world.clock.drain(100_000);
        return both;
      },
    );
    const totals = totalsOf(core!);
    expect(totals[Total.Preemptions]!).toBe(1);
    expect(totals[Total.PreemptedHits]!).toBeGreaterThanOrEqual(64);
    expect(totals[Total.PreemptedHits]! % 16).toBe(0);
    expect([older!.finish, younger!.finish]).toEqual([Finish.Length, Finish.Length]);
    expect(younger!.ids).toEqual(answerOf(younger!.generation, 256).ids);
  });

  test("LSS #49, LSS #27: a hit is counted once per request, for any number of chunks", () => {
    const config = configOf({ asyncScheduling, maxNumBatchedTokens: 16, numGpuBlocks: 65 });
    const world = new World(config);
    const counts = () => {
      const { prefixHits, prefixQueries } = world.engine.snapshot();
      return [prefixHits, prefixQueries];
    };
    world.submit({ promptIds: promptOf(200), maxTokens: 20 });
    world.clock.drain();
    expect(counts()).toEqual([0, 200]);
    // Twelve full blocks are known. The rest and the answer take chunks and steps again.
    world.submit({ promptIds: Uint32Array.from([...promptOf(200), ...promptOf(100, 5)]), maxTokens: 20 });
    world.clock.drain();
    expect(counts()).toEqual([192, 500]);
    world.submit({ promptIds: promptOf(200), maxTokens: 1 });
    world.clock.drain();
    expect(counts()).toEqual([192 + 192, 700]);
  });

  test("llm-d-sim block_cache: only contiguous blocks from the start count as hits", () => {
    const world = new World(configOf({ asyncScheduling, numGpuBlocks: 65 }));
    const [a, b, c] = [1, 2, 3].map((stream) => [...promptOf(16, stream)]);
    const hitsOf = (...blocks: number[][]) => {
      const before = world.engine.snapshot().prefixHits;
      world.submit({ promptIds: Uint32Array.from([...blocks.flat(), 7]), maxTokens: 1 });
      world.clock.drain();
      return world.engine.snapshot().prefixHits - before;
    };
    expect(hitsOf(a!, b!, c!)).toBe(0);
    expect(hitsOf(a!, b!, c!)).toBe(48);
    expect(hitsOf(a!, c!, b!)).toBe(16); // the same blocks after another beginning
    expect(hitsOf(b!, c!)).toBe(0);
    expect(hitsOf(promptOf(16, 9) as unknown as number[], b!, c!)).toBe(0);
  });

  test("vllm#29928, vllm#22545, sglang#4244: after the last abort all gauges are zero, without another request", () => {
    const config = configOf({ asyncScheduling, maxNumSeqs: 3, maxNumBatchedTokens: 64 });
    const gauges = (world: World) => {
      const { running, waiting, deferred, kvUsage, blocksUsed } = world.engine.snapshot();
      return [running, waiting, deferred, kvUsage, blocksUsed];
    };
    // Some requests decode, one prefills in chunks, some wait. Checked at any moment.
    for (let us = 0; us < 12_000; us += 250) {
      const world = new World(config);
      for (let i = 0; i < 9; i++) world.submit({ promptIds: promptOf(40 + 40 * i, i), maxTokens: 100 });
      world.clock.advanceTo(us);
      for (const receiver of world.receivers) receiver.cancel();
      const ended = world.clock.now();
      world.clock.drain();
      expect(gauges(world)).toEqual([0, 0, 0, 0, 0]);
      // The open steps ended, and no other step had work.
      expect(world.clock.now() - ended).toBeLessThan(5000);
      expect(world.engine.snapshot().finished[Finish.Abort]).toBe(9);
    }
    // If no step is open, they are zero at once.
    const frozen = new World(config);
    for (let i = 0; i < 5; i++) frozen.submit({ promptIds: promptOf(40, i) });
    frozen.clock.advanceTo(4000);
    frozen.engine.pause("keep");
    frozen.clock.drain();
    expect(gauges(frozen)).toEqual([3, 2, 0, 9 / 128, 9]);
    for (const receiver of frozen.receivers) receiver.cancel();
    expect(gauges(frozen)).toEqual([0, 0, 0, 0, 0]);
  });
});

const requests = fc.array(anyRequest, { minLength: 1, maxLength: 40, size: "max" });

test("BLIS #183: submitted = finished + running + waiting + aborted at every step, without refused requests", () => {
  let steps = 0;
  fc.assert(
    fc.property(anyConfig, requests, (config, list) => {
      const world = new World(config);
      const look = (core: Core) => {
        steps++;
        const totals = totalsOf(core);
        const ended = totals.slice(Total.FinishedStop, Total.Submitted).reduce((sum, n) => sum + n, 0);
        // Clients of these requests have disconnected. The requests count as ended, and stay in the queues until the
        // next update.
        const leaving = world.engine.inFlight - world.engine.live;
        const inside = core.views.word(Word.Running) + core.views.word(Word.Waiting);
        expect(ended + inside - leaving).toBe(totals[Total.Submitted]!);
      };
      watched(look, () => {
        run(world, list.slice(0, list.length >> 1));
        world.engine.pause("wait");
        expect(world.submit()).toBeNull();
        world.engine.resume();
        run(world, list.slice(list.length >> 1));
      });
      expect(world.refused).toBe(1);
      expect(world.receivers.length).toBe(list.length);
      expect(world.engine.live).toBe(0);
    }),
    { numRuns: times(60) },
  );
  expect(steps).toBeGreaterThan(1000);
});

test("vllm#37354, LMCache#2912: no counter and no histogram ever falls", () => {
  let preempted = 0;
  fc.assert(
    fc.property(anyConfig, requests, (config, list) => {
      const world = new World(config);
      let before: number[] = [];
      const look = (core: Core) => {
        const { views } = core;
        const now = [...totalsOf(core), ...views.buckets, ...views.sums];
        // A plain comparison, because there are some thousand of them.
        for (const [i, was] of before.entries()) if (!(now[i]! >= was)) expect([i, now[i]]).toEqual([i, was]);
        before = now;
        preempted = Math.max(preempted, core.total(Total.Preemptions));
      };
      watched(look, () => run(world, list));
      expect(before.every((value) => value >= 0)).toBe(true);
    }),
    { numRuns: times(25) },
  );
  expect(preempted).toBeGreaterThan(0);
});

test("llm-d-sim #631, llm-d-sim #633: the counters contain every event of ten thousand requests", () => {
  const config = configOf({ maxNumSeqs: 64, maxNumBatchedTokens: 1024, numGpuBlocks: 600 });
  const world = new World(config, { module: release });
  const draw = seeded(11);
  const below = (limit: number) => draw() % limit;
  for (let i = 0; i < 10_000; i++) {
    world.clock.advanceTo(world.clock.now() + below(4000));
    const receiver = world.submit({
      promptIds: promptOf(1 + below(100), below(9)),
      maxTokens: 1 + below(30),
      seed: i,
      stopTokenIds: below(4) === 0 ? [200, 300, 400] : [],
    })!;
    const leaves = below(10) === 0 ? 1 + below(20) : NONE;
    receiver.afterwards = () => {
      if (receiver.finish === null && receiver.ids.length === leaves) receiver.cancel();
    };
  }
  world.clock.drain(5_000_000);
  const { finished, generationTokens, promptTokens, histograms, prefixQueries } = world.engine.snapshot();
  const sum = (of: (receiver: (typeof world.receivers)[number]) => number) =>
    world.receivers.reduce((all, request) => all + of(request), 0);
  const ends = (finish: Finish) => sum((receiver) => Number(receiver.finish === finish));
  const left = sum(({ ended }) => Number(ended));
  expect(left).toBeGreaterThan(300);
  expect(finished).toEqual([ends(Finish.Stop), ends(Finish.Length), left, 0, 0]);
  expect(ends(Finish.Stop) + ends(Finish.Length) + left).toBe(10_000);
  // A client that disconnects during a step does not get the token that the step computed for it.
  const heardTokens = sum(({ ids }) => ids.length);
  expect(generationTokens).toBeWithin(heardTokens, heardTokens + left + 1);
  expect(histograms.timeToFirstToken.count + histograms.interTokenLatency.count).toBe(generationTokens);
  expect(histograms.timeToFirstToken.count).toBe(10_000);
  expect(promptTokens).toBe(sum(({ generation }) => generation.promptIds.length));
  expect(prefixQueries).toBe(promptTokens);
  expect(histograms.e2eLatency.count).toBe(10_000 - left);
  expect(histograms.generationTokens.sum).toBe(sum(({ ended, ids }) => (ended ? 0 : ids.length)));
});
