/** What is a server of models given? Its configuration, and what it needs of the process around it. */

import type { Clock } from "../../../base/clock.ts";
import type { EventLoopTurns } from "../../../base/pieces.ts";
import type { QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import type { TritonServerConfig } from "../config/triton-config.ts";
import type { DeviceMemoryOptions } from "../devices/device-memory.ts";
import type { LoadAround } from "./load.ts";

export interface TritonOptions {
  readonly config: TritonServerConfig;
  /** What the summaries show; none where they are off. */
  readonly targets: readonly QuantileTarget[];
  readonly clock: Pick<Clock, "now" | "at">;
  /** Between pieces of what is large or many. */
  readonly turns: EventLoopTurns;
  readonly epochMs: () => number;
  /** What computes a model whose folder says nothing of it. */
  readonly backends: LoadAround["backends"];
  readonly memory: DeviceMemoryOptions;
  /** Instances on GPUs count by themselves; absent: they do not. */
  readonly countsByGpu?: boolean;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly log: (line: string) => void;
}
