/**
 * Counts what the metrics page shows of a model version with certain labels. Source: `metric_model_reporter.cc` (2026).
 * docs/servers/triton.md lists which event changes which metric. Times are whole microseconds.
 */
import { FAILURE_REASONS, FIRST_RESPONSE_MS, type Reason, SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import { Quantiles, type QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import { InferCounts, type RequestSpans } from "./infer-counts.ts";

export type FailureCounts = Record<Reason, number>;
export const noFailures = (): FailureCounts =>
  Object.fromEntries(FAILURE_REASONS.map((reason) => [reason, 0])) as FailureCounts;

const CUSTOMIZABLE = "nv_inference_first_response_histogram_ms";

/**
 * Returns the histogram bounds from `model_metrics`. As in the real core, only one family can be customised; the log message
 * for others is the core's.
 */
export function firstResponseMs({ model_metrics }: ModelConfig, log: (line: string) => void): readonly number[] {
  let bounds = FIRST_RESPONSE_MS;
  for (const { metric_identifier, histogram_options } of model_metrics?.metric_control ?? []) {
    const family = metric_identifier?.family ?? "";
    if (family === CUSTOMIZABLE) bounds = histogram_options?.buckets ?? [];
    else log(`Metric family '${family}' in 'metric_identifier' is not a customizable metric in Triton core.`);
  }
  return bounds;
}

export class ModelReporter extends InferCounts {
  /** Number of accepted requests that are not executing yet. */
  pending = 0;
  loadS = 0;
  /** Counts per bucket, not cumulative. The last bucket is `+Inf`; the sum follows it. */
  readonly firstResponse: Float64Array;
  /** Quantiles in the order of `SPANS`, then those of cache hits and misses. Empty if summaries are off. */
  readonly quantiles: readonly Quantiles[];

  /** `firstResponseMs`: bounds in ascending order. */
  constructor(
    /** Failure counts. They remain after this object. */
    readonly failures: FailureCounts,
    /** True if the model had a response cache, so that the cache families are shown. */
    readonly cached: boolean,
    targets: readonly QuantileTarget[],
    nowUs: number,
    readonly firstResponseMs: readonly number[],
  ) {
    super();
    this.firstResponse = new Float64Array(firstResponseMs.length + 2);
    this.quantiles =
      targets.length === 0 ? [] : Array.from({ length: SPANS.length + 2 }, () => new Quantiles(targets, nowUs));
  }

  succeeded(inferences: number, spans: RequestSpans, nowUs: number): void {
    this.countSuccess(inferences, spans);
    for (let at = 0; at < spans.length; at++) this.quantiles[at]?.insert(spans[at]!, nowUs);
  }

  hit(requestUs: number, queueUs: number, lookupUs: number, nowUs: number): void {
    this.countHit(requestUs, queueUs, lookupUs);
    this.quantiles[0]?.insert(requestUs, nowUs);
    this.quantiles[1]?.insert(queueUs, nowUs);
    this.quantiles[SPANS.length]?.insert(lookupUs, nowUs);
  }

  missed(us: number, nowUs: number): void {
    this.countMiss(us);
    this.quantiles[SPANS.length + 1]?.insert(us, nowUs);
  }

  responded(us: number): void {
    const ms = Math.floor(us / 1000);
    const bounds = this.firstResponseMs;
    let bucket = 0;
    while (bucket < bounds.length && ms > bounds[bucket]!) bucket++;
    this.firstResponse[bucket]!++;
    this.firstResponse[bounds.length + 1]! += ms;
  }
}
