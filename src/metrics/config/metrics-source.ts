/** The parts of a server's configuration that metrics pages need. */

import type { DeploymentConfig } from "../../engine/config/deployment-config.ts";
import type { FixedEngineConfig } from "../../engine/config/engine-config.ts";
import type { TextConfig } from "../../text/text-config.ts";
import type { MetricsConfig } from "./metrics-config.ts";

export interface MetricsSource {
  readonly engine: FixedEngineConfig;
  /** Number of engines per process. */
  readonly dataParallelSize: number;
  /** Number of processes of the server. */
  readonly workers: number;
  readonly models: ServedNames;
  readonly deployment: DeploymentConfig;
  readonly metrics: MetricsConfig;
  /** A truth log is written unless `log` is null. */
  readonly truth: { readonly log: object | null };
  readonly text: Pick<TextConfig, "toolCallParser">;
  readonly logs: { readonly disableLogStats: boolean };
}

/** Names that pages show. */
interface ServedNames {
  readonly servedModelNames: readonly string[];
  readonly loraModules: readonly { readonly name: string }[];
  /** True if requests may load adapters. */
  readonly runtimeLora?: boolean;
}
