/** The servers by role. The code of a server is loaded when it starts. */

import type { Server } from "../kernel/server.ts";
import type { RoleName } from "./config/roles.ts";
import type { RunningConfig, ServeConfig } from "./config/serve-config.ts";

/** Loaders of the servers. `loadServer` checks that the configuration has the parts that a server reads. */
export const servers: Readonly<Record<RoleName, () => Promise<Server<never>>>> = {
  vllm: async () => (await import("../servers/vllm/server.ts")).vllm,
  triton: async () => (await import("../servers/triton/server.ts")).triton,
  "trtllm-serve": async () => (await import("../servers/trtllm/server.ts")).trtllm,
  "vllm-engine": async () => (await import("../servers/vllm-engine/server.ts")).vllmEngine,
};

/** Loads the server that a configuration names. Throws if the configuration lacks a part that the server reads. */
export async function loadServer(config: ServeConfig): Promise<Server<RunningConfig>> {
  const server = (await servers[config.role]()) as Server<RunningConfig>;
  const missing = server.options.find((name) => config[name] === undefined);
  if (missing !== undefined) throw new Error(`the configuration of ${config.role} has no ${missing}`);
  return server;
}
