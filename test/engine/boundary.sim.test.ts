/** Checks running and waiting requests when the engine is paused, emptied or told to end all requests. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { Finish } from "../../src/engine/interface/types.ts";
import { times } from "../size.ts";
import { anyConfig, anyRequest, live } from "./random-requests.ts";
import { answerOf, configOf, promptOf, type RecordingReceiver, World } from "./simulated-engine.ts";

setDefaultTimeout(60_000);

const modes = [true, false] as const;
const STEP = 1020;

/** Two requests that run, two that wait for a place. */
function busy(asyncScheduling: boolean) {
  const config = configOf({
    asyncScheduling,
    maxNumSeqs: 2,
    timing: { kind: "linear", baseUs: 1000, prefillUs: 0, decodeUs: 10 },
  });
  const world = new World(config);
  const all = [1, 2, 3, 4].map(
    (stream) => world.submit({ promptIds: promptOf(20, stream), seed: stream, maxTokens: 20 })!,
  );
  world.clock.advanceTo(5 * STEP);
  return { world, all, running: all.slice(0, 2), waiting: all.slice(2) };
}
const whole = (receiver: RecordingReceiver) => {
  const { ids, finish } = answerOf(receiver.generation, 512);
  expect([receiver.ids, receiver.finish, receiver.callsAfterEnd]).toEqual([ids, finish, 0]);
};
const tokens = (list: readonly RecordingReceiver[]) => list.map(({ ids }) => ids.length);

describe.each(modes)("asynchronous scheduling %p", (asyncScheduling) => {
  test("keep freezes everything except steps in flight, queues new requests, and later continues unchanged", () => {
    const { world, all } = busy(asyncScheduling);
    const before = tokens(all);
    world.engine.pause("keep");
    world.clock.advanceTo(world.clock.now() + 100 * STEP);
    const after = tokens(all);
    for (const [i, count] of after.entries()) expect(count - before[i]!).toBeLessThanOrEqual(2);
    world.clock.advanceTo(world.clock.now() + 100 * STEP);
    expect(tokens(all)).toEqual(after);
    expect(world.engine.snapshot()).toMatchObject({ running: 2, waiting: 2 });
    const late = world.submit({ seed: 9 })!;
    world.clock.advanceTo(world.clock.now() + 100 * STEP);
    expect(late.ids).toEqual([]);
    const resumedUs = world.clock.now();
    world.engine.resume();
    world.clock.drain();
    for (const receiver of [...all, late]) whole(receiver);
    expect(Math.min(...all.flatMap(({ tokenUs }) => tokenUs.filter((us) => us > resumedUs)))).toBe(resumedUs + STEP);
  });

  test("wait lets running requests finish, keeps waiting ones, and refuses new ones until the end of the pause", () => {
    const { world, running, waiting } = busy(asyncScheduling);
    world.engine.pause("wait");
    expect(world.submit()).toBeNull();
    world.clock.advanceTo(world.clock.now() + 100 * STEP);
    running.forEach(whole);
    expect(tokens(waiting)).toEqual([0, 0]);
    expect(world.engine.snapshot()).toMatchObject({ running: 0, waiting: 2, blocksUsed: 0 });
    world.engine.resume();
    expect(world.submit()).not.toBeNull();
    world.clock.drain();
    waiting.forEach(whole);
  });

  test("abort ends every request once at the end of the step, frees blocks within one more, and refuses new requests until the end of the pause", () => {
    const { world, all } = busy(asyncScheduling);
    world.engine.pause("abort");
    expect(world.submit()).toBeNull();
    world.clock.advanceTo(world.clock.now() + STEP);
    expect(all.map(({ finish }) => finish)).toEqual([Finish.Abort, Finish.Abort, Finish.Abort, Finish.Abort]);
    expect([world.engine.live, world.submit()]).toEqual([0, null]);
    world.clock.advanceTo(world.clock.now() + 2 * STEP);
    expect(world.engine.snapshot()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0, finished: [0, 0, 4, 0, 0] });
    expect(all.map(({ callsAfterEnd }) => callsAfterEnd)).toEqual([0, 0, 0, 0]);
    world.engine.resume();
    const next = world.submit()!;
    world.clock.drain();
    whole(next);
  });

  test("abortAll does not pause the engine", () => {
    const { world, all } = busy(asyncScheduling);
    world.engine.abortAll();
    const next = world.submit({ seed: 5 })!;
    world.clock.drain();
    whole(next);
    expect(all.map(({ finish, callsAfterEnd }) => [finish, callsAfterEnd])).toEqual(all.map(() => [Finish.Abort, 0]));
    expect(world.engine.snapshot().finished).toEqual([0, 1, 4, 0, 0]);
  });

  test("a client that disconnects while everything is frozen frees its place and blocks at once", () => {
    const { world, all, running } = busy(asyncScheduling);
    world.engine.pause("keep");
    world.clock.advanceTo(world.clock.now() + 10 * STEP);
    const { blocksUsed } = world.engine.snapshot();
    running[0]!.cancel();
    expect(world.engine.snapshot()).toMatchObject({ running: 1, waiting: 2 });
    expect(world.engine.snapshot().blocksUsed).toBeLessThan(blocksUsed);
    world.engine.resume();
    world.clock.drain();
    all.slice(1).forEach(whole);
  });

  test("the prefix cache is emptied only if no request holds blocks, or with preemption", () => {
    const { world, all } = busy(asyncScheduling);
    expect(world.engine.resetPrefixCache(false)).toBe(false);
    expect(world.engine.resetPrefixCache(true)).toBe(true);
    expect(world.engine.snapshot("now").preemptions).toBe(2);
    world.clock.drain();
    all.forEach(whole);
    expect(world.engine.resetPrefixCache(false)).toBe(true);
    const again = world.submit({ promptIds: promptOf(20, 1) })!;
    world.clock.drain();
    expect(again.submission.cachedTokens).toBe(0);
  });

  test("requests that are cancelled or aborted before the queue never reach it", () => {
    const world = new World(configOf({ asyncScheduling, timing: { kind: "constant", ttftUs: 5000, itlUs: 100 } }));
    const [left, aborted] = [world.submit()!, world.submit()!];
    world.clock.advanceTo(1000);
    expect(world.engine.snapshot()).toMatchObject({ running: 0, waiting: 0 });
    left.cancel();
    world.engine.abortAll();
    expect([left.finish, aborted.finish, world.engine.live]).toEqual([null, Finish.Abort, 0]);
    const next = world.submit()!;
    world.clock.drain();
    expect(next.ttftUs).toBe(5000);
    expect(world.engine.snapshot().finished).toEqual([0, 1, 0, 0, 0]);
  });

  test("a stopped engine plans no more steps", () => {
    const { world, all } = busy(asyncScheduling);
    const before = tokens(all);
    world.engine.stop();
    world.clock.drain();
    expect([tokens(all), world.submit()]).toEqual([before, null]);
  });
});

test("pauses, resets and aborts at any moment do not change answers", () => {
  const acts = fc.array(
    fc.record({
      atUs: fc.nat(80_000),
      order: fc.constantFrom("keep" as const, "wait" as const, "resume" as const, "reset" as const, "force" as const),
    }),
    { maxLength: 12 },
  );
  const requests = fc.array(anyRequest, { minLength: 1, maxLength: 25, size: "max" });
  const property = fc.property(anyConfig, requests, acts, (config, list, doings) => {
    const world = new World(config);
    for (const { atUs, order } of doings) {
      world.clock.at(atUs, () => {
        if (order === "resume") world.engine.resume();
        else if (order === "reset" || order === "force") world.engine.resetPrefixCache(order === "force");
        else world.engine.pause(order);
      });
    }
    const least = config.schedulingPolicy === "priority" ? 1 : 0;
    for (const request of list) {
      world.clock.advanceTo(world.clock.now() + Math.max(request.gapUs, least));
      live(world, request);
    }
    world.clock.drain(2_000_000);
    world.engine.resume();
    world.clock.drain(2_000_000);
    expect(world.receivers.length + world.refused).toBe(list.length);
    for (const receiver of world.receivers) {
      const { ids, finish } = answerOf(receiver.generation, config.maxModelLen);
      expect(receiver.callsAfterEnd).toBe(0);
      if (receiver.ended) expect(receiver.ids).toEqual(ids.slice(0, receiver.ids.length));
      else expect([receiver.ids, receiver.finish]).toEqual([ids, finish]);
    }
    expect(world.engine.live).toBe(0);
    expect(world.engine.snapshot()).toMatchObject({ running: 0, waiting: 0, deferred: 0, blocksUsed: 0 });
  });
  fc.assert(property, { numRuns: times(120) });
});
