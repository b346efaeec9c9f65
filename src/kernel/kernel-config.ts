/** The configuration of the parts that every server has. */

import type { DeploymentConfig } from "../engine/config/deployment-config.ts";
import type { EngineConfig } from "../engine/config/engine-config.ts";
import type { IterationsConfig } from "../engine/config/trtllm.ts";
import type { FaultsConfig } from "../faults/faults-config.ts";
import type { MetricsConfig } from "../metrics/config/metrics-config.ts";
import type { TextConfig } from "../text/text-config.ts";
import type { TruthConfig } from "../truth/truth-config.ts";
import type { ListenConfig } from "../wire/http1/listen-config.ts";

/** `--kv-transfer-time`: until the KV cache of a prompt that was computed elsewhere is here. */
export interface KvTransferTime {
  readonly baseUs: number;
  /** Per token of the prompt. */
  readonly tokenUs: number;
  /** Deviation of a normal distribution, cut at 0.3 and 1.7 times the mean. */
  readonly deviationUs: number;
  /** What of it the first step takes anyway: it is not waited for. */
  readonly stepUs: number;
}

/** `--lora-modules`: a model name of its own. */
export interface LoraModule {
  readonly name: string;
  readonly path: string;
  /** The parent in the list of models; null: the first served name. */
  readonly baseModelName: string | null;
}

/** The names under which the model and its adapters are served. */
export interface ModelsConfig {
  readonly model: string;
  /** At least one; the first is the one that answers carry. */
  readonly servedModelNames: readonly string[];
  /** An adapter's number is its place here, from 1. */
  readonly loraModules: readonly LoraModule[];
  /** Adapters may be loaded and unloaded by request. */
  readonly runtimeLora?: boolean;
}

/** What the server logs. */
export interface LogsConfig {
  readonly disableAccessLog: boolean;
  /** No warnings about HTTP itself: what is not HTTP, or another protocol. */
  readonly disableWarnings: boolean;
  readonly disableLogStats: boolean;
  readonly enableLogRequests: boolean;
}

/** The levels of uvicorn's log, from the fewest lines to the most. */
export const LOG_LEVELS = ["critical", "error", "warning", "info", "debug", "trace"] as const;

/** Requests are logged from the level info on, warnings from the level warning on. */
export function logsOf(
  given: Omit<LogsConfig, "disableWarnings">,
  level: (typeof LOG_LEVELS)[number] = "info",
): LogsConfig {
  const rank = LOG_LEVELS.indexOf(level);
  return {
    ...given,
    disableAccessLog: given.disableAccessLog || rank < LOG_LEVELS.indexOf("info"),
    disableWarnings: rank < LOG_LEVELS.indexOf("warning"),
  };
}

/** Limits and waits of requests before they are in the queue of an engine. */
export interface QueueConfig {
  readonly maxNumQueuedReqs?: number;
  readonly maxNumQueuedTokens?: number;
  /** Share of its prompt that a request must find in the prefix cache; absent: requests may not ask for it either. */
  readonly cacheHitThreshold?: number;
  /** Absent: whatever requests say of remote prefill and decode means nothing. */
  readonly kvTransferTime?: KvTransferTime;
}

/** What the parts of every server are made of. */
export interface KernelConfig {
  /** `--seed`, where it was given: ids and the seeds of requests that bring none repeat. null: they are drawn by chance. */
  readonly seed: number | null;
  readonly engine: EngineConfig;
  /** Engines of that configuration behind the server, at least 1. */
  readonly dataParallelSize: number;
  /** Processes that serve on the port, each with that many engines; at least 1. */
  readonly workers: number;
  readonly models: ModelsConfig;
  readonly deployment: DeploymentConfig;
  readonly listen: ListenConfig;
  readonly logs: LogsConfig;
  readonly metrics: MetricsConfig;
  readonly truth: TruthConfig;
  readonly text: TextConfig;
  readonly faults: FaultsConfig;
  readonly queue: QueueConfig;
  /** What is recorded of iterations. Absent: nothing. */
  readonly iterations?: IterationsConfig;
}
