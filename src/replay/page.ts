/** What would `/metrics` show at the end of a replay? The server's page over the same state; time began at 0. */
import type { ServeConfig } from "../config/types.ts";
import type { HistogramSnapshot, LoopSnapshot, Snapshot } from "../engine/types.ts";
import { cacheConfigLabels } from "../metrics/cache-config.ts";
import { pages } from "../metrics/page.ts";
import type { Replay } from "./replay.ts";

export function metricsText(replay: Replay, config: ServeConfig): Promise<string> {
  const identity = {
    modelName: config.servedModelNames[0]!,
    engineFirst: 0,
    startedS: 0,
    cacheConfig: cacheConfigLabels(config),
    disableLogStats: config.disableLogStats,
  };
  return pages(identity)("role", snapshotOf(replay));
}

function snapshotOf({ fleet, counts, unfinished }: Replay): Snapshot {
  const engines = fleet.snapshots();
  const finished = (index: 0 | 1) => engines.reduce((total, one) => total + one.finished[index], 0);
  return {
    engines,
    loop: fleet.engines.map((engine) => engine.lateness()).reduce(joined),
    front: {
      outcomes: { stop: finished(0), length: finished(1), abort: 0, refused: counts.tooLong + counts.busy, error: 0 },
      streamsOpen: unfinished,
    },
  };
}

function joined(a: LoopSnapshot, b: LoopSnapshot): LoopSnapshot {
  return {
    stepStartLateness: added(a.stepStartLateness, b.stepStartLateness),
    stepWriteDuration: added(a.stepWriteDuration, b.stepWriteDuration),
    clockRebasedSeconds: a.clockRebasedSeconds + b.clockRebasedSeconds,
    stepsLate: a.stepsLate + b.stepsLate,
  };
}

function added(a: HistogramSnapshot, b: HistogramSnapshot): HistogramSnapshot {
  const buckets = a.buckets.map((bucket, index) => bucket + b.buckets[index]!);
  return { bounds: a.bounds, buckets, sum: a.sum + b.sum, count: a.count + b.count };
}
