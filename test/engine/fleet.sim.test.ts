/** Checks that several engines on one clock each behave as if alone, and share the work like vLLM's ranks. */
import { describe, expect, test } from "bun:test";
import { seeded } from "../../src/base/random.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { Fleet } from "../../src/engine/fleet.ts";
import { Finish, type Generation } from "../../src/engine/interface/types.ts";
import {
  answerOf,
  answers,
  configOf,
  debug,
  EOS,
  generationOf,
  promptOf,
  RecordingReceiver,
  World,
} from "./simulated-engine.ts";

class Ranks {
  readonly clock = new VirtualClock(1_000_000);
  readonly fleet: Fleet;
  readonly receivers: RecordingReceiver[] = [];

  constructor(engines: number, config: EngineConfig) {
    const { clock } = this;
    this.fleet = new Fleet({ engines, config, clock, module: debug, free: false, eosId: EOS, answers });
  }

  submit(changes: Partial<Generation> = {}): RecordingReceiver | null {
    const receiver = new RecordingReceiver(generationOf({ arrivalUs: this.clock.now(), ...changes }), this.clock);
    const taken = this.fleet.submit(receiver.generation, receiver);
    if ("refused" in taken) return null;
    receiver.submission = taken;
    this.receivers.push(receiver);
    return receiver;
  }

  live(): number[] {
    return this.fleet.engines.map((engine) => engine.live);
  }
}

const digest = (receivers: readonly RecordingReceiver[]) =>
  receivers.map(({ events }) => events.map((e) => `${e.us}:${e.ids}:${e.finish}`).join(" ")).join("\n");

/** Requests at random times with random lengths. */
function traffic(ranks: { clock: VirtualClock; submit(changes: Partial<Generation>): unknown }, count: number): void {
  const next = seeded(7);
  for (let i = 0; i < count; i++) {
    ranks.clock.advanceTo(ranks.clock.now() + (next() % 6000));
    ranks.submit({
      promptIds: promptOf(20 + (next() % 200), next() % 12),
      maxTokens: 1 + (next() % 60),
      seed: i,
    });
  }
  ranks.clock.drain();
}

test("a fleet with one engine behaves like that engine", () => {
  const config = configOf({ numGpuBlocks: 40 });
  const ranks = new Ranks(1, config);
  traffic(ranks, 150);
  const world = new World(config, { startUs: 1_000_000 });
  traffic(world, 150);
  expect(digest(ranks.receivers)).toBe(digest(world.receivers));
});

test("with three engines all requests get the same answers as alone, each engine does its share, and a second run is equal", () => {
  const config = configOf({ numGpuBlocks: 40 });
  const run = () => {
    const ranks = new Ranks(3, config);
    traffic(ranks, 400);
    return ranks;
  };
  const { receivers, fleet } = run();
  for (const { generation, ids, finish } of receivers)
    expect({ ids, finish: finish! }).toEqual(answerOf(generation, config.maxModelLen));
  const snapshots = fleet.snapshots();
  const tokens = receivers.reduce((sum, { ids }) => sum + ids.length, 0);
  expect(snapshots.reduce((sum, { generationTokens }) => sum + generationTokens, 0)).toBe(tokens);
  for (const { finished, generationTokens, blocksUsed } of snapshots) {
    expect(finished[Finish.Length] + finished[Finish.Stop]).toBeGreaterThan(400 / 6);
    expect(generationTokens).toBeGreaterThan(tokens / 6);
    expect(blocksUsed).toBe(0);
  }
  expect(fleet.live).toBe(0);
  expect(digest(run().receivers)).toBe(digest(receivers));
});

test("a burst is distributed in turn, independent of reports in between", () => {
  const ranks = new Ranks(4, configOf());
  for (let i = 0; i < 40; i++) ranks.submit({ promptIds: promptOf(40, i), maxTokens: 200, ignoreEos: true });
  expect(ranks.live()).toEqual([10, 10, 10, 10]);
  ranks.clock.advanceTo(ranks.clock.now() + 150_000); // they run, and the front end gets the counts
  for (let i = 0; i < 8; i++) ranks.submit({ promptIds: promptOf(40, i), maxTokens: 200, ignoreEos: true });
  expect(ranks.live()).toEqual([12, 12, 12, 12]);
});

test("a named rank gets the request however busy it is, and other requests avoid it", () => {
  const ranks = new Ranks(2, configOf());
  for (let i = 0; i < 6; i++) ranks.submit({ promptIds: promptOf(40, i), maxTokens: 100, ignoreEos: true, rank: 1 });
  expect(ranks.live()).toEqual([0, 6]);
  for (let i = 0; i < 5; i++) ranks.submit({ promptIds: promptOf(40, i), maxTokens: 100, ignoreEos: true });
  expect(ranks.live()).toEqual([5, 6]);
});

test("a waiting request at a full pool weighs more than one", () => {
  // The pool of rank 0 has 32 blocks and holds one of these requests, with 25 blocks. The second one waits.
  const timing = { kind: "linear", baseUs: 10_000, prefillUs: 0, decodeUs: 0 } as const;
  const ranks = new Ranks(2, configOf({ numGpuBlocks: 33, maxNumBatchedTokens: 512, timing }));
  for (const stream of [1, 2]) {
    ranks.submit({ promptIds: promptOf(400, stream), maxTokens: 110, ignoreEos: true, rank: 0 });
  }
  ranks.clock.advanceTo(ranks.clock.now() + 105_000);
  const { running, waiting } = ranks.fleet.snapshots()[0]!;
  expect([running, waiting]).toEqual([1, 1]);
  const choose = () => {
    ranks.submit({ promptIds: promptOf(20, 9), maxTokens: 100, ignoreEos: true });
    return ranks.live();
  };
  // Rank 0 has the score 2 + 6 · (25 / 32 − 0.5) = 3.69, rank 1 its number of requests.
  for (const rankOne of [1, 2, 3, 4]) expect(choose()).toEqual([2, rankOne]);
  expect(choose()).toEqual([3, 4]);
});

test("requests that the front end has ended count as in flight until the next update", () => {
  const ranks = new Ranks(2, configOf());
  const first = ranks.submit({ maxTokens: 100, ignoreEos: true, rank: 0 })!;
  ranks.submit({ maxTokens: 100, ignoreEos: true, rank: 1 });
  ranks.clock.advanceTo(ranks.clock.now() + 5_500);
  first.cancel();
  const [engine] = ranks.fleet.engines as [Engine];
  expect([engine.live, engine.inFlight]).toEqual([0, 1]);
  ranks.clock.advanceTo(ranks.clock.now() + 2_000);
  expect([engine.live, engine.inFlight]).toEqual([0, 0]);
  ranks.clock.drain();
});

describe("all together", () => {
  const four = () => {
    const ranks = new Ranks(2, configOf());
    for (let i = 0; i < 4; i++) ranks.submit({ promptIds: promptOf(33, i), maxTokens: 50, ignoreEos: true });
    ranks.clock.advanceTo(ranks.clock.now() + 10_500);
    return ranks;
  };

  test("pause abort ends requests at the steps' ends, refuses new ones at once, and resolves at rest", async () => {
    const ranks = four();
    let settled = false;
    const done = ranks.fleet.pause("abort", true).then(() => {
      settled = true;
    });
    expect(ranks.submit()).toBeNull();
    expect(ranks.receivers.map(({ finish }) => finish)).toEqual([null, null, null, null]);
    await Promise.resolve();
    expect(settled).toBe(false);
    ranks.clock.drain();
    await done;
    expect(ranks.receivers.map(({ finish }) => finish)).toEqual([
      Finish.Abort,
      Finish.Abort,
      Finish.Abort,
      Finish.Abort,
    ]);
    expect(ranks.fleet.paused).toBe(true);
    ranks.fleet.resume();
    const after = ranks.submit({ promptIds: promptOf(33, 0) })!;
    ranks.clock.drain();
    expect([ranks.fleet.paused, after.finish, after.submission.cachedTokens]).toEqual([false, Finish.Length, 0]);
  });

  test("pause wait without clearing lets running requests end and keeps their blocks cached", async () => {
    const ranks = four();
    const done = ranks.fleet.pause("wait", false);
    ranks.clock.drain();
    await done;
    expect(ranks.receivers.map(({ finish, ids }) => [finish, ids.length])).toEqual(Array(4).fill([Finish.Length, 50]));
    ranks.fleet.resume();
    const ranksOf = [0, 1].map((rank) => ranks.submit({ promptIds: promptOf(33, rank), rank })!);
    ranks.clock.drain();
    expect(ranksOf.map(({ submission }) => submission.cachedTokens)).toEqual([32, 32]);
  });

  test("pause keep with clearing recomputes frozen requests with the same answers", async () => {
    const ranks = four();
    const done = ranks.fleet.pause("keep", true);
    ranks.clock.drain();
    await done;
    expect(ranks.fleet.views("now").map(({ preemptions }) => preemptions)).toEqual([2, 2]);
    expect(ranks.live()).toEqual([2, 2]);
    ranks.fleet.resume();
    ranks.clock.drain();
    for (const { generation, ids, finish } of ranks.receivers)
      expect({ ids, finish: finish! }).toEqual(answerOf(generation, 512));
  });

  test("a reset succeeds only if all engines can reset", async () => {
    const ranks = new Ranks(2, configOf());
    ranks.submit({ maxTokens: 50, ignoreEos: true, rank: 1 });
    ranks.clock.advanceTo(ranks.clock.now() + 5_500);
    const busy = ranks.fleet.resetPrefixCache(false);
    const forced = ranks.fleet.resetPrefixCache(true);
    ranks.clock.drain();
    expect([await busy, await forced]).toEqual([false, true]);
    expect(await ranks.fleet.resetPrefixCache(false)).toBe(true);
    expect(ranks.receivers[0]!.ids).toHaveLength(50);
  });
});
