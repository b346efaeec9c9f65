/**
 * Counts requests for the statistics and for the metrics page of a model. The two start at different times. Times are whole
 * microseconds.
 */
import { SPANS } from "../../../metrics/ensemble/model-numbers.ts";

export interface CountedTime {
  count: number;
  us: number;
}

export const noTime = (): CountedTime => ({ count: 0, us: 0 });

function countTime(time: CountedTime, us: number): void {
  time.count++;
  time.us += us;
}

/** Compute times of an execution in microseconds. */
export type ComputeTimes = readonly [inputUs: number, inferUs: number, outputUs: number];
/** Times of one request in microseconds, in the order of `SPANS`. */
export type RequestSpans = readonly [requestUs: number, queueUs: number, ...ComputeTimes];

export class InferCounts {
  inferences = 0;
  executions = 0;
  readonly success = noTime();
  readonly cacheHit = noTime();
  readonly cacheMiss = noTime();
  /** Sums of times in the order of `SPANS`. Their counts follow from the other counters. */
  readonly spans = SPANS.map(() => 0);

  protected countSuccess(inferences: number, spans: RequestSpans): void {
    this.inferences += inferences;
    countTime(this.success, spans[0]);
    for (let at = 0; at < spans.length; at++) this.spans[at]! += spans[at]!;
  }

  /** Counts a cache hit: time of the request, time in the queue, and time of the lookup. */
  protected countHit(requestUs: number, queueUs: number, lookupUs: number): void {
    countTime(this.success, requestUs);
    countTime(this.cacheHit, lookupUs);
    this.spans[0]! += requestUs;
    this.spans[1]! += queueUs;
  }

  /** Counts a cache miss. `us`: time of lookup and insertion, which the request's time includes. */
  protected countMiss(us: number): void {
    countTime(this.cacheMiss, us);
  }
}
