/**
 * Replays phases of random load and idleness in simulated time, and returns the pages of all dialects as a scraper would see
 * them.
 */
import fc from "fast-check";
import type { ServeConfig } from "../../../../src/app/config/serve-config.ts";
import { seeded } from "../../../../src/base/random.ts";
import { engineConfig } from "../../../../src/embed/options.ts";
import type { FixName } from "../../../../src/engine/config/engine-config.ts";
import type { BugName } from "../../../../src/metrics/config/bug-names.ts";
import { Ensemble } from "../../../../src/metrics/ensemble/ensemble.ts";
import type { Scrape } from "../../../../src/tools/check/index.ts";
import type { TracedClientOptions } from "../../../../src/tools/replay/clients.ts";
import { ReplayPages } from "../../../../src/tools/replay/page.ts";
import { type Counts, Replay } from "../../../../src/tools/replay/replay.ts";
import { TRACE_BLOCK, type TraceRequest } from "../../../../src/workloads/trace.ts";
import { release } from "../../../engine/simulated-engine.ts";

/** An arbitrary start time, in seconds since 1970. */
export const START_S = 1_790_000_000;
/** Idle time before the last request, so that a scrape sees the server at rest. Longer if there was less load before. */
const QUIET_S = 20;
export const LEAST_S = 115;

/** Approximate number of scrapes per load. Parsing a page takes longer than simulating the time that it covers. */
const SCRAPES_MOST = 16;

/** A phase of some seconds with one request rate. */
export interface Phase {
  readonly seconds: number;
  readonly perSecond: number;
  readonly promptMost: number;
  readonly outputMost: number;
}

export interface Load {
  readonly options: Parameters<typeof engineConfig>[0];
  readonly engines: number;
  readonly fixes: readonly FixName[];
  readonly summaries: boolean;
  readonly phases: readonly Phase[];
  readonly clients: TracedClientOptions;
  readonly intervalS: number;
  readonly seed: number;
}

const MODEL_LEN = 2048;

export const anyLoad: fc.Arbitrary<Load> = fc
  .record({
    options: fc.record({
      maxModelLen: fc.constant(MODEL_LEN),
      maxNumSeqs: fc.integer({ min: 2, max: 48 }),
      maxNumBatchedTokens: fc.constantFrom(256, 512, 2048),
      // Rate above which requests arrive faster than one request takes.
      numGpuBlocksOverride: fc.integer({ min: MODEL_LEN / 16 + 1, max: 600 }),
      asyncScheduling: fc.boolean(),
      enablePrefixCaching: fc.oneof({ arbitrary: fc.constant(true), weight: 3 }, fc.constant(false)),
      schedulingPolicy: fc.constantFrom("fcfs" as const, "priority" as const),
      schedulerReserveFullIsl: fc.boolean(),
      prefillScheduleInterval: fc.constantFrom(1, 1, 3),
      timing: fc.constantFrom(
        "llama-3.1-8b-bf16-a100-tp1-vllm",
        "linear:base=8ms,prefill=0.01ms,decode=0.1ms",
        "constant:ttft=120ms,itl=15ms",
      ),
    }),
    engines: fc.constantFrom(1, 1, 1, 2, 3),
    fixes: fc.subarray(["abort-counted", "abort-times", "preemptions-at-once"] as const),
    summaries: fc.boolean(),
    phases: fc.array(
      fc.record({
        seconds: fc.integer({ min: 1, max: 40 }),
        perSecond: fc.constantFrom(0, 0, 0.3, 2, 8, 20),
        // Some prompts exceed the context length and are refused.
        promptMost: fc.constantFrom(40, 700, MODEL_LEN + 200),
        outputMost: fc.constantFrom(1, 60, 400),
      }),
      { minLength: 3, maxLength: 12 },
    ),
    clients: fc.record({
      stopShare: fc.constantFrom(0, 0.5, 1),
      patienceUs: fc.constantFrom(null, [50_000, 4_000_000] as const, [2_000_000, 30_000_000] as const),
      seed: fc.nat(1000),
    }),
    intervalS: fc.constantFrom(0.37, 1, 5, 15),
    seed: fc.nat(1_000_000),
  })
  .map((load) => ({ ...load, intervalS: Math.max(load.intervalS, secondsOf(load) / SCRAPES_MOST) }));

/** The scrapes of a replayed load, and its counts. */
export interface ScrapedLoad {
  readonly scrapes: readonly Scrape[];
  readonly counts: Counts;
  readonly preemptions: number;
  readonly seconds: number;
}

export async function scraped(load: Load, bugs: readonly BugName[] = []): Promise<ScrapedLoad> {
  const config = configOf(load, bugs);
  const scrapes: Scrape[] = [];
  let pages: ReplayPages | null = null;
  const replay = new Replay({
    config: config.engine,
    module: release,
    engines: load.engines,
    requests: requestsOf(load),
    pace: { kind: "open" },
    untilUs: Number.POSITIVE_INFINITY,
    clients: load.clients,
    beforeUpdate: (nowUs) => pages?.before(nowUs),
    meters: (now) => new Ensemble(config.metrics.triton.quantiles, now, START_S * 1e6),
    scrapes: {
      intervalUs: 1e6 * load.intervalS,
      onScrape: async (atUs) => void scrapes.push({ text: await pages!.text("all"), atS: START_S + atUs / 1e6 }),
    },
  });
  pages = new ReplayPages(replay, { config, startS: START_S, dropped: null });
  await replay.runScraped();
  const preemptions = replay.fleet.snapshots().reduce((sum, engine) => sum + engine.preemptions, 0);
  return { scrapes, counts: replay.counts, preemptions, seconds: replay.nowUs / 1e6 };
}

/** Time until the last request. */
const secondsOf = ({ phases }: Pick<Load, "phases">) =>
  Math.max(
    LEAST_S,
    phases.reduce((sum, { seconds }) => sum + seconds, QUIET_S),
  );

function configOf({ options, fixes, summaries }: Load, bugs: readonly BugName[]): ServeConfig {
  const config = engineConfig(options);
  const quantiles = summaries ? [0.5, 0.9, 0.99].map((quantile) => ({ quantile, error: 0.01 })) : [];
  return {
    ...config,
    metrics: { ...config.metrics, bugs, triton: { ...config.metrics.triton, histograms: true, quantiles } },
    engine: { ...config.engine, fixes },
  };
}

/** Scrape times in order, then an idle phase and one more scrape. */
function* requestsOf(load: Load): Generator<TraceRequest> {
  const random = seeded(load.seed);
  const below = (limit: number) => Math.floor((random() / 2 ** 32) * limit);
  let fromS = 0;
  for (const { seconds, perSecond, promptMost, outputMost } of load.phases) {
    for (let n = 0; n < seconds * perSecond; n++) {
      const promptTokens = 1 + below(promptMost);
      const shared = below(6);
      yield {
        line: 0,
        arrivalUs: Math.round(1e6 * (fromS + n / perSecond)),
        promptTokens,
        outputTokens: 1 + below(outputMost),
        // Six conversations. Each has prefix blocks of its own.
        blockIds: Array.from({ length: Math.ceil(promptTokens / TRACE_BLOCK) }, (_, i) => shared * 100 + i),
      };
    }
    fromS += seconds;
  }
  yield { line: 0, arrivalUs: 1e6 * secondsOf(load), promptTokens: 20, outputTokens: 20, blockIds: null };
}
