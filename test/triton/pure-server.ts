/** Creates a server of models without ports, on the test's clock. */

import { tritonServerConfig } from "../../src/cli/options/triton-server-config.ts";
import type { TritonOptions } from "../../src/servers/triton/inference/options.ts";
import { TritonServer } from "../../src/servers/triton/inference/server.ts";

/** Creates a server without starting it. `flags`: as on the command line. Throws an error if they are refused. */
export function pureServer(
  flags: readonly string[],
  clock: TritonOptions["clock"],
  more: Partial<TritonOptions> = {},
): TritonServer {
  const read = tritonServerConfig([...flags], "");
  if ("error" in read) throw new Error(read.error);
  const config = read.config.triton!;
  return new TritonServer({
    config,
    targets: [],
    clock,
    turns: { nowUs: () => clock.now() },
    epochMs: () => 0,
    backends: () => undefined,
    random: () => 0,
    log: () => {},
    ...more,
    memory: {
      gpuBytes: null,
      engine: { weightBytes: 0, kvBytes: 0, gpus: 1 },
      ...more.memory,
      loadLimits: config.memory.loadLimits,
    },
  });
}
