/**
 * What is counted of a model's requests both for its statistics and for the metrics page? The two differ in when they begin.
 * Times are whole microseconds.
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

export class InferCounts {
  inferences = 0;
  executions = 0;
  readonly success = noTime();
  readonly cacheHit = noTime();
  readonly cacheMiss = noTime();
  /** By `SPANS`: sums; how many are in them follows from the rest. */
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

  /** A request's answer was in the cache: its time, what it waited, and how long the lookup took. */
  protected countHit(requestUs: number, queueUs: number, lookupUs: number): void {
    countTime(this.success, requestUs);
    countTime(this.cacheHit, lookupUs);
    this.spans[0]! += requestUs;
    this.spans[1]! += queueUs;
  }

  /** Lookup and insertion took so long, which the request's time has in it. */
  protected countMiss(us: number): void {
    countTime(this.cacheMiss, us);
  }
}
