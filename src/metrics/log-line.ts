/**
 * Writes vLLM's log line of statistics, one per engine every ten seconds: vLLM 0.33 `v1/metrics/loggers.py`,
 * `LoggingStatLogger.log`. The state between two intervals is passed from call to call.
 */

import type { Clock } from "../base/clock.ts";
import type { EngineSnapshot, Snapshot } from "../engine/interface/types.ts";

/** Seconds between two lines (VLLM_LOG_STATS_INTERVAL). */
const STATS_INTERVAL_S = 10;
/** Number of requests that vLLM's hit rate covers. */
const RECENT_REQUESTS = 1000;

interface Lookups {
  readonly requests: number;
  readonly queries: number;
  readonly hits: number;
}

interface EngineState {
  readonly totals: { computed: number; generated: number; queries: number; hits: number; firstTokens: number };
  /** True if any token was computed or generated in the last interval. */
  readonly busy: boolean;
  /** Prefix cache lookups per interval, oldest first. */
  readonly recent: readonly Lookups[];
}

/** State by engine; `[]` before the first interval. */
export type LogState = readonly EngineState[];

const START: EngineState = {
  totals: { computed: 0, generated: 0, queries: 0, hits: 0, firstTokens: 0 },
  busy: false,
  recent: [],
};

/**
 * Returns the lines of the interval of `intervalS` seconds that ends with `snapshot`, and the state for the next call.
 * An engine without tokens in this interval and the last has no line (vLLM logs it at DEBUG).
 */
export function logLines(
  before: LogState,
  { engines }: Snapshot,
  intervalS: number,
  engineFirst: number,
): { lines: string[]; state: LogState } {
  const lines: string[] = [];
  const state = engines.map((engine, index) => {
    const last = before[index] ?? START;
    const totals = totalsOf(engine);
    const computed = totals.computed - last.totals.computed;
    const generated = totals.generated - last.totals.generated;
    const busy = computed > 0 || generated > 0;
    const recent = observe(last, totals);
    if (busy || last.busy) {
      const label = `${engineFirst + index}`.padStart(3, "0");
      lines.push(`Engine ${label}: ${parts(engine, computed / intervalS, generated / intervalS, recent).join(", ")}`);
    }
    return { totals, busy, recent };
  });
  return { lines, state };
}

const totalsOf = (engine: EngineSnapshot) => ({
  computed: engine.promptTokens - engine.promptTokensCached,
  generated: engine.generationTokens,
  queries: engine.prefixQueries,
  hits: engine.prefixHits,
  firstTokens: engine.histograms.timeToFirstToken.count,
});

function parts(engine: EngineSnapshot, prompt: number, generation: number, recent: readonly Lookups[]): string[] {
  const total = (key: keyof Lookups) => recent.reduce((sum, lookups) => sum + lookups[key], 0);
  return [
    `Avg prompt throughput: ${oneDecimal(prompt)} tokens/s`,
    `Avg generation throughput: ${oneDecimal(generation)} tokens/s`,
    `Running: ${engine.running} reqs`,
    `Waiting: ${engine.waiting + engine.deferred} reqs`,
    ...(engine.deferred > 0 ? [`Deferred: ${engine.deferred} reqs`] : []),
    `GPU KV cache usage: ${oneDecimal(engine.kvUsage * 100)}%`,
    ...(recent.length > 0 ? [`Prefix cache hit rate: ${oneDecimal((total("hits") / total("queries")) * 100)}%`] : []),
  ];
}

/**
 * Adds the lookups of an interval. vLLM keeps lookups per step and forgets steps beyond 1,000 requests. We keep them
 * per interval, so the window is 1,000 requests rounded up to whole intervals. The snapshot counts tokens, not
 * requests, so a lookup counts in the interval of its request's first token.
 */
function observe({ totals: last, recent }: EngineState, totals: EngineState["totals"]): readonly Lookups[] {
  const queries = totals.queries - last.queries;
  if (queries === 0) return recent;
  const requests = Math.max(1, totals.firstTokens - last.firstTokens);
  const window = [...recent, { requests, queries, hits: totals.hits - last.hits }];
  let kept = window.reduce((sum, lookups) => sum + lookups.requests, 0);
  while (window.length > 1 && kept > RECENT_REQUESTS) kept -= window.shift()!.requests;
  return window;
}

/** Formats like Python's `%.1f`. A tie is rounded to the even digit, whereas `toFixed` rounds up. Only x.25 differs. */
function oneDecimal(value: number): string {
  return (value % 1 === 0.25 ? value - 0.05 : value).toFixed(1);
}

/** Writes vLLM's line every ten seconds, unless nothing has changed. */
export function logStatistics(
  clock: Clock,
  snapshot: () => Snapshot,
  engineFirst: number,
  log: (line: string) => void,
): void {
  let state: LogState = [];
  const tick = () => {
    const { lines, state: next } = logLines(state, snapshot(), STATS_INTERVAL_S, engineFirst);
    state = next;
    for (const line of lines) log(line);
    clock.at(clock.now() + STATS_INTERVAL_S * 1e6, tick);
  };
  clock.at(clock.now() + STATS_INTERVAL_S * 1e6, tick);
}
