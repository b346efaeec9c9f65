/** What would `/metrics` show at the end of a replay? The server's page over the same state; time began at 0. */
import type { ServeConfig } from "../config/types.ts";
import type { Snapshot, TruthDropped } from "../engine/types.ts";
import { cacheConfigLabels } from "../metrics/cache-config.ts";
import type { Identity } from "../metrics/identity.ts";
import { pages } from "../metrics/page.ts";
import type { Replay } from "./replay.ts";

/** `dropped`: what a truth log lost, where one was written. */
export function metricsText(replay: Replay, config: ServeConfig, dropped: TruthDropped | null): Promise<string> {
  const identity: Identity = {
    role: "vllm",
    modelName: config.servedModelNames[0]!,
    engineFirst: 0,
    startedS: 0,
    cacheConfig: cacheConfigLabels(config),
    disableLogStats: config.disableLogStats,
  };
  const snapshot = snapshotOf(replay, dropped);
  return pages(identity)("role", () => snapshot);
}

function snapshotOf({ fleet, counts, unfinished }: Replay, dropped: TruthDropped | null): Snapshot {
  const engines = fleet.snapshots();
  const finished = (index: 0 | 1) => engines.reduce((total, one) => total + one.finished[index], 0);
  return {
    engines,
    loop: fleet.lateness(),
    front: {
      outcomes: { stop: finished(0), length: finished(1), abort: 0, refused: counts.tooLong + counts.busy, error: 0 },
      streamsOpen: unfinished,
      workerRestarts: 0,
    },
    ...(dropped ? { truth: dropped } : {}),
  };
}
