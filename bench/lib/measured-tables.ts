/** Compares the presets with measured engines. Makes the tables of docs/explanation/timing.md from a replay of every measured point. */
import { findPreset } from "../../src/engine/timing/presets.ts";
import { MEASURED, type Point, type SimulatedTimes, simulate } from "./measured.ts";
import { median } from "./numbers.ts";

/** The preset whose measured KV pool was too small for its load. */
export const POOLED = "llama-3.1-70b-fp8-h100-tp2-vllm";
export const POOLED_POINTS: readonly Point[] = MEASURED[POOLED]!.filter(
  ([isl, concurrency]) => concurrency === 64 || (isl === 8192 && concurrency >= 16),
);
export const POOLS = [256_557, 230_000, 210_000] as const;

/** Reports whether requests queued for KV blocks at this point. Such a point shows the size of the pool, not of an error. */
export const isQueued = (point: Point) => point[2] > 6000;

export interface Ratios {
  readonly preset: string;
  readonly points: number;
  /** Simulated time divided by measured time, one per point. */
  readonly tpot: readonly number[];
  readonly ttft: readonly number[];
  /** Ratios of TTFT without the preset's request overhead. */
  readonly ttftBare: readonly number[];
}

const known = new Map<string, Ratios>();
/** Returns the ratios of a preset. Cached, because tests and tables request the same presets. */
export function ratiosOf(preset: string): Ratios {
  const found = known.get(preset) ?? simulatedRatios(preset);
  known.set(preset, found);
  return found;
}

function simulatedRatios(preset: string): Ratios {
  const points = MEASURED[preset]!.filter((point) => !isQueued(point));
  const full = points.map((point) => simulate(preset, point));
  const bare = points.map((point) => simulate(`${preset}:overhead=0ms`, point));
  const ttft = (simulated: readonly SimulatedTimes[]) => simulated.map(({ ttftMs }, i) => ttftMs / points[i]![2]);
  return {
    preset,
    points: points.length,
    tpot: full.map(({ tpotMs }, i) => tpotMs / points[i]![3]),
    ttft: ttft(full),
    ttftBare: ttft(bare),
  };
}

const range = (ratios: readonly number[]) =>
  `${median([...ratios]).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;

/** Returns a row of the table of ratios. */
export function ratiosRow(preset: string): string {
  const { points, tpot, ttft, ttftBare } = ratiosOf(preset);
  const overheadMs = (findPreset(preset)!.timing.requestOverheadUs ?? 0) / 1000;
  const cells = [`\`${preset}\``, points, range(tpot), `${overheadMs} ms`, range(ttft), range(ttftBare)];
  return `| ${cells.join(" | ")} |`;
}

export function ratiosMarkdown(): string {
  return [
    "| Preset | Points | TPOT ÷ measured, median (least–most) | Overhead | TTFT ÷ measured | … without overhead |",
    "|---|---|---|---|---|---|",
    ...Object.keys(MEASURED).map(ratiosRow),
  ].join("\n");
}

export function pooledMarkdown(): string {
  const cell = ({ ttftMs, tpotMs, preemptions }: SimulatedTimes) =>
    `${Math.round(ttftMs).toLocaleString("en")}, ${tpotMs.toFixed(1)} (${preemptions})`;
  const rows = POOLED_POINTS.map((point) => {
    const [isl, concurrency, ttftMs, tpotMs] = point;
    const measured = `${Math.round(ttftMs).toLocaleString("en")}, ${tpotMs.toFixed(1)}`;
    const cells = POOLS.map((pool) => cell(simulate(POOLED, point, pool)));
    return `| ${[`${isl} / 1024 × ${concurrency}`, measured, ...cells].join(" | ")} |`;
  });
  const heads = POOLS.map((pool) => `pool ${pool.toLocaleString("en")}`);
  return [
    `| Prompt / answer × at once | measured TTFT, TPOT ms | ${heads.join(" | ")} |`,
    `|---|---|${heads.map(() => "---|").join("")}`,
    ...rows,
  ].join("\n");
}
