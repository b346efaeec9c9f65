/** Replays a trace in simulated time, as `understudy replay` does. */
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import { Replay } from "../../src/tools/replay/replay.ts";
import type { openTrace } from "../../src/workloads/open.ts";
import { requests } from "../../src/workloads/requests.ts";

/** Runs the replay to its end and returns it. */
export function replayOf(
  config: EngineConfig,
  module: WebAssembly.Module,
  trace: ReturnType<typeof openTrace>,
  seed = 0,
): Replay {
  const replay = new Replay({
    ...{ config, module, engines: 1, pace: trace.pace, untilUs: Number.POSITIVE_INFINITY },
    requests: requests(trace, "bench", { seed, limit: Number.POSITIVE_INFINITY, rateScale: 1, onBad: null }),
  });
  replay.run();
  return replay;
}
