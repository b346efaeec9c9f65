/**
 * Compares the presets with published benchmarks of real engines (measured.csv). Replays every point, and makes the tables of
 * docs/explanation/timing.md.
 */
import { readFileSync } from "node:fs";
import { markdownTable } from "../../scripts/docs/markdown.ts";
import { engineConfig } from "../../src/embed/options.ts";
import type { EngineSnapshot } from "../../src/engine/interface/types.ts";
import { findPreset } from "../../src/engine/timing/presets.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { root } from "./bench.ts";
import { median } from "./numbers.ts";
import { replayOf } from "./replay-of.ts";

/** Prompt tokens, concurrent requests, mean time to first token and per output token in ms. Answers have 1,024 tokens. */
export type Point = readonly [isl: number, concurrency: number, ttftMs: number, tpotMs: number];

/**
 * Benchmarks with a fixed number of concurrent requests, by preset. Source: aiconfigurator-core 0.12.0,
 * systems/silicon_sample.csv. It states vLLM's version only for gpt-oss (0.18.0, 0.11.2). The h200-tp4-trtllm rows come from an
 * older TensorRT-LLM.
 */
export const MEASURED: Readonly<Record<string, readonly Point[]>> = (() => {
  const lines = readFileSync(`${root}bench/lib/measured.csv`, "utf8").trimEnd().split("\n").slice(1);
  const presets = Map.groupBy(lines, (line) => line.split(",")[0]!);
  const points = (rows: string[]) => rows.map((line) => line.split(",").slice(1).map(Number) as unknown as Point);
  return Object.fromEntries(Array.from(presets, ([preset, rows]) => [preset, points(rows)]));
})();

const OSL = 1024;
/** As in the benchmarks, lengths are uniform from 0.8 to 1 of the nominal length, with 10 requests per concurrent one. */
const SHORTEST = 0.8;
const PER_SLOT = 10;

interface SimulatedTimes {
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly preemptions: number;
}

const module = () => new WebAssembly.Module(readFileSync(`${root}build/core.wasm`));

/** Results so far. Tables and tests request the same points repeatedly. */
const known = new Map<string, SimulatedTimes>();

/** Replays a benchmark. `timing`: a preset, or its name with an overhead. `poolTokens`: default the preset's pool. */
export function simulate(timing: string, point: Point, poolTokens?: number, seed = 0): SimulatedTimes {
  const key = JSON.stringify([timing, point, poolTokens, seed]);
  const result = known.get(key) ?? replayed(timing, point, poolTokens, seed);
  known.set(key, result);
  return result;
}

function replayed(timing: string, [isl, concurrency]: Point, poolTokens: number | undefined, seed: number) {
  const blocks = poolTokens === undefined ? {} : { numGpuBlocksOverride: Math.ceil(poolTokens / 16) + 1 };
  const { engine } = engineConfig({ timing, seed, ...blocks });
  const lengths = (most: number) => `${Math.ceil(SHORTEST * most)}-${most}`;
  const load = `isl=${lengths(isl)},osl=${lengths(OSL)},concurrency=${concurrency},requests=${PER_SLOT * concurrency}`;
  const replay = replayOf(engine, module(), openTrace(`synthetic:${load}`, null), seed);
  const [{ preemptions, histograms }] = replay.fleet.snapshots() as [EngineSnapshot];
  const { timeToFirstToken, timePerOutputToken } = histograms;
  const meanMs = ({ sum, count }: { sum: number; count: number }) => (1000 * sum) / count;
  return { ttftMs: meanMs(timeToFirstToken), tpotMs: meanMs(timePerOutputToken), preemptions };
}

/** The preset whose measured KV pool was too small for its load. */
export const POOLED = "llama-3.1-70b-fp8-h100-tp2-vllm";
export const POOLED_POINTS: readonly Point[] = MEASURED[POOLED]!.filter(
  ([isl, concurrency]) => concurrency === 64 || (isl === 8192 && concurrency >= 16),
);
export const POOLS = [256_557, 230_000, 210_000] as const;

/** Reports whether requests queued for KV blocks at this point. Such a point shows the size of the pool, not of an error. */
const isQueued = (point: Point) => point[2] > 6000;

/** Returns simulated times divided by measured ones, one per point. `ttftBare`: without the preset's request overhead. */
export function ratiosOf(preset: string) {
  const points = MEASURED[preset]!.filter((point) => !isQueued(point));
  const full = points.map((point) => simulate(preset, point));
  const bare = points.map((point) => simulate(`${preset}:overhead=0ms`, point));
  const ttft = (simulated: readonly SimulatedTimes[]) => simulated.map(({ ttftMs }, i) => ttftMs / points[i]![2]);
  return { tpot: full.map(({ tpotMs }, i) => tpotMs / points[i]![3]), ttft: ttft(full), ttftBare: ttft(bare) };
}

const range = (ratios: readonly number[]) =>
  `${median([...ratios]).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;

/** Returns the cells of a row of the table of ratios. */
export function ratiosRow(preset: string): (string | number)[] {
  const { tpot, ttft, ttftBare } = ratiosOf(preset);
  const overheadMs = (findPreset(preset)!.timing.requestOverheadUs ?? 0) / 1000;
  return [`\`${preset}\``, tpot.length, range(tpot), `${overheadMs} ms`, range(ttft), range(ttftBare)];
}

export const ratiosMarkdown = () =>
  markdownTable([
    ["Preset", "Points", "TPOT ÷ measured, median (least–most)", "Overhead", "TTFT ÷ measured", "… without overhead"],
    ...Object.keys(MEASURED).map(ratiosRow),
  ]);

export function pooledMarkdown(): string {
  const times = (ttftMs: number, tpotMs: number) => `${Math.round(ttftMs).toLocaleString("en")}, ${tpotMs.toFixed(1)}`;
  const cell = ({ ttftMs, tpotMs, preemptions }: SimulatedTimes) => `${times(ttftMs, tpotMs)} (${preemptions})`;
  return markdownTable([
    [
      "Prompt / answer × at once",
      "measured TTFT, TPOT ms",
      ...POOLS.map((pool) => `pool ${pool.toLocaleString("en")}`),
    ],
    ...POOLED_POINTS.map((point) => {
      const [isl, concurrency, ttftMs, tpotMs] = point;
      const cells = POOLS.map((pool) => cell(simulate(POOLED, point, pool)));
      return [`${isl} / 1024 × ${concurrency}`, times(ttftMs, tpotMs), ...cells];
    }),
  ]);
}
