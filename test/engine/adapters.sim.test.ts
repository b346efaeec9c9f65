/**
 * Checks on a virtual clock that LoRA adapters limit the running requests, share no blocks, and appear in the snapshot as in
 * vLLM.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createEngine } from "../../src/embed/bun.ts";
import type { EngineOptions } from "../../src/embed/engine-browser.ts";
import type { Run } from "../../src/embed/run.ts";
import { times } from "../size.ts";

let core: Uint8Array;
beforeAll(async () => {
  core = await Bun.file(new URL("../../build/core.debug.wasm", import.meta.url)).bytes();
});
const engineWith = (options: EngineOptions) =>
  createEngine(
    {
      maxModelLen: 1024,
      numGpuBlocksOverride: 200,
      timing: "none",
      enableLora: true,
      asyncScheduling: false,
      ...options,
    },
    { core },
  );
const request = (adapter: number, maxTokens = 5) => ({ promptTokens: 20, maxTokens, ignoreEos: true, adapter });

test("at most max-loras adapters run, and requests that wait for one are deferred and skipped", async () => {
  const engine = await engineWith({ maxLoras: 1 });
  const [first, other, plain, again] = [1, 2, 0, 1].map((adapter) => engine.submit(request(adapter))) as [
    Run,
    Run,
    Run,
    Run,
  ];
  engine.step();
  expect([first, other, plain, again].map(({ tokens }) => tokens.length)).toEqual([1, 0, 1, 1]);
  expect(engine.snapshot()).toMatchObject({
    running: 3,
    waiting: 0,
    deferred: 1,
    adapters: [
      { running: 2, waiting: 0, heard: 1 },
      { running: 0, waiting: 1, heard: 0 },
    ],
  });
  while (other.tokens.length === 0) engine.step();
  expect([first.finish, again.finish]).toEqual(["length", "length"]);
  expect(engine.snapshot().adapters).toEqual([
    { running: 0, waiting: 0, heard: 0 },
    { running: 1, waiting: 0, heard: 2 },
  ]);
  while (engine.step());
  expect(engine.snapshot().adapters.every(({ running, waiting, heard }) => running + waiting + heard === 0)).toBe(true);
});

test("prompts of different adapters share no blocks, and prompts of one adapter do", async () => {
  const engine = await engineWith({ maxLoras: 2 });
  const promptIds = Array.from({ length: 64 }, (_, i) => i);
  const cached = (adapter: number) => {
    const run = engine.submit({ promptIds, maxTokens: 1, adapter });
    while (engine.step());
    return run.cachedTokens;
  };
  expect([1, 1, 2, 2, 0, 0].map(cached)).toEqual([0, 48, 0, 48, 0, 48]);
});

test.each([
  [{ adapter: -1 }, "adapter: takes a whole number of at least 0, not -1"],
  [{ adapter: 4096 }, "adapter: at most 4095, not 4096"],
])("a number that no adapter has is refused: %j", async (field, message) => {
  const engine = await engineWith({});
  expect(() => engine.submit({ promptTokens: 1, ...field })).toThrow(message);
});

test("without LoRA no adapter is counted", async () => {
  const engine = await engineWith({ enableLora: false });
  expect(() => engine.submit(request(1))).toThrow("adapter: 1, but enableLora is off");
});

describe("any history", () => {
  const anyOp = fc.oneof(
    { weight: 3, arbitrary: fc.record({ adapter: fc.nat(4), length: fc.integer({ min: 1, max: 12 }) }) },
    { weight: 3, arbitrary: fc.constant("step" as const) },
    { weight: 1, arbitrary: fc.record({ cancel: fc.nat(30) }) },
  );

  test("counts in the snapshot match the requests, and at most max-loras adapters run", async () => {
    const property = fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.boolean(),
      fc.array(anyOp, { maxLength: 60, size: "max" }),
      async (maxLoras, asyncScheduling, ops) => {
        const engine = await engineWith({ maxLoras, asyncScheduling, maxNumSeqs: 6, maxNumBatchedTokens: 64 });
        const runs: { run: Run; adapter: number }[] = [];
        for (const op of ops) {
          if (op === "step") engine.step();
          else if ("cancel" in op) runs[op.cancel % Math.max(1, runs.length)]?.run.cancel();
          else runs.push({ run: engine.submit(request(op.adapter, op.length)), adapter: op.adapter });
          if (op !== "step") continue;
          const { running, waiting, deferred, adapters } = engine.snapshot();
          const shown = adapters.filter((adapter) => adapter.running > 0).length;
          expect(shown).toBeLessThanOrEqual(maxLoras);
          expect(adapters.reduce((sum, adapter) => sum + adapter.running, 0)).toBeLessThanOrEqual(running);
          expect(adapters.reduce((sum, adapter) => sum + adapter.waiting, 0)).toBeLessThanOrEqual(waiting + deferred);
          const active = adapters.flatMap((adapter, i) => (adapter.heard > 0 ? [i + 1] : []));
          const speaking = runs.filter(({ run }) => run.finish === null && run.tokens.length > 0);
          expect(active).toEqual([...new Set(speaking.map(({ adapter }) => adapter))].filter(Boolean).sort());
        }
        while (engine.step());
        expect(engine.live).toBe(0);
        expect(
          engine.snapshot().adapters.every((adapter) => adapter.running + adapter.waiting + adapter.heard === 0),
        ).toBe(true);
      },
    );
    await fc.assert(property, { numRuns: times(60) });
  });
});
