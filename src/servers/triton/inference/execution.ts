/** Describes one execution of a batch, and computes the times of its requests. */
import type { ModelHost } from "../behaviours/behaviour.ts";
import type { Grants } from "../scheduling/rate-limiter.ts";
import type { BatchRow } from "../scheduling/scheduler.ts";
import type { ComputeTimes, RequestSpans } from "./infer-counts.ts";
import type { ModelReporter } from "./reporter.ts";
import type { InferRequest } from "./request.ts";

export interface Instance {
  readonly name: string;
  readonly host: ModelHost;
  /** Id of the GPU, or null on the CPU. */
  readonly gpu: number | null;
  /** Receives the instance's counts. */
  readonly reporter: ModelReporter;
  dead: boolean;
  /** Called instead of the scheduler when the instance becomes free after a warm-up. Null: no warm-up. */
  freed: (() => void) | null;
}

export interface Execution {
  readonly instance: Instance;
  readonly batch: readonly InferRequest[];
  /** The requests of the batch by sequence slot, or null if the model has no sequence slots. */
  readonly rows: readonly BatchRow<InferRequest>[] | null;
  readonly startUs: number;
  /** Time at which the inputs were ready for the behaviour. */
  readonly inferFromUs: number;
}

/**
 * Returns the times that all requests of a batch share. `inferToUs`: end of the behaviour. `endUs`: end of the conversion of
 * its outputs.
 */
export const computeTimesOf = ({ startUs, inferFromUs }: Execution, inferToUs: number, endUs: number): ComputeTimes => [
  inferFromUs - startUs,
  inferToUs - inferFromUs,
  endUs - inferToUs,
];

/** Returns the times of one request. `cacheUs`: time spent in the response cache. */
export const spansOf = (
  { startUs: fromUs, queuedUs }: InferRequest,
  startUs: number,
  times: ComputeTimes,
  endUs: number,
  cacheUs: number,
): RequestSpans => [endUs - fromUs + cacheUs, startUs - queuedUs, times[0], times[1], times[2]];

/** Starts the batches that the rate limiter has granted. */
export const grant = (granted: Grants): void => {
  for (const run of granted) run();
};

/** Formats an exception of a model like the Python backend. `file` and `where`: file and function to name; null: neither. */
export function raised(error: unknown, file: string | null, where = "execute"): string {
  const { name = "Error", message = String(error) } = error instanceof Error ? error : {};
  return `${name}: ${message}${file === null ? "" : `\n\nAt:\n  ${file}(1): ${where}\n`}`;
}

/** Returns the Python backend's error for a wrong number of responses. */
export const miscounted = (requests: number, responses: number): string =>
  `Number of InferenceResponse objects do not match the number of InferenceRequest objects. InferenceRequest(s) size is:${requests}, and InferenceResponse(s) size is:${responses}\n`;
