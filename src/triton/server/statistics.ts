/**
 * What does `/v2/models/NAME/stats` tell of one load of a version? `infer_stats.cc` (2026). What it is told goes to what the
 * metrics page shows, too, which may be older than the load. Times are whole microseconds.
 */
import { type Reason, SPANS } from "../../metrics/triton/model-numbers.ts";
import { addSpans, type ComputeTimes, type ModelReporter, noTime, type RequestSpans } from "./reporter.ts";

export class ModelStatistics {
  /** What no instance on a GPU reports. */
  readonly reporter: ModelReporter;
  /** What instances on each GPU report; none where that is not told apart. */
  onGpus: ReadonlyMap<number, ModelReporter> = new Map();
  lastInferenceMs = 0;
  inferences = 0;
  executions = 0;
  readonly success = noTime();
  readonly fail = noTime();
  readonly cacheHit = noTime();
  readonly cacheMiss = noTime();
  /** By `SPANS`: sums; how many are in them follows from the rest. */
  readonly spans = SPANS.map(() => 0);
  readonly batches = new Map<number, { input: number; infer: number; output: number; count: number }>();

  constructor(reporter: ModelReporter) {
    this.reporter = reporter;
  }

  /** A batch was executed, whatever came of it. */
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
    this.inferences += inferences;
    this.success.count++;
    this.success.us += spans.requestUs;
    addSpans(this.spans, spans);
  }

  /** `requestUs` and `queueUs` of it, and how long the lookup took. */
  hit(requestUs: number, queueUs: number, lookupUs: number, nowUs: number, epochMs: number): void {
    this.reporter.hit(requestUs, queueUs, lookupUs, nowUs);
    this.lastInferenceMs = Math.floor(epochMs);
    this.success.count++;
    this.success.us += requestUs;
    this.cacheHit.count++;
    this.cacheHit.us += lookupUs;
    this.spans[0]! += requestUs;
    this.spans[1]! += queueUs;
  }

  /** Lookup and insertion took so long; the request's time has it in it. */
  missed(us: number, nowUs: number): void {
    this.reporter.missed(us, nowUs);
    this.cacheMiss.count++;
    this.cacheMiss.us += us;
  }

  failed(reason: Reason, requestUs: number, times = 1, by = this.reporter): void {
    by.failures[reason] += times;
    this.fail.count += times;
    this.fail.us += requestUs * times;
  }
}
