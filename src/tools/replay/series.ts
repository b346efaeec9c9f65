/** How did load and pool move over simulated time? CSV, a row per interval: gauges at its end, counts of what happened in it. */
import type { EngineSnapshot } from "../../engine/interface/types.ts";
import type { Counts } from "./replay.ts";

type Sums = ReturnType<typeof sums>;

/** Gauges as they stood after the last step before the row's time; all engines together. `docs/replay.md` explains them. */
const GAUGES = ["running", "waiting", "kv_usage"] as const;
const COUNTERS = [
  "arrived",
  "finished",
  "refused",
  "preemptions",
  "prompt_tokens",
  "prompt_tokens_cached",
  "generation_tokens",
  "prefix_query_tokens",
  "prefix_hit_tokens",
  "steps",
] as const;

export const SERIES_HEADER = ["time_s", ...GAUGES, ...COUNTERS].join(",");

/** One per replay: keeps the row before. */
export class SeriesRows {
  #before: Sums | null = null;

  row(atUs: number, engines: readonly EngineSnapshot[], counts: Counts): string {
    const now = sums(engines, counts);
    const before = this.#before;
    this.#before = now;
    const gauges = GAUGES.map((name) => now[name]);
    const steps = COUNTERS.map((name) => now[name] - (before?.[name] ?? 0));
    return [atUs / 1e6, ...gauges, ...steps].join(",");
  }
}

function sums(engines: readonly EngineSnapshot[], { arrived, finished, tooLong, busy }: Counts) {
  const sum = (pick: (engine: EngineSnapshot) => number) => engines.reduce((total, one) => total + pick(one), 0);
  return {
    running: sum((one) => one.running),
    waiting: sum((one) => one.waiting + one.deferred),
    kv_usage: sum((one) => one.blocksUsed) / sum((one) => one.blocksUsable),
    arrived,
    finished,
    refused: tooLong + busy,
    preemptions: sum((one) => one.preemptions),
    prompt_tokens: sum((one) => one.promptTokens),
    prompt_tokens_cached: sum((one) => one.promptTokensCached),
    generation_tokens: sum((one) => one.generationTokens),
    prefix_query_tokens: sum((one) => one.prefixQueries),
    prefix_hit_tokens: sum((one) => one.prefixHits),
    steps: sum((one) => one.steps),
  };
}
