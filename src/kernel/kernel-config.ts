/** The configuration of the parts that every server has. */

import type { DeploymentConfig } from "../engine/config/deployment-config.ts";
import type { EngineConfig, FixedEngineConfig } from "../engine/config/engine-config.ts";
import type { IterationsConfig } from "../engine/config/trtllm.ts";
import type { FaultsConfig } from "../faults/faults-config.ts";
import type { KvEventsConfig } from "../kv-events/config.ts";
import type { MetricsConfig } from "../metrics/config/metrics-config.ts";
import type { TextConfig } from "../text/text-config.ts";
import type { TruthConfig } from "../truth/truth-config.ts";
import type { ConnectionLimits } from "../wire/http/front-limits.ts";
import type { ListenConfig } from "../wire/http1/listen-config.ts";

/** The time of `--kv-transfer-time`, in which the KV cache of a prompt arrives that another server computed. */
export interface KvTransferTime {
  readonly baseUs: number;
  /** Added per token of the prompt. */
  readonly tokenUs: number;
  /**
   * Standard deviation of the transfer time, in microseconds. The time is drawn from a normal distribution that is cut at 0.3
   * and 1.7 times its mean.
   */
  readonly deviationUs: number;
  /** The part that overlaps the first step. It is subtracted from the wait. */
  readonly stepUs: number;
}

/** An adapter of `--lora-modules`, which requests select by its name in place of the model. */
export interface LoraModule {
  readonly name: string;
  readonly path: string;
  /** Parent in the list of models. null: the first served name. */
  readonly baseModelName: string | null;
}

/** The names under which the model and its adapters are served. */
export interface ModelsConfig {
  readonly model: string;
  /** At least one; the first is the one that answers carry. */
  readonly servedModelNames: readonly string[];
  /** The number of an adapter is its position here, from 1. */
  readonly loraModules: readonly LoraModule[];
  /** True if requests may load and unload adapters. */
  readonly runtimeLora?: boolean;
}

/** The lines that the server logs. */
export interface LogsConfig {
  readonly disableAccessLog: boolean;
  /** True if there is no warning about bytes that are not HTTP, or that ask for another protocol. */
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

/** Limits of requests, and waits before they enter the queue of an engine. */
export interface QueueConfig {
  readonly maxNumQueuedReqs?: number;
  readonly maxNumQueuedTokens?: number;
  /** Share of its prompt that a request must find in the prefix cache, 0 to 1. Absent: requests cannot set a share either. */
  readonly cacheHitThreshold?: number;
  /** Absent: fields of requests about remote prefill and decode have no effect. */
  readonly kvTransferTime?: KvTransferTime;
}

/**
 * The configuration that a running kernel and its server read. The members that `/admin/config` changes are not in it: their
 * values are `LiveValue`s of `LiveSettings`.
 */
export interface KernelConfig {
  /** `--seed`. With it ids, and seeds of requests that bring none, repeat. null: they are random. */
  readonly seed: number | null;
  readonly engine: FixedEngineConfig;
  /** Number of engines of a process, at least 1. All have the configuration `engine`. */
  readonly dataParallelSize: number;
  /** Number of processes that serve on the port, at least 1. */
  readonly workers: number;
  readonly models: ModelsConfig;
  readonly deployment: DeploymentConfig;
  readonly listen: Omit<ListenConfig, "frontLimits"> & { readonly frontLimits?: ConnectionLimits };
  readonly logs: Pick<LogsConfig, "disableLogStats">;
  readonly metrics: MetricsConfig;
  readonly truth: TruthConfig;
  readonly text: Omit<TextConfig, "fixtures">;
  readonly faults: Omit<FaultsConfig, "failureRate" | "failureTypes" | "faultRate" | "faultTypes">;
  readonly queue: Pick<QueueConfig, "cacheHitThreshold">;
  /** Settings of the records of iterations. Absent: nothing is recorded. */
  readonly iterations?: IterationsConfig;
  /** Absent: changes of the prefix cache are not published. */
  readonly kvEvents?: KvEventsConfig;
}

/** The configuration that a kernel is created with. */
export interface StartConfig extends KernelConfig {
  readonly engine: EngineConfig;
  readonly listen: ListenConfig;
  readonly logs: LogsConfig;
  readonly text: TextConfig;
  readonly faults: FaultsConfig;
  readonly queue: QueueConfig;
}
