/**
 * Counts the statistics of `/v2/models/NAME/stats`, which start at 0 with each load. Forwards events to the counters of the
 * metrics page, which may be older. Source: `infer_stats.cc` (2026). Times are whole microseconds.
 */
import type { Reason } from "../../../metrics/ensemble/model-numbers.ts";
import { type ComputeTimes, InferCounts, noTime, type RequestSpans } from "./infer-counts.ts";
import type { ModelReporter } from "./reporter.ts";

export class ModelStatistics extends InferCounts {
  /** Counters of events that no GPU instance reports. */
  readonly reporter: ModelReporter;
  /** Counters of the instances on each GPU. Empty if GPUs are not counted separately. */
  onGpus: ReadonlyMap<number, ModelReporter> = new Map();
  lastInferenceMs = 0;
  readonly fail = noTime();
  readonly batches = new Map<number, { input: number; infer: number; output: number; count: number }>();

  constructor(reporter: ModelReporter) {
    super();
    this.reporter = reporter;
  }

  /** Counts the execution of a batch, whether it succeeded or not. */
  executed(size: number, { inputUs, inferUs, outputUs }: ComputeTimes, by = this.reporter): void {
    by.executions++;
    this.executions++;
    let batch = this.batches.get(size);
    if (batch === undefined) {
      batch = { input: 0, infer: 0, output: 0, count: 0 };
      this.batches.set(size, batch);
    }
    batch.count++;
    batch.input += inputUs;
    batch.infer += inferUs;
    batch.output += outputUs;
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
