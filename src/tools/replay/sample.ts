/**
 * Samples the requests of a replay and the times of their tokens, for the plots of single requests. Keeps every n-th request in
 * order of their ends. When the sample is full, every second request is dropped and n doubles, so that memory stays bounded.
 */

import { Finish } from "../../engine/interface/types.ts";
import type { Observer, RequestTimeline } from "../../engine/observer.ts";
import type { ReportRecord } from "../report/index.ts";

/** Most requests in the sample, more than any plot shows. */
const KEPT_MOST = 4000;
/** Number of latest steps per engine whose times are kept, a power of two. Tokens of older steps are not plotted. */
const STEPS_KNOWN = 2 ** 16;
/** Most output tokens of a request whose tokens are plotted. */
const TOKENS_MOST = 8192;

export class RequestSample {
  readonly records: ReportRecord[] = [];
  /** Number of all requests so far. */
  seen = 0;
  #stride = 1;

  /** Makes the observer of one engine. */
  observer(): Observer {
    const dues = new Float64Array(STEPS_KNOWN);
    let last = 0;
    return {
      step: ({ step, dueUs }) => {
        dues[step % STEPS_KNOWN] = dueUs;
        last = step;
      },
      request: (timeline) => {
        if (this.seen++ % this.#stride !== 0) return;
        this.records.push(recordOf(timeline, this.seen - 1, timesOf(timeline, dues, last)));
        if (this.records.length > KEPT_MOST) this.#thin();
      },
      idle: () => {},
    };
  }

  #thin(): void {
    this.#stride *= 2;
    const kept = this.records.filter((_, at) => at % 2 === 0);
    this.records.splice(0, this.records.length, ...kept);
  }
}

/** Returns the due time of each step in which the request got a token. Empty if it has too many tokens. */
function timesOf({ runs, outputTokens }: RequestTimeline, dues: Float64Array, last: number): Float64Array {
  const times: number[] = [];
  if (outputTokens > TOKENS_MOST) return new Float64Array();
  for (let at = 0; at < runs.length; at += 3) {
    for (let step = runs[at]!; step < runs[at]! + runs[at + 1]!; step++) {
      if (step > last - STEPS_KNOWN) times.push(dues[step % STEPS_KNOWN]!);
    }
  }
  return Float64Array.from(times);
}

function recordOf(timeline: RequestTimeline, index: number, chunkUs: Float64Array): ReportRecord {
  const { id, arrivalUs, scheduledUs, prefillEndUs, endUs, promptTokens, outputTokens, reason } = timeline;
  return {
    index,
    requestId: `request ${id}`,
    // Requests are sent exactly at their traced times, so there is no other intended time.
    intendedUs: Number.NaN,
    sendUs: arrivalUs,
    scheduledUs,
    firstUs: prefillEndUs,
    lastUs: Number.isNaN(prefillEndUs) ? Number.NaN : endUs,
    endUs,
    chunkUs,
    inputTokens: promptTokens,
    outputTokens,
    failure: failureOf(reason),
  };
}

function failureOf(reason: Finish | null): ReportRecord["failure"] {
  if (reason === null) return { kind: "unfinished", message: "the replay ended first" };
  if (reason === Finish.Abort) return { kind: "left", message: "its client disconnected" };
  return reason === Finish.Error ? { kind: "busy", message: "the KV pool was too small" } : null;
}
