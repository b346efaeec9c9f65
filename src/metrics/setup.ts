/** Derives from the configuration what a reader of snapshot copies must know. The result is the same in every process of a server. */

import { histogramBounds, LOOP_BOUNDS } from "../engine/config/buckets.ts";
import { adapterPlaces } from "./adapter-places.ts";
import type { MetricsSource } from "./config/metrics-source.ts";
import { refreshesOf } from "./dialects.ts";
import { ensembleWidth } from "./ensemble/ensemble.ts";
import { tritonIdentity } from "./ensemble/identity.ts";
import type { HttpRoute } from "./rows/http-counts.ts";
import type { Identity, Setup } from "./rows/identity.ts";
import { cacheConfigLabels } from "./vllm/cache-config.ts";

/**
 * Returns identity and shape of one process with all its engines. `startedS`: seconds since 1970. `http`: counted
 * routes. `ownProcess`: it is the only process. `loadS`: seconds that the start took.
 */
export function setupOf(
  config: MetricsSource,
  startedS: number,
  http: readonly HttpRoute[],
  ownProcess: boolean,
  loadS = 0,
): Setup {
  const identity: Identity = {
    role: config.metrics.role,
    modelName: config.models.servedModelNames[0]!,
    engineFirst: config.deployment.firstRank ?? 0,
    startedS,
    cacheConfig: cacheConfigLabels(config),
    http,
    ownProcess,
    profile: config.metrics.profile,
    showHidden: config.metrics.showHidden,
    maxLoras: config.engine.maxLoras,
    parsesTools: config.text.toolCallParser !== undefined,
    adapters: config.models.loraModules.map(({ name }) => name),
    triton: tritonIdentity(config, loadS),
    fixes: config.engine.fixes ?? [],
    bugs: config.metrics.bugs,
    ...(config.metrics.fakes ? { fakes: config.metrics.fakes } : {}),
    disableLogStats: config.logs.disableLogStats,
  };
  return {
    identity,
    shape: {
      engines: config.dataParallelSize,
      bounds: histogramBounds(config.engine),
      loopBounds: LOOP_BOUNDS,
      adapters: adapterPlaces(config),
      httpRoutes: http.length,
      meters: config.metrics.triton.metrics ? ensembleWidth(config.metrics.triton.quantiles.length) : 0,
      truth: config.truth.log !== null,
    },
    refreshes: refreshesOf(identity),
  };
}
