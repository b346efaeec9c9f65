/** Makes several runs with increasing load, until too few requests keep the limits. */
import type { Result, SweepPoint } from "../report/result.ts";
import { Load, type LoadDeps, type LoadOutcome } from "./load.ts";
import type { Slo } from "./measures.ts";
import { sweepPoint } from "./result.ts";
import type { Settings } from "./settings.ts";
import { columns } from "./table.ts";

export interface SweepPlan {
  readonly over: "rate" | "concurrency";
  /** Values in rising order. */
  readonly values: readonly number[];
  /** The sweep ends after the first run in which a smaller share of requests keeps the limits. Null: all values are run. */
  readonly until: { readonly slo: Slo; readonly share: number } | null;
}

export interface SweepOutcome {
  /** The last run that kept the limits. Without limits, or if no run kept them, the last or first run. */
  readonly loaded: LoadOutcome;
  readonly settings: Settings;
  readonly points: readonly SweepPoint[];
  readonly keptLimits: boolean;
}

/** Returns the settings for one value. Each value has its own seed, so that no run finds cached prompts of another. */
export function settingsAt<S extends Settings>(settings: S, plan: SweepPlan, index: number): S {
  const value = plan.values[index]!;
  const seed = settings.seed + index;
  const { loop } = settings;
  if (plan.over === "concurrency") return { ...settings, seed, concurrency: value };
  return { ...settings, seed, loop: loop.kind === "open" ? { ...loop, rate: value } : loop };
}

export class Sweep {
  #running: Load | null = null;
  #stopped = false;

  constructor(
    private readonly settings: Settings & { readonly model: string },
    private readonly plan: SweepPlan,
    private readonly deps: LoadDeps,
  ) {}

  /** Ends the current run, which becomes the last one. */
  stop(): void {
    this.#stopped = true;
    this.#running?.stop();
  }

  /** Runs the sweep. `each` is called with the result of every run. Throws like `Load` if the first run cannot start. */
  async run(each: (result: Result) => void): Promise<SweepOutcome> {
    const { until, values } = this.plan;
    const points: SweepPoint[] = [];
    let best: { loaded: LoadOutcome; settings: Settings } | null = null;
    for (let index = 0; ; index++) {
      const settings = settingsAt(this.settings, this.plan, index);
      this.#running = new Load(settings, this.deps);
      const loaded = await this.#running.run();
      const point = sweepPoint(settings, loaded.result);
      points.push(point);
      each(loaded.result);
      const keeps = until === null || (loaded.nothing === null && (point.attainment ?? 0) >= until.share);
      if (keeps || best === null) best = { loaded, settings };
      if (keeps && !this.#stopped && loaded.nothing === null && index + 1 < values.length) continue;
      const keptLimits = until === null || points.length > 1 || keeps;
      return { ...best, loaded: withPoints(best.loaded, points), points, keptLimits };
    }
  }
}

function withPoints(loaded: LoadOutcome, sweep: readonly SweepPoint[]): LoadOutcome {
  const { result } = loaded;
  return { ...loaded, result: { ...result, understudy: { ...result.understudy, sweep } } };
}

type Cell = (point: SweepPoint) => string | undefined;

const ms =
  (metric: string, q: `p${number}`): Cell =>
  ({ distributions }) =>
    distributions[metric]?.[q]?.toFixed(2);

const COLUMNS: readonly (readonly [heading: string, cell: Cell])[] = [
  ["req/s", (point) => point.request_throughput.toFixed(2)],
  ["tok/s", (point) => point.output_throughput?.toFixed(1)],
  ["TTFT p50", ms("ttft", "p50")],
  ["TTFT p99", ms("ttft", "p99")],
  ["TPOT p50", ms("tpot", "p50")],
  ["E2EL p50", ms("e2el", "p50")],
  ["E2EL p99", ms("e2el", "p99")],
];
const GOOD: (typeof COLUMNS)[number] = [
  "good",
  ({ attainment }) => (typeof attainment === "number" ? `${(attainment * 100).toFixed(1)} %` : undefined),
];

/** Returns a table row per run, without columns that no run has values for, and the last value that kept the limits. */
export function sweepLines({ points, keptLimits }: SweepOutcome, plan: SweepPlan): string[] {
  const used = [...COLUMNS.filter(([, cell]) => points.some((point) => cell(point) !== undefined)), GOOD];
  const rows = points.map((point, i) => [String(plan.values[i]), ...used.map(([, cell]) => cell(point) ?? "-")]);
  const lines = columns([[plan.over, ...used.map(([heading]) => heading)], ...rows]);
  if (plan.until === null) return lines;
  const { slo, share } = plan.until;
  const limits = Object.entries(slo).map(([metric, ms]) => `${metric} <= ${ms} ms`);
  const rule = `${limits.join(", ")} for at least ${share * 100} % of requests`;
  const keptCount = points.filter(({ attainment }) => (attainment ?? 0) >= share).length;
  const last =
    keptLimits && keptCount > 0 ? `${plan.values[keptCount - 1]} is the last ${plan.over} that keeps` : "no run kept";
  return [...lines, `${last} ${rule}`];
}
