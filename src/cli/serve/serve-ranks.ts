/**
 * Serves each data-parallel rank on a port of its own, in one process. Source: vLLM 0.33.0
 * `vllm/entrypoints/launchers/dp_supervisor.py`, which starts a process per rank.
 */
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { App } from "../../app/create-app.ts";
import type { ServedApp, StartRefusal } from "./serve.ts";

/** Returns the configuration of each rank's server. */
export function configsOfRanks(config: ServeConfig): readonly ServeConfig[] {
  const { dataParallelSize, listen, deployment } = config;
  return Array.from({ length: dataParallelSize }, (_, rank) => ({
    ...config,
    dataParallelSize: 1,
    listen: { ...listen, port: listen.port === 0 ? 0 : listen.port + rank },
    deployment: { ...deployment, firstRank: rank },
  }));
}

/** Starts the servers of all ranks. If one is refused, none is left running. */
export async function startRanks(
  config: ServeConfig,
  start: (config: ServeConfig) => Promise<{ readonly app: App } | StartRefusal>,
): Promise<{ readonly apps: readonly App[] } | StartRefusal> {
  const apps: App[] = [];
  for (const configOfRank of configsOfRanks(config)) {
    const started = await start(configOfRank);
    if ("refused" in started) {
      await Promise.all(apps.map((app) => app.close(0)));
      return started;
    }
    apps.push(started.app);
  }
  return { apps };
}

/** Returns the apps as one, for what ends a process. */
export function joinedApps(apps: readonly App[]): ServedApp {
  return {
    eosId: apps[0]!.eosId,
    engines: {
      get live() {
        return apps.reduce((sum, { engines }) => sum + engines.live, 0);
      },
      snapshots: () => apps.flatMap(({ engines }) => engines.snapshots()),
    },
    journals: () => apps.flatMap((app) => app.journals()),
    died: Promise.race(apps.map(({ died }) => died)),
    async close(graceS) {
      const whys = await Promise.all(apps.map((app) => app.close(graceS)));
      return whys.find((why) => why !== undefined);
    },
    workWhenIdle() {
      for (const app of apps) app.workWhenIdle();
    },
  };
}
