/**
 * Counts the statistics of `/v2/models/NAME/stats`, which start at 0 with each load. Forwards events to the counters of the
 * metrics page, which may be older. Source: `infer_stats.cc` (2026). Times are whole microseconds.
 */
import type { Reason } from "../../../metrics/ensemble/model-numbers.ts";
import { type ComputeTimes, InferCounts, noTime, type RequestSpans } from "./infer-counts.ts";
import type { ModelReporter } from "./reporter.ts";

export class ModelStatistics extends InferCounts {
  /** Counters of the instances on each GPU. Empty if GPUs are not counted separately. */
  onGpus: ReadonlyMap<number, ModelReporter> = new Map();
  lastInferenceMs = 0;
  readonly fail = noTime();
  /** Executions by batch size, with the sums of their compute times. */
  readonly batches = new Map<number, { count: number; readonly us: [number, number, number] }>();

  /** `reporter`: counters of events that no GPU instance reports. */
  constructor(readonly reporter: ModelReporter) {
    super();
  }

  /** Counts the execution of a batch, whether it succeeded or not. */
  executed(size: number, times: ComputeTimes, by = this.reporter): void {
    by.executions++;
    this.executions++;
    let batch = this.batches.get(size);
    if (batch === undefined) {
      batch = { count: 0, us: [0, 0, 0] };
      this.batches.set(size, batch);
    }
    batch.count++;
    for (let at = 0; at < times.length; at++) batch.us[at]! += times[at]!;
  }

  succeeded(inferences: number, spans: RequestSpans, nowUs: number, epochMs: number, by = this.reporter): void {
    by.succeeded(inferences, spans, nowUs);
    this.lastInferenceMs = Math.floor(epochMs);
    this.countSuccess(inferences, spans);
  }

  hit(requestUs: number, queueUs: number, lookupUs: number, nowUs: number, epochMs: number): void {
    this.reporter.hit(requestUs, queueUs, lookupUs, nowUs);
    this.lastInferenceMs = Math.floor(epochMs);
    this.countHit(requestUs, queueUs, lookupUs);
  }

  missed(us: number, nowUs: number): void {
    this.reporter.missed(us, nowUs);
    this.countMiss(us);
  }

  failed(reason: Reason, requestUs: number, times = 1, by = this.reporter): void {
    by.failures[reason] += times;
    this.fail.count += times;
    this.fail.us += requestUs * times;
  }
}
