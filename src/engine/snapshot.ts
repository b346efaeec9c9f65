/** What does one engine show? Gauges as they stood after the last update (vLLM's refresh), counters and histograms as they stand. */
import { FINE_WIDTH, HISTOGRAM_WIDTH, Reason, Total, Word } from "../../assembly/layout.ts";
import type { EngineConfig } from "../config/types.ts";
import type { Core } from "../core/core.ts";
import { HISTOGRAMS } from "./setup.ts";
import type { EngineSnapshot, FineHistogram, HistogramName, HistogramSnapshot } from "./types.ts";

const HELD = [Word.Running, Word.Waiting, Word.Deferred, Word.BlocksFree] as const;

export class Snapshots {
  readonly #held = new Int32Array(HELD.length);
  readonly #bounds: readonly (readonly number[])[];

  constructor(
    readonly core: Core,
    readonly config: EngineConfig,
    bounds: Readonly<Record<HistogramName, readonly number[]>>,
  ) {
    this.#bounds = HISTOGRAMS.map(({ name }) => bounds[name]);
    this.hold();
  }

  /** The end of a step: its gauges are what scrapes see until the next. */
  hold(): void {
    const { words } = this.core.views;
    for (let i = 0; i < HELD.length; i++) this.#held[i] = words[HELD[i]!]!;
  }

  take(): EngineSnapshot {
    const [running, waiting, deferred, blocksFree] = this.#held as unknown as [number, number, number, number];
    const { core } = this;
    const blocksUsable = this.config.numGpuBlocks - 1;
    const finished = (reason: Reason) => core.total(Total.FinishedStop + reason);
    return {
      running,
      waiting: waiting - deferred,
      deferred,
      kvUsage: 1 - blocksFree / blocksUsable,
      blocksUsed: blocksUsable - blocksFree,
      blocksUsable,
      steps: core.total(Total.Steps),
      promptTokens: core.total(Total.PromptTokens),
      promptTokensCached: core.total(Total.PromptTokensCached),
      generationTokens: core.total(Total.GenerationTokens),
      preemptions: core.total(Total.Preemptions),
      prefixQueries: core.total(Total.PrefixQueries),
      prefixHits: core.total(Total.PrefixHits),
      finished: [
        finished(Reason.Stop),
        finished(Reason.Length),
        finished(Reason.Abort),
        finished(Reason.Error),
        finished(Reason.Repetition),
      ],
      histograms: Object.fromEntries(HISTOGRAMS.map(({ name }, i) => [name, this.#histogram(i)])) as Record<
        HistogramName,
        HistogramSnapshot
      >,
    };
  }

  fine(name: HistogramName): FineHistogram {
    const index = HISTOGRAMS.findIndex((histogram) => histogram.name === name);
    const { fine, sums } = this.core.views;
    return { counts: fine.slice(index * FINE_WIDTH, (index + 1) * FINE_WIDTH), sum: sums[index]! };
  }

  #histogram(index: number): HistogramSnapshot {
    const { buckets: all, sums } = this.core.views;
    const bounds = this.#bounds[index]!;
    const from = index * HISTOGRAM_WIDTH;
    const buckets = Array.from(all.subarray(from, from + bounds.length + 1));
    const count = buckets.reduce((sum, bucket) => sum + bucket, 0);
    return { bounds, buckets, sum: sums[index]! / HISTOGRAMS[index]!.unit, count };
  }
}
