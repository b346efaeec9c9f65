/** Writes load and KV pool over simulated time as CSV, a row per interval: gauges at its end, and counts of events in it. */
import type { EngineSnapshot } from "../../engine/interface/types.ts";
import type { Counts } from "./replay.ts";

type Sums = ReturnType<typeof sumsOf>;

/** Gauges after the last step before the row's time, over all engines. `docs/how-to/replay.md` explains them. */
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

/** Makes the rows of one replay. Keeps the previous row's sums, from which counts are subtracted. */
export class SeriesRows {
  #before: Sums | null = null;

  row(atUs: number, engines: readonly EngineSnapshot[], counts: Counts): string {
    const now = sumsOf(engines, counts);
    const before = this.#before;
    this.#before = now;
    const gauges = GAUGES.map((name) => now[name]);
    const steps = COUNTERS.map((name) => now[name] - (before?.[name] ?? 0));
    return [atUs / 1e6, ...gauges, ...steps].join(",");
  }
}

/** Adds up the numbers of all engines. */
export function sumsOf(engines: readonly EngineSnapshot[], { arrived, finished, tooLong, busy }: Counts) {
  const sum = (pick: (engine: EngineSnapshot) => number) => engines.reduce((total, engine) => total + pick(engine), 0);
  return {
    running: sum((engine) => engine.running),
    waiting: sum((engine) => engine.waiting + engine.deferred),
    kv_usage: sum((engine) => engine.blocksUsed) / sum((engine) => engine.blocksUsable),
    arrived,
    finished,
    refused: tooLong + busy,
    preemptions: sum((engine) => engine.preemptions),
    prompt_tokens: sum((engine) => engine.promptTokens),
    prompt_tokens_cached: sum((engine) => engine.promptTokensCached),
    generation_tokens: sum((engine) => engine.generationTokens),
    prefix_query_tokens: sum((engine) => engine.prefixQueries),
    prefix_hit_tokens: sum((engine) => engine.prefixHits),
    steps: sum((engine) => engine.steps),
  };
}
