/**
 * What is counted of one version of a model? `infer_stats.cc` and `metric_model_reporter.cc` (2026); what each event moves:
 * docs/triton.md. Times are whole microseconds.
 */

import { FAILURE_REASONS, FIRST_RESPONSE_MS, type Reason, SPANS } from "../../metrics/triton/model-numbers.ts";
import { Quantiles, type QuantileTarget } from "../../metrics/triton/quantiles.ts";
import type { ModelConfig } from "../../repository/config/model-config.ts";

export interface CountedTime {
  count: number;
  us: number;
}

/** Where the time of an execution went. */
export interface ComputeTimes {
  readonly inputUs: number;
  readonly inferUs: number;
  readonly outputUs: number;
}

/** Where one request's time went. */
export interface RequestSpans extends ComputeTimes {
  readonly requestUs: number;
  readonly queueUs: number;
}

export type FailureCounts = Record<Reason, number>;
export const noFailures = (): FailureCounts =>
  Object.fromEntries(FAILURE_REASONS.map((reason) => [reason, 0])) as FailureCounts;

const counted = (): CountedTime => ({ count: 0, us: 0 });

/** What a page shows of them. */
export type ModelCounts = Pick<
  ModelStatistics,
  | "pending"
  | "loadS"
  | "inferences"
  | "executions"
  | "success"
  | "cacheHit"
  | "cacheMiss"
  | "spans"
  | "firstResponse"
  | "firstResponseMs"
  | "quantiles"
>;

const CUSTOMIZABLE = "nv_inference_first_response_histogram_ms";

/** Bounds of `model_metrics`; of one family only, as in the real core, whose words on others are these. */
export function firstResponseMs({ model_metrics }: ModelConfig, log: (line: string) => void): readonly number[] {
  let bounds = FIRST_RESPONSE_MS;
  for (const { metric_identifier, histogram_options } of model_metrics?.metric_control ?? []) {
    const family = metric_identifier?.family ?? "";
    if (family === CUSTOMIZABLE) bounds = histogram_options?.buckets ?? [];
    else log(`Metric family '${family}' in 'metric_identifier' is not a customizable metric in Triton core.`);
  }
  return bounds;
}

export class ModelStatistics {
  /** They outlive a load. */
  readonly failures: FailureCounts;
  /** Taken in, and not yet being executed. */
  pending = 0;
  loadS = 0;
  lastInferenceMs = 0;
  inferences = 0;
  executions = 0;
  readonly success = counted();
  readonly fail = counted();
  readonly cacheHit = counted();
  readonly cacheMiss = counted();
  /** By `SPANS`: sums; how many are in them follows from the rest. */
  readonly spans = SPANS.map(() => 0);
  readonly batches = new Map<number, { input: number; infer: number; output: number; count: number }>();
  /** Buckets, not cumulative, one more than bounds; then the sum. */
  readonly firstResponse: Float64Array;
  readonly firstResponseMs: readonly number[];
  /** By `SPANS`, then of hits and of misses; none where summaries are off. */
  readonly quantiles: readonly Quantiles[];
  /** What the instances on each GPU reported, by GPU: it is in the whole, too, but for the quantiles. */
  readonly shares: ReadonlyMap<number, ModelStatistics>;

  /** `onGpus`: failures by GPU, of those that count by themselves. */
  constructor(
    failures: FailureCounts,
    targets: readonly QuantileTarget[],
    nowUs: number,
    firstResponseMs: readonly number[] = FIRST_RESPONSE_MS,
    onGpus: ReadonlyMap<number, FailureCounts> = new Map(),
  ) {
    this.failures = failures;
    this.shares = new Map(
      [...onGpus].map(([gpu, own]) => [gpu, new ModelStatistics(own, targets, nowUs, firstResponseMs)]),
    );
    this.firstResponseMs = firstResponseMs;
    this.firstResponse = new Float64Array(firstResponseMs.length + 2);
    this.quantiles =
      targets.length === 0 ? [] : Array.from({ length: SPANS.length + 2 }, () => new Quantiles(targets, nowUs));
  }

  /** A batch was executed, whatever came of it. */
  executed(size: number, times: ComputeTimes, share: ModelStatistics | null = null): void {
    const { inputUs, inferUs, outputUs } = times;
    share?.executed(size, times);
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

  succeeded(
    inferences: number,
    spans: RequestSpans,
    nowUs: number,
    epochMs: number,
    share: ModelStatistics | null = null,
  ): void {
    share?.succeeded(inferences, spans, nowUs, epochMs);
    const observes = share === null;
    const { requestUs, queueUs, inputUs, inferUs, outputUs } = spans;
    this.lastInferenceMs = Math.floor(epochMs);
    this.inferences += inferences;
    this.success.count++;
    this.success.us += requestUs;
    // In the order of `SPANS`.
    this.#took(0, requestUs, nowUs, observes);
    this.#took(1, queueUs, nowUs, observes);
    this.#took(2, inputUs, nowUs, observes);
    this.#took(3, inferUs, nowUs, observes);
    this.#took(4, outputUs, nowUs, observes);
  }

  /** `requestUs` and `queueUs` of it, and how long the lookup took. */
  hit(requestUs: number, queueUs: number, lookupUs: number, nowUs: number, epochMs: number): void {
    this.lastInferenceMs = Math.floor(epochMs);
    this.success.count++;
    this.success.us += requestUs;
    this.cacheHit.count++;
    this.cacheHit.us += lookupUs;
    this.#took(0, requestUs, nowUs, true);
    this.#took(1, queueUs, nowUs, true);
    this.quantiles[SPANS.length]?.insert(lookupUs, nowUs);
  }

  /** Lookup and insertion took so long; the request's time has it in it. */
  missed(us: number, nowUs: number): void {
    this.cacheMiss.count++;
    this.cacheMiss.us += us;
    this.quantiles[SPANS.length + 1]?.insert(us, nowUs);
  }

  failed(reason: Reason, requestUs: number, times = 1, share: ModelStatistics | null = null): void {
    share?.failed(reason, requestUs, times);
    this.failures[reason] += times;
    this.fail.count += times;
    this.fail.us += requestUs * times;
  }

  responded(us: number): void {
    const ms = Math.floor(us / 1000);
    const bounds = this.firstResponseMs;
    let bucket = 0;
    while (bucket < bounds.length && ms > bounds[bucket]!) bucket++;
    this.firstResponse[bucket]!++;
    this.firstResponse[bounds.length + 1]! += ms;
  }

  /** What no instance on a GPU reported. */
  get ofCore(): ModelCounts {
    if (this.shares.size === 0) return this;
    const shares = [...this.shares.values()];
    const rest = (read: (of: ModelStatistics) => number) =>
      shares.reduce((left, share) => left - read(share), read(this));
    const { pending, loadS, cacheHit, cacheMiss, firstResponse, firstResponseMs, quantiles } = this;
    return {
      ...{ pending, loadS, cacheHit, cacheMiss, firstResponse, firstResponseMs, quantiles },
      inferences: rest((of) => of.inferences),
      executions: rest((of) => of.executions),
      success: { count: rest((of) => of.success.count), us: rest((of) => of.success.us) },
      spans: this.spans.map((_, span) => rest((of) => of.spans[span]!)),
    };
  }

  #took(span: number, us: number, nowUs: number, observes: boolean): void {
    this.spans[span]! += us;
    if (observes && this.quantiles.length > 0) this.quantiles[span]!.insert(us, nowUs);
  }
}
