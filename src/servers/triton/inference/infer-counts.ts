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

/** Compute times of an execution. */
export interface ComputeTimes {
  readonly inputUs: number;
  readonly inferUs: number;
  readonly outputUs: number;
}

/** Times of one request. */
export interface RequestSpans extends ComputeTimes {
  readonly requestUs: number;
  readonly queueUs: number;
}

export class InferCounts {
  inferences = 0;
  executions = 0;
  readonly success = noTime();
  readonly cacheHit = noTime();
  readonly cacheMiss = noTime();
  /** Sums of times in the order of `SPANS`. Their counts follow from the other counters. */
  readonly spans = SPANS.map(() => 0);

  protected countSuccess(inferences: number, { requestUs, queueUs, inputUs, inferUs, outputUs }: RequestSpans): void {
    this.inferences += inferences;
    countTime(this.success, requestUs);
    this.spans[0]! += requestUs;
    this.spans[1]! += queueUs;
    this.spans[2]! += inputUs;
    this.spans[3]! += inferUs;
    this.spans[4]! += outputUs;
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
