/**
 * What does one engine show? Live views that read the core's memory and copy nothing, and a copy for those who keep it.
 * vLLM sends its scheduler's statistics with each update: what its schedule counts (lookups in the prefix cache) and its
 * gauges show as they stood then. All else moves at updates and ends only.
 */
import { FINE_WIDTH, HISTOGRAM_WIDTH, Reason, Total, Word } from "../../assembly/layout.ts";
import { histogramBounds } from "../config/buckets.ts";
import type { Core } from "../core/core.ts";
import type { LastPlan } from "./last-plan.ts";
import type { EngineOptions } from "./options.ts";
import type { Passages } from "./passage.ts";
import { HISTOGRAMS } from "./setup.ts";
import type {
  AdapterSnapshot,
  EngineSnapshot,
  EngineView,
  FineHistogram,
  HistogramName,
  HistogramSnapshot,
  HistogramView,
} from "./types.ts";

/** `now`: as it stands; `step`: as the last update left it. */
export type Fresh = "now" | "step";

/** What moves between an update and the next, held after each: words, then totals. */
const WORDS = [Word.Running, Word.Waiting, Word.Deferred, Word.BlocksFree] as const;
const TOTALS = [
  Total.Preemptions,
  Total.PrefixQueries,
  Total.PrefixHits,
  Total.PreemptedQueries,
  Total.PreemptedHits,
] as const;

const NONE: ArrayLike<number> = [];
const AWAKE = { sleep: 0 };

export class Snapshots {
  readonly #core: Core;
  readonly #words = new Int32Array(WORDS.length);
  readonly #totals = new Float64Array(TOTALS.length);
  readonly #views: Readonly<Record<Fresh, EngineView>>;

  constructor(
    core: Core,
    { config, passages, sleep = AWAKE }: Pick<EngineOptions, "config" | "passages" | "sleep">,
    adapters: readonly AdapterSnapshot[],
    plan: LastPlan,
  ) {
    const bounds = histogramBounds(config);
    this.#core = core;
    const histograms = Object.fromEntries(
      HISTOGRAMS.map(({ name, unit }, index) => [name, new HistogramOf(core, index, bounds[name], unit)]),
    ) as unknown as EngineView["histograms"];
    const { words, totals } = core.views;
    const usable = config.numGpuBlocks - 1;
    const held = {
      word: (word: (typeof WORDS)[number]) => this.#words[WORDS.indexOf(word)]!,
      total: (total: (typeof TOTALS)[number]) => this.#totals[TOTALS.indexOf(total)]!,
    };
    const live = { word: (word: Word) => words[word]!, total: (total: Total) => totals[total]! };
    this.#views = {
      now: new CoreNumbers(core, histograms, usable, live, plan, adapters, passages ?? null, sleep),
      step: new CoreNumbers(core, histograms, usable, held, plan, adapters, passages ?? null, sleep),
    };
    this.hold();
  }

  /** The end of a step: what `step` shows until the next. */
  hold(): void {
    const { words, totals } = this.#core.views;
    for (let i = 0; i < WORDS.length; i++) this.#words[i] = words[WORDS[i]!]!;
    for (let i = 0; i < TOTALS.length; i++) this.#totals[i] = totals[TOTALS[i]!]!;
  }

  /** Moves on; reading it allocates nothing. */
  view(fresh: Fresh): EngineView {
    return this.#views[fresh];
  }

  take(fresh: Fresh): EngineSnapshot {
    return copyOf(this.#views[fresh]);
  }

  fine(name: HistogramName): FineHistogram {
    const index = HISTOGRAMS.findIndex((histogram) => histogram.name === name);
    const { fine, sums } = this.#core.views;
    return { counts: fine.slice(index * FINE_WIDTH, (index + 1) * FINE_WIDTH), sum: sums[index]! };
  }
}

interface Moving {
  word(word: (typeof WORDS)[number]): number;
  total(total: (typeof TOTALS)[number]): number;
}

class CoreNumbers implements EngineView {
  readonly finished: Float64Array;
  readonly coreMemoryBytes: number;
  readonly #totals: Float64Array;

  constructor(
    core: Core,
    readonly histograms: EngineView["histograms"],
    readonly blocksUsable: number,
    readonly moving: Moving,
    readonly plan: LastPlan,
    readonly adapters: readonly AdapterSnapshot[],
    readonly counted: Passages | null,
    readonly state: Pick<EngineSnapshot, "sleep">,
  ) {
    this.#totals = core.views.totals;
    this.coreMemoryBytes = core.views.totals.buffer.byteLength;
    this.finished = this.#totals.subarray(Total.FinishedStop, Total.FinishedStop + Reason.Repetition + 1);
  }

  get running() {
    return this.moving.word(Word.Running);
  }
  get waiting() {
    return this.moving.word(Word.Waiting) - this.deferred;
  }
  get deferred() {
    return this.moving.word(Word.Deferred);
  }
  get kvUsage() {
    return 1 - this.moving.word(Word.BlocksFree) / this.blocksUsable;
  }
  get blocksUsed() {
    return this.blocksUsable - this.moving.word(Word.BlocksFree);
  }
  get steps() {
    return this.#totals[Total.Steps]!;
  }
  get takenUs() {
    return this.plan.takenUs;
  }
  get iterations() {
    return this.plan.taken;
  }
  get busyUs() {
    return this.plan.busyUs;
  }
  get planRequests() {
    return this.plan.requests;
  }
  get planScheduled() {
    return this.plan.scheduled;
  }
  get planPrefills() {
    return this.plan.prefills;
  }
  get planPrefillTokens() {
    return this.plan.prefillTokens;
  }
  get planPreempted() {
    return this.plan.preempted;
  }
  get sleep() {
    return this.state.sleep;
  }
  get passages() {
    return this.counted?.numbers ?? NONE;
  }
  get promptTokens() {
    return this.#totals[Total.PromptTokens]!;
  }
  get promptTokensCached() {
    return this.#totals[Total.PromptTokensCached]!;
  }
  get generationTokens() {
    return this.#totals[Total.GenerationTokens]!;
  }
  get preemptions() {
    return this.moving.total(Total.Preemptions);
  }
  get preemptionsTold() {
    return this.#totals[Total.PreemptionsTold]!;
  }
  get abortedByEngine() {
    return this.#totals[Total.FinishedEngineAbort]!;
  }
  get prefixQueries() {
    return this.moving.total(Total.PrefixQueries);
  }
  get prefixHits() {
    return this.moving.total(Total.PrefixHits);
  }
  get preemptedQueries() {
    return this.moving.total(Total.PreemptedQueries);
  }
  get preemptedHits() {
    return this.moving.total(Total.PreemptedHits);
  }
}

class HistogramOf implements HistogramView {
  readonly buckets: Float64Array;
  readonly #sums: Float64Array;
  readonly #index: number;
  readonly #unit: number;

  constructor(
    { views }: Core,
    index: number,
    readonly bounds: readonly number[],
    unit: number,
  ) {
    this.buckets = views.buckets.subarray(index * HISTOGRAM_WIDTH, index * HISTOGRAM_WIDTH + bounds.length + 1);
    this.#sums = views.sums;
    this.#index = index;
    this.#unit = unit;
  }

  get sum() {
    return this.#sums[this.#index]! / this.#unit;
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
    running: view.running,
    waiting: view.waiting,
    deferred: view.deferred,
    kvUsage: view.kvUsage,
    blocksUsed: view.blocksUsed,
    blocksUsable: view.blocksUsable,
    steps: view.steps,
    takenUs: view.takenUs,
    iterations: view.iterations,
    busyUs: view.busyUs,
    planRequests: view.planRequests,
    planScheduled: view.planScheduled,
    planPrefills: view.planPrefills,
    planPrefillTokens: view.planPrefillTokens,
    planPreempted: view.planPreempted,
    sleep: view.sleep,
    coreMemoryBytes: view.coreMemoryBytes,
    promptTokens: view.promptTokens,
    promptTokensCached: view.promptTokensCached,
    generationTokens: view.generationTokens,
    preemptions: view.preemptions,
    preemptionsTold: view.preemptionsTold,
    abortedByEngine: view.abortedByEngine,
    prefixQueries: view.prefixQueries,
    prefixHits: view.prefixHits,
    preemptedQueries: view.preemptedQueries,
    preemptedHits: view.preemptedHits,
    finished: Array.from(view.finished) as unknown as EngineSnapshot["finished"],
    histograms: Object.fromEntries(HISTOGRAMS.map(({ name }) => [name, histogram(view.histograms[name])])) as Record<
      HistogramName,
      HistogramSnapshot
    >,
    adapters: view.adapters.map((adapter) => ({ ...adapter })),
    passages: Array.from(view.passages),
  };
}
