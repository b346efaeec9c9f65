/** Tests requests whose prompt was computed elsewhere: they wait for their KV cache and need no prefill. */
import { expect, test } from "bun:test";
import type { StepNoise, Timing } from "../../src/engine/config/step-times.ts";
import { configOf, promptOf, World, watchPlans } from "./simulated-engine.ts";

const timing: Timing = { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20, requestOverheadUs: 12_000 };

test("a transferred prompt waits for its transfer time at the engine's speed, and others for the usual time", () => {
  const noise: StepNoise = { overheadSigma: 0.2 };
  for (const changes of [{}, { noise }, { timing: { ...timing, requestOverheadUs: 0 } }, { speed: 10 }]) {
    const { speed = 1 } = changes as { speed?: number };
    const world = new World(configOf({ timing, ...changes }));
    const late = world.submit({ promptIds: promptOf(50), maxTokens: 1, transferUs: 30_000 })!;
    const now = world.submit({ promptIds: promptOf(50), maxTokens: 1, transferUs: 0 })!;
    world.clock.drain();
    expect([now.tokenUs, late.tokenUs]).toEqual([[1000 / speed], [31_000 / speed]]);
  }
  const world = new World(configOf({ timing }));
  world.submit({ promptIds: promptOf(50), maxTokens: 1, transferUs: 30_000 });
  const local = world.submit({ promptIds: promptOf(50), maxTokens: 1 })!;
  world.clock.drain();
  expect(local.tokenUs).toEqual([13_500]);
});

test("its prompt lengthens no step, whole or in chunks, with any other requests", () => {
  const world = new World(configOf({ timing: { ...timing, requestOverheadUs: 0 } }));
  const remote = world.submit({ promptIds: promptOf(300), maxTokens: 2, transferUs: 0 })!;
  const local = world.submit({ promptIds: promptOf(50, 1), maxTokens: 1 })!;
  world.clock.drain();
  // 128 tokens per step: two steps of this request alone, then its last 44 tokens together with 50 of the other.
  expect([remote.tokenUs, local.tokenUs]).toEqual([[3500, 4520], [3500]]);
});

test("a preempted request is computed here", () => {
  const found: number[] = [];
  const done = watchPlans(({ durationUs, rows }) => rows > 0 && found.push(durationUs));
  const world = new World(
    configOf({
      timing: { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 0 },
      numGpuBlocks: 9,
      maxModelLen: 128,
      enablePrefixCaching: false,
    }),
  );
  for (const stream of [1, 2])
    world.submit({ promptIds: promptOf(50, stream), maxTokens: 60, ignoreEos: true, transferUs: 0 });
  world.clock.drain();
  done();
  expect(world.engine.snapshot().preemptions).toBe(1);
  const longer = found.filter((us) => us > 1000);
  // The request computes its prompt and its previous output.
  expect(longer).toHaveLength(1);
  expect(longer[0]).toBeWithin(1510, 2100);
});
