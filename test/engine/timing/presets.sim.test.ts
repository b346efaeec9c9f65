/** Checks the presets in the engine: every example of their sources in the core, and every benchmark point in a replay. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import {
  MEASURED,
  POOLED,
  POOLED_POINTS,
  pooledMarkdown,
  ratiosOf,
  ratiosRow,
  simulate,
} from "../../../bench/lib/measured.ts";
import type { Timing } from "../../../src/engine/config/step-times.ts";
import { findPreset, presetNames } from "../../../src/engine/timing/presets.ts";
import { holdUs, stepUs } from "../../../src/engine/timing/timing.ts";
import { sampled } from "../../size.ts";
import { configOf, promptOf, release, World, watchPlans } from "../simulated-engine.ts";
import { examples } from "./examples.ts";

setDefaultTimeout(60_000);

const preset = (name: string) => findPreset(name)!.timing;

/** Returns the core's durations of one prefill step and of the first decode step, for prompts of one length. */
function steps(timing: Timing, requests: number, promptTokens: number): { prefillUs: number; decodeUs: number } {
  const tokens = requests * promptTokens;
  const config = configOf({
    timing,
    maxModelLen: promptTokens + 8,
    maxNumSeqs: requests,
    maxNumActiveSeqs: requests,
    maxNumBatchedTokens: tokens,
    maxNumScheduledTokens: tokens,
    numGpuBlocks: requests * (Math.ceil(promptTokens / 16) + 2),
    enablePrefixCaching: false,
    asyncScheduling: false,
  });
  const found: number[] = [];
  const done = watchPlans(({ durationUs, rows }) => rows > 0 && found.push(durationUs));
  try {
    const world = new World(config, { module: release });
    const promptIds = promptOf(promptTokens);
    for (let i = 0; i < requests; i++) world.submit({ promptIds, maxTokens: 2, ignoreEos: true });
    world.clock.drain();
  } finally {
    done();
  }
  expect(found).toHaveLength(2);
  return { prefillUs: found[0]!, decodeUs: found[1]! };
}

test.each(presetNames)("the core's steps of %s equal the formula in every example of the source", (name) => {
  const timing = preset(name);
  const { prefillMs, decodeMs } = examples[name]!;
  for (const n of Object.keys(prefillMs).map(Number)) {
    const load = { promptTokens: n, prefix: 0, pairs: (n * (n + 1)) / 2, decodes: 0, context: 0 };
    expect(steps(timing, 1, n).prefillUs).toBe(stepUs(timing, load));
  }
  for (const shape of Object.keys(decodeMs)) {
    const [decodes, contextEach] = shape.split("x").map(Number) as [number, number];
    const load = { promptTokens: 0, prefix: 0, pairs: 0, decodes, context: decodes * contextEach };
    // A sequence attends to its prompt and to the token that it computes.
    expect(steps(timing, decodes, contextEach - 1).decodeUs).toBe(stepUs(timing, load));
  }
});

describe("measured benchmarks", () => {
  const measured = sampled("properties", Object.keys(MEASURED), 2);

  test.each(measured)("every TPOT of %s is within 12 %, and its request overhead does not worsen TTFT", (name) => {
    const { tpot, ttft, ttftBare } = ratiosOf(name);
    for (const ratio of tpot) expect(Math.abs(ratio - 1)).toBeLessThan(0.12);
    const error = (ratios: readonly number[]) => ratios.reduce((sum, ratio) => sum + Math.abs(ratio - 1), 0);
    expect(error(ttft)).toBeLessThanOrEqual(error(ttftBare));
    // For vLLM on H100 and H200, the mean error of TTFT is small. docs/explanation/timing.md lists the others.
    if (/h[12]00-tp\d-vllm/.test(name) && !name.startsWith("gpt-oss")) {
      expect(error(ttft) / ttft.length).toBeLessThan(0.12);
    }
  });

  test("70B, 8,192 in, 1,024 out, 64 at once: a minute of queueing and the plateau follow from pool and step time", () => {
    const point = POOLED_POINTS.at(-1)!;
    const [isl, concurrency, ttftMs, tpotMs] = point;
    expect([isl, concurrency, ttftMs, tpotMs]).toEqual([8192, 64, 59_175.4, 52.41]);
    for (const seed of [0, 1, 2]) {
      const simulated = simulate(POOLED, point, 230_000, seed);
      expect(Math.abs(simulated.ttftMs / ttftMs - 1)).toBeLessThan(0.2);
      expect(Math.abs(simulated.tpotMs / tpotMs - 1)).toBeLessThan(0.2);
      expect(simulated.preemptions).toBeGreaterThan(0);
    }
  });

  test("docs/explanation/timing.md has these numbers (npx bun run docs writes them)", () => {
    const text = readFileSync(new URL("../../../docs/explanation/timing.md", import.meta.url), "utf8");
    const table = /<!-- measured -->\n([\s\S]*?)\n<!-- \/measured -->/.exec(text)![1]!.split("\n");
    expect(table.length).toBe(2 + Object.keys(MEASURED).length);
    for (const preset of measured) expect(table).toContain(`| ${ratiosRow(preset).join(" | ")} |`);
    expect(text).toContain(`<!-- pools -->\n${pooledMarkdown()}\n<!-- /pools -->`);
  });
});

test("more chunks cost no more overhead, because it applies once per request", () => {
  const timing = preset("llama-3.1-8b-fp8-h200-tp1-dynamo-profile");
  const once = (maxNumBatchedTokens: number) => {
    const world = new World(
      configOf({ timing, maxModelLen: 8200, numGpuBlocks: 600, maxNumBatchedTokens, maxNumSeqs: 1 }),
      { module: release },
    );
    const receiver = world.submit({ promptIds: promptOf(8000), maxTokens: 1 })!;
    world.clock.drain();
    return receiver.ttftUs;
  };
  const [whole, halves] = [once(8192), once(4000)];
  expect(whole).toBeGreaterThan(holdUs(timing));
  // The decode base once more, and the effect of rounding.
  expect(Math.abs(halves - whole - 4452.4)).toBeLessThan(2);
});
