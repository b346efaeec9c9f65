/** What the pages of metrics need to know of a server. */

import type { DeploymentConfig } from "../../engine/config/deployment-config.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import type { TextConfig } from "../../text/text-config.ts";
import type { MetricsConfig } from "./metrics-config.ts";

export interface MetricsSource {
  readonly engine: EngineConfig;
  /** Engines of a process. */
  readonly dataParallelSize: number;
  /** Processes of the server. */
  readonly workers: number;
  readonly models: ServedNames;
  readonly deployment: DeploymentConfig;
  readonly metrics: MetricsConfig;
  /** Truth is written to a file unless `log` is null. */
  readonly truth: { readonly log: object | null };
  readonly text: Pick<TextConfig, "toolCallParser">;
  readonly logs: { readonly disableLogStats: boolean };
}

/** The names that pages show. */
interface ServedNames {
  readonly servedModelNames: readonly string[];
  readonly loraModules: readonly { readonly name: string }[];
  /** Adapters may be loaded by request. */
  readonly runtimeLora?: boolean;
}
