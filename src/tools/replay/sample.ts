/**
 * Which requests of a replay are shown one by one, and when did their tokens come? Some of all, evenly in order of their
 * ends, so that memory does not grow with the trace: whenever there are too many, every second one is dropped.
 */

import { Finish } from "../../engine/interface/types.ts";
import type { Observer, RequestTimeline } from "../../engine/observer.ts";
import type { ReportRecord } from "../report/index.ts";

/** More than any plot shows. */
const KEPT_MOST = 4000;
/** Steps of an engine whose times are known, the latest ones: a power of two. Tokens of older ones are not drawn. */
const STEPS_KNOWN = 2 ** 16;
/** Most tokens that are drawn of one request. */
const TOKENS_MOST = 8192;

export class RequestSample {
  readonly records: ReportRecord[] = [];
  /** Requests that were seen. */
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

/** When each step of its runs was due. */
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
    // A trace's time is when it comes.
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
  if (reason === null) return { kind: "unfinished", message: "the replay ended before" };
  if (reason === Finish.Abort) return { kind: "left", message: "its client did not wait" };
  return reason === Finish.Error ? { kind: "busy", message: "there was no room for it" } : null;
}
