/** Checks receivers that submit, cancel or finish requests during their own call. */
import { describe, expect, test } from "bun:test";
import { Finish } from "../../src/engine/interface/types.ts";
import { answerOf, configOf, promptOf, type RecordingReceiver, World } from "./simulated-engine.ts";

const modes = [true, false] as const;
const whole = (receiver: RecordingReceiver) => ({ ids: receiver.ids, finish: receiver.finish! });

describe.each(modes)("asynchronous scheduling %p", (asyncScheduling) => {
  const config = configOf({ asyncScheduling });

  test("the next request may be submitted from the last call of the one before", () => {
    const world = new World(config);
    let left = 200;
    const next = () => {
      if (left-- <= 0) return;
      const receiver = world.submit({ promptIds: promptOf(10, left), maxTokens: 1 + (left % 7), seed: left })!;
      receiver.afterwards = () => receiver.finish !== null && next();
    };
    // Several requests end in one step, so the slot of a later row may be free before its receiver is called.
    for (let i = 0; i < 6; i++) next();
    world.clock.drain();
    expect(world.receivers.length).toBe(200);
    for (const receiver of world.receivers)
      expect(whole(receiver)).toEqual(answerOf(receiver.generation, config.maxModelLen));
    expect(world.engine.live).toBe(0);
    expect(world.engine.snapshot().finished[Finish.Length]).toBe(200);
  });

  test("one receiver may end another that has a row in the same step, and submit a third", () => {
    const world = new World(config);
    const [first, second] = [1, 2].map((stream) => world.submit({ promptIds: promptOf(9, stream), seed: stream })!);
    let third: RecordingReceiver | null = null;
    first!.afterwards = () => {
      if (first!.ids.length !== 3) return;
      second!.cancel();
      third = world.submit({ promptIds: promptOf(9, 3), seed: 3 });
    };
    world.clock.drain();
    expect(whole(first!)).toEqual(answerOf(first!.generation, 512));
    expect(whole(third!)).toEqual(answerOf(third!.generation, 512));
    expect([second!.ids.length, second!.callsAfterEnd]).toEqual([2, 0]);
    expect(world.engine.live).toBe(0);
  });

  test("one receiver may end another whose last row is in the same step", () => {
    const world = new World(config);
    const [first, second] = [1, 2].map((stream) => world.submit({ promptIds: promptOf(9, stream), maxTokens: 3 })!);
    first!.afterwards = () => {
      if (first!.ids.length === 3) second!.cancel();
    };
    world.clock.drain();
    expect([second!.ids.length, second!.callsAfterEnd]).toEqual([2, 0]);
    // The engine had already counted its end when the client disconnected.
    expect(world.engine.snapshot().finished).toEqual([0, 2, 0, 0, 0]);
    expect(world.engine.live).toBe(0);
  });

  test("a receiver may end itself with its first token", () => {
    const world = new World(config);
    const receiver = world.submit()!;
    receiver.afterwards = () => receiver.stopAfter(1);
    world.clock.drain();
    expect([receiver.ids.length, receiver.callsAfterEnd]).toEqual([1, 0]);
    expect(world.engine.snapshot().finished).toEqual([1, 0, 0, 0, 0]);
    expect(world.engine.snapshot().histograms.generationTokens.sum).toBe(1);
  });

  test("cached tokens can be read in the last call, even after other submissions", () => {
    const world = new World(config);
    world.submit({ promptIds: promptOf(64, 1), maxTokens: 1 });
    world.clock.drain();
    const [first, second] = [7, 1].map((stream) => world.submit({ promptIds: promptOf(64, stream), maxTokens: 1 })!);
    first!.afterwards = () => world.submit({ promptIds: promptOf(5, 9), maxTokens: 1 });
    let cached = -1;
    second!.afterwards = () => {
      cached = second!.submission.cachedTokens;
    };
    world.clock.drain();
    expect(cached).toBe(48);
  });
});
