/**
 * The numbers of one engine: live views that read the core's memory without copying, and copies. vLLM sends its
 * scheduler's statistics with each update. Therefore counts of the scheduler (prefix cache lookups) and its gauges show
 * the values of that time. All other numbers only change at updates and ends.
 */
import { FINE_WIDTH, HISTOGRAM_WIDTH, Reason, Total } from "../../assembly/layout.ts";
import { histogramBounds } from "./config/buckets.ts";
import {
  ENGINE_NAMES,
  ENGINE_NUMBERS,
  HISTOGRAMS,
  type NumberSources,
  type NumbersOf,
  numbersOf,
} from "./interface/numbers.ts";
import type { RequestMeters } from "./interface/request-meter.ts";
import type {
  AdapterSnapshot,
  EngineSnapshot,
  EngineView,
  FineHistogram,
  HistogramName,
  HistogramSnapshot,
  HistogramView,
} from "./interface/types.ts";
import type { LastPlan } from "./last-plan.ts";
import type { EngineOptions } from "./options.ts";
import type { Core } from "./wasm/core.ts";

/** `now`: current numbers. `step`: numbers of the last update. */
export type Fresh = "now" | "step";

const NONE: ArrayLike<number> = [];
const AWAKE = { sleep: 0 };

export class Snapshots {
  /** Numbers as of the last update. */
  readonly #words: Int32Array;
  readonly #reported: Float64Array;
  readonly #views: Readonly<Record<Fresh, EngineView>>;

  constructor(
    private readonly core: Core,
    { config, meters, sleep = AWAKE }: Pick<EngineOptions, "config" | "meters" | "sleep">,
    adapters: readonly AdapterSnapshot[],
    plan: LastPlan,
  ) {
    const bounds = histogramBounds(config);
    const histograms = Object.fromEntries(
      HISTOGRAMS.map(({ name, unit }, index) => [name, new CoreHistogram(core, index, bounds[name], unit)]),
    ) as unknown as EngineView["histograms"];
    const { words, totals, kvTotals } = core.views;
    this.#words = words.slice();
    this.#reported = totals.slice();
    const fixed = {
      totals,
      kvTotals,
      plan,
      blockSize: config.blockSize,
      blocksUsable: config.numGpuBlocks - 1,
      coreMemoryBytes: totals.buffer.byteLength,
      state: sleep,
    };
    const viewOf = (moving: Pick<NumberSources, "words" | "reported">) =>
      new CoreNumbers({ ...fixed, ...moving }, histograms, adapters, meters ?? null) as CoreNumbers & CoreCounts;
    this.#views = {
      now: viewOf({ words, reported: totals }),
      step: viewOf({ words: this.#words, reported: this.#reported }),
    };
  }

  /** Stores the numbers at the end of a step, which `step` shows until the next. */
  hold(): void {
    const { words, totals } = this.core.views;
    this.#words.set(words);
    this.#reported.set(totals);
  }

  /** Returns a live view. Reading it allocates nothing. */
  view(fresh: Fresh): EngineView {
    return this.#views[fresh];
  }

  take(fresh: Fresh): EngineSnapshot {
    return copyOf(this.#views[fresh]);
  }

  fine(name: HistogramName): FineHistogram {
    const index = HISTOGRAMS.findIndex((histogram) => histogram.name === name);
    const { fine, sums } = this.core.views;
    return { counts: fine.slice(index * FINE_WIDTH, (index + 1) * FINE_WIDTH), sum: sums[index]! };
  }
}

type CoreCounts = NumbersOf<typeof ENGINE_NUMBERS>;

/** An `EngineView` that reads the numbers of ENGINE_NUMBERS from their sources. */
class CoreNumbers implements Omit<EngineView, keyof CoreCounts> {
  readonly finished: Float64Array;

  static {
    for (const [name, { read }] of Object.entries(ENGINE_NUMBERS)) {
      Object.defineProperty(CoreNumbers.prototype, name, {
        get(this: CoreNumbers) {
          return read(this.sources);
        },
      });
    }
  }

  constructor(
    readonly sources: NumberSources,
    readonly histograms: EngineView["histograms"],
    readonly adapters: readonly AdapterSnapshot[],
    readonly counted: RequestMeters | null,
  ) {
    this.finished = sources.totals.subarray(Total.FinishedStop, Total.FinishedStop + Reason.Repetition + 1);
  }

  get meters() {
    return this.counted?.numbers ?? NONE;
  }
}

class CoreHistogram implements HistogramView {
  readonly buckets: Float64Array;
  readonly #sums: Float64Array;

  constructor(
    { views }: Core,
    private readonly index: number,
    readonly bounds: readonly number[],
    private readonly unit: number,
  ) {
    this.buckets = views.buckets.subarray(index * HISTOGRAM_WIDTH, index * HISTOGRAM_WIDTH + bounds.length + 1);
    this.#sums = views.sums;
  }

  get sum() {
    return this.#sums[this.index]! / this.unit;
  }
  get count() {
    let count = 0;
    for (let i = 0; i < this.buckets.length; i++) count += this.buckets[i]!;
    return count;
  }
}

function copyOf(view: EngineView): EngineSnapshot {
  const histogram = ({ bounds, buckets, sum, count }: HistogramView): HistogramSnapshot => ({
    bounds,
    buckets: Array.from(buckets),
    sum,
    count,
  });
  return {
    ...numbersOf(view, ENGINE_NAMES),
    finished: Array.from(view.finished) as unknown as EngineSnapshot["finished"],
    histograms: Object.fromEntries(HISTOGRAMS.map(({ name }) => [name, histogram(view.histograms[name])])) as Record<
      HistogramName,
      HistogramSnapshot
    >,
    adapters: view.adapters.map((adapter) => ({ ...adapter })),
    meters: Array.from(view.meters),
  };
}
