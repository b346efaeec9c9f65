/** What is one execution of a batch, and where did the time of its requests go? */
import type { ModelHost } from "../behaviours/behaviour.ts";
import type { Grants } from "../scheduling/rate-limiter.ts";
import type { ComputeTimes, RequestSpans } from "./infer-counts.ts";
import type { ModelReporter } from "./reporter.ts";
import type { InferRequest } from "./request.ts";

export interface Instance {
  readonly name: string;
  readonly host: ModelHost;
  /** null: it is on none. */
  readonly gpu: number | null;
  /** Where it counts what it reports. */
  readonly reporter: ModelReporter;
  dead: boolean;
  /** Told when it is free again, in place of the scheduler, which did not give it what it computes: a warm-up; null: there is none. */
  freed: (() => void) | null;
}

export interface Execution {
  readonly instance: Instance;
  readonly startUs: number;
  /** When the inputs had been made what the behaviour sees. */
  readonly inferFromUs: number;
}

/** Times of a batch, each of its requests has them. `inferToUs`: the behaviour was done; `endUs`: what it gave had been made answers. */
export const computeTimesOf = (
  { startUs, inferFromUs }: Execution,
  inferToUs: number,
  endUs: number,
): ComputeTimes => ({
  inputUs: inferFromUs - startUs,
  inferUs: inferToUs - inferFromUs,
  outputUs: endUs - inferToUs,
});

/** `cacheUs`: what the cache took beside. */
export const spansOf = (
  request: InferRequest,
  startUs: number,
  times: ComputeTimes,
  endUs: number,
  cacheUs: number,
): RequestSpans => ({
  requestUs: endUs - request.startUs + cacheUs,
  queueUs: startUs - request.queuedUs,
  ...times,
});

/** Runs those whose turn a rate limiter says it is. */
export const grant = (granted: Grants): void => {
  for (const run of granted) run();
};

/** What a model threw, as the Python backend tells it; `file` is where. */
export function raised(error: unknown, file: string | null): string {
  const { name = "Error", message = String(error) } = error instanceof Error ? error : {};
  return `${name}: ${message}${file === null ? "" : `\n\nAt:\n  ${file}(1): execute\n`}`;
}

/** A batch that got more or fewer responses than it has requests, in that backend's words. */
export const miscounted = (requests: number, responses: number): string =>
  `Number of InferenceResponse objects do not match the number of InferenceRequest objects. InferenceRequest(s) size is:${requests}, and InferenceResponse(s) size is:${responses}\n`;
