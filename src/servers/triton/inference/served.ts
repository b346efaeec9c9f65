/** Defines a loaded model version: instances of a behaviour, or the steps of an ensemble. */

import type { Clock } from "../../../base/clock.ts";
import type { Gpus } from "../devices/gpus.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import type { VersionFacts } from "../model-config/versions.ts";
import type { ClassLabels } from "../models/labels.ts";
import type { RateLimiter } from "../scheduling/rate-limiter.ts";
import type { ResponseCache } from "./cache.ts";
import type { InferRequest } from "./request.ts";
import type { ModelStatistics } from "./statistics.ts";

export interface ModelVersion {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  readonly labels: ClassLabels;
  readonly statistics: ModelStatistics;
  /** True if an instance has died. */
  readonly dead: boolean;
  /** Number of requests without a last response. */
  readonly live: number;
  /** Accepts a request, whose receiver gets the responses. Throws a `TritonError` if the model refuses it. */
  submit(request: InferRequest): void;
  /** Releases resources. Called when no request is running and none will come. */
  unloaded?(): void;
}

/** The properties of a version that are determined when it is loaded. */
export type VersionParts = Pick<ModelVersion, "config" | "labels" | "statistics" | "version">;

/** Objects that all models of a server share. */
export interface SharedParts {
  readonly clock: Pick<Clock, "now" | "at">;
  /** Converts a time of the clock to milliseconds since 1970. */
  readonly epochMs: (us: number) => number;
  readonly facts: VersionFacts;
  readonly cache: ResponseCache | null;
  /** Null: instances do not wait for resources. */
  readonly limiter: RateLimiter | null;
  readonly gpus: Gpus;
}
