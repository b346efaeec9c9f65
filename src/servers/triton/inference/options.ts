/** Options of a Triton server: its configuration, and the services that it needs from the process. */

import type { QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import type { TritonServerConfig } from "../config/triton-config.ts";
import type { DeviceMemoryOptions } from "../devices/device-memory.ts";
import type { ModelLoadDeps } from "./load.ts";
import type { SharedParts } from "./served.ts";

export interface TritonOptions
  extends Pick<ModelLoadDeps, "turns" | "backends" | "random">,
    Pick<SharedParts, "clock" | "epochMs"> {
  readonly config: TritonServerConfig;
  /** Quantiles of the summary metrics. Empty if summaries are off. */
  readonly targets: readonly QuantileTarget[];
  readonly memory: DeviceMemoryOptions;
  /** True if instances on GPUs count separately. */
  readonly countsByGpu?: boolean;
  readonly log: (line: string) => void;
}
