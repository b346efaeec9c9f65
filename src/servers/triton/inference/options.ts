/** Options of a Triton server: its configuration, and the services that it needs from the process. */

import type { Clock } from "../../../base/clock.ts";
import type { EventLoopTurns } from "../../../base/pieces.ts";
import type { QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import type { TritonServerConfig } from "../config/triton-config.ts";
import type { DeviceMemoryOptions } from "../devices/device-memory.ts";
import type { ModelLoadDeps } from "./load.ts";

export interface TritonOptions {
  readonly config: TritonServerConfig;
  /** Quantiles of the summary metrics. Empty if summaries are off. */
  readonly targets: readonly QuantileTarget[];
  readonly clock: Pick<Clock, "now" | "at">;
  /** Yields to the event loop between pieces of large work. */
  readonly turns: EventLoopTurns;
  readonly epochMs: () => number;
  /** Finds the behaviour of a model whose folder defines none. */
  readonly backends: ModelLoadDeps["backends"];
  readonly memory: DeviceMemoryOptions;
  /** True if instances on GPUs count separately. */
  readonly countsByGpu?: boolean;
  /** Returns a random number from 0 to below 1. */
  readonly random: () => number;
  readonly log: (line: string) => void;
}
