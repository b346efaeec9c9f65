/** What is a version of a model that is loaded, whatever computes it: instances of a behaviour, or the steps of an ensemble? */

import type { Clock } from "../../../base/clock.ts";
import type { Gpus } from "../devices/gpus.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import type { TritonError } from "../model-config/status.ts";
import type { VersionFacts } from "../model-config/versions.ts";
import type { ClassLabels } from "../models/labels.ts";
import type { RateLimiter } from "../scheduling/rate-limiter.ts";
import type { ResponseCache } from "./cache.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import type { ModelStatistics } from "./statistics.ts";

export interface Served {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  readonly labels: ClassLabels;
  readonly statistics: ModelStatistics;
  /** An instance of it has died. */
  readonly dead: boolean;
  /** Requests that have not had their last response. */
  readonly live: number;
  /** Takes a request over: its receiver is told of whatever comes. Throws a `TritonError` where it does not take it. */
  submit(request: InferRequest): void;
  /** Nothing of it is live, and no request will come. */
  unloaded?(): void;
}

/** What all models of a server share. */
export interface Shared {
  readonly clock: Pick<Clock, "now" | "at">;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly facts: VersionFacts;
  readonly cache: ResponseCache | null;
  /** null: instances wait for no resources. */
  readonly limiter: RateLimiter | null;
  readonly gpus: Gpus;
}

/** A response on its way: it is counted where it is the first one. */
export function passOn(
  request: InferRequest,
  statistics: ModelStatistics,
  clock: Pick<Clock, "now">,
  answer: InferAnswer | TritonError | null,
  final: boolean,
): void {
  if (answer !== null && !request.responded) {
    request.responded = true;
    statistics.reporter.responded(clock.now() - request.startUs);
  }
  request.receiver.respond(answer, final);
}
