/** The results of a replay. They depend only on trace, seed and options, not on the speed of the machine. */

import { type EngineConfig, flatEngineConfig } from "../../engine/config/engine-config.ts";
import type { EngineSnapshot, HistogramName } from "../../engine/interface/types.ts";
import { timingText } from "../../engine/timing/timing-text.ts";
import type { TraceSpan } from "../../workloads/timestamps.ts";
import { type Spread, spreadOf } from "./percentiles.ts";
import type { Replay } from "./replay.ts";

export const RESULTS_SCHEMA = "understudy-replay/1";

/** The content of --json. All times are simulated; names end with the unit. */
export type Results = ReturnType<typeof resultsOf>;

export interface ReplayInfo {
  readonly name: string;
  readonly format: string;
  /** Time span of the trace; null: the trace has no times. */
  readonly span: TraceSpan | null;
  readonly model: string;
  readonly config: EngineConfig;
  readonly badLines: number;
  readonly passedOver: number;
}

export function resultsOf(replay: Replay, durationUs: number, about: ReplayInfo) {
  const { engines } = replay.fleet;
  const { counts } = replay;
  const snapshots = replay.fleet.snapshots();
  const sum = (pick: (engine: EngineSnapshot) => number) =>
    snapshots.reduce((total, engine) => total + pick(engine), 0);
  const ms = (name: HistogramName, skipZero = false) =>
    inMs(
      spreadOf(
        engines.map((engine) => engine.fine(name)),
        skipZero,
      ),
    );
  const seconds = durationUs / 1e6;
  const rate = (what: number) => (seconds > 0 ? what / seconds : 0);
  const [prompt, generated] = [sum((engine) => engine.promptTokens), sum((engine) => engine.generationTokens)];
  const [queries, hits] = [sum((engine) => engine.prefixQueries), sum((engine) => engine.prefixHits)];
  const peak = Math.max(...engines.map((engine) => engine.blocksPeak));
  const usable = snapshots[0]!.blocksUsable;
  return {
    schema: RESULTS_SCHEMA,
    trace: {
      name: about.name,
      format: about.format,
      span_s: about.span?.seconds ?? null,
      timestamp_unit: about.span?.unit ?? null,
    },
    // The served model name, and the preset or formula of step times.
    model: about.model,
    timing: timingText(about.config),
    engines: engines.length,
    engine: flatEngineConfig(about.config),
    requests: {
      arrived: counts.arrived,
      finished: counts.finished,
      // Requests whose clients disconnected.
      left: counts.left,
      unfinished: replay.unfinished,
      refused: { too_long: counts.tooLong, busy: counts.busy },
      cut: counts.cut,
      bad_lines: about.badLines,
      passed_over: about.passedOver,
    },
    duration_s: seconds,
    steps: sum((engine) => engine.steps),
    tokens: { prompt, prompt_cached: sum((engine) => engine.promptTokensCached), generated },
    throughput: {
      requests_per_s: rate(counts.finished),
      output_tokens_per_s: rate(generated),
      total_tokens_per_s: rate(prompt + generated),
    },
    // Latencies are defined as for vLLM's histograms.
    ttft_ms: ms("timeToFirstToken"),
    itl_ms: ms("interTokenLatency"),
    // vLLM counts 0 for a request with one token, which has no time per token.
    tpot_ms: ms("timePerOutputToken", true),
    e2e_ms: ms("e2eLatency"),
    queue_ms: ms("queueTime"),
    prefix_cache: { query_tokens: queries, hit_tokens: hits, hit_rate: queries > 0 ? hits / queries : null },
    preemptions: sum((engine) => engine.preemptions),
    kv: { blocks_peak: peak, blocks_usable: usable, usage_peak: peak / usable },
  };
}

function inMs(us: Spread): Spread {
  const ms = (value: number | null) => (value === null ? null : value / 1000);
  return { count: us.count, mean: ms(us.mean), p50: ms(us.p50), p90: ms(us.p90), p99: ms(us.p99) };
}
