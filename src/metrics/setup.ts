/** From the configuration to what a reader of held copies must know: the same in every process of a server. */
import { adapterPlaces } from "../config/adapter-places.ts";
import { histogramBounds, LOOP_BOUNDS } from "../config/buckets.ts";
import { ROLES } from "../config/roles.ts";
import type { ServeConfig } from "../config/types.ts";
import { refreshesOf } from "./dialects.ts";
import { ensembleWidth } from "./ensemble/ensemble.ts";
import { tritonIdentity } from "./ensemble/identity.ts";
import type { HttpRoute } from "./rows/http-counts.ts";
import type { Identity, Setup } from "./rows/identity.ts";
import { cacheConfigLabels } from "./vllm/cache-config.ts";

/**
 * Identity and shape of one process with all its engines. `startedS`: seconds since 1970; `http`: the routes that are
 * counted; `ownProcess`: it is the only one; `loadS`: how long its start took.
 */
export function setupOf(
  config: ServeConfig,
  startedS: number,
  http: readonly HttpRoute[],
  ownProcess: boolean,
  loadS = 0,
): Setup {
  const identity: Identity = {
    role: ROLES[config.role].metrics,
    modelName: config.servedModelNames[0]!,
    engineFirst: 0,
    startedS,
    cacheConfig: cacheConfigLabels(config),
    http,
    ownProcess,
    profile: config.metricsProfile,
    showHidden: config.showHiddenMetrics,
    maxLoras: config.engine.maxLoras,
    parsesTools: config.wire?.toolCallParser !== undefined,
    adapters: config.loraModules.map(({ name }) => name),
    triton: tritonIdentity(config, loadS),
    fixes: config.engine.fixes ?? [],
    bugs: config.bugs,
    ...(config.fakeMetrics ? { fakes: config.fakeMetrics } : {}),
    disableLogStats: config.disableLogStats,
  };
  return {
    identity,
    shape: {
      engines: config.dataParallelSize,
      bounds: histogramBounds(config.engine),
      loopBounds: LOOP_BOUNDS,
      adapters: adapterPlaces(config),
      httpRoutes: http.length,
      meters: config.triton.metrics ? ensembleWidth(config.triton.quantiles.length) : 0,
      truth: config.truthLog !== null,
    },
    refreshes: refreshesOf(identity),
  };
}
