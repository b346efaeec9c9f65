/** Which requests of a trace are sent, and when? In order, from 0 on, as many and as fast as asked for; bad lines stop it or are told. */
import { type BadLine, type Trace, TraceError, type TraceRequest } from "./trace.ts";

export interface Wanted {
  /** For traces that are made up, wholly or in their times. */
  readonly seed: number;
  /** At most so many requests. */
  readonly limit: number;
  /** Arrivals come so many times as fast. */
  readonly rateScale: number;
  /** Null: the first bad line throws; else it is told and left out. */
  readonly onBad: ((bad: BadLine) => void) | null;
}

/** Throws a TraceError at the first bad line, and at the end when there was no request. `where` names the trace in messages. */
export function* requests(
  trace: Trace,
  where: string,
  { seed, limit, rateScale, onBad }: Wanted,
): Generator<TraceRequest> {
  let firstUs = Number.NaN;
  let lastUs = Number.NEGATIVE_INFINITY;
  let count = 0;
  let badLines = 0;
  for (const item of trace.items(seed)) {
    const bad = "expected" in item ? item : item.arrivalUs < lastUs ? backwards(item, lastUs) : null;
    if (bad) {
      if (!onBad) throw new TraceError(`${where}:${bad.line}: expected ${bad.expected}`);
      onBad(bad);
      badLines++;
      continue;
    }
    const request = item as TraceRequest;
    if (count === 0) firstUs = request.arrivalUs;
    lastUs = request.arrivalUs;
    count++;
    yield { ...request, arrivalUs: Math.round((request.arrivalUs - firstUs) / rateScale) };
    if (count >= limit) return;
  }
  if (count > 0) return;
  throw new TraceError(`${where}: ${badLines > 0 ? `no good line, ${badLines} bad ones` : "the trace is empty"}`);
}

function backwards({ arrivalUs, line }: TraceRequest, lastUs: number): BadLine {
  const earlier = (lastUs - arrivalUs) / 1000;
  return { line, expected: `a time not before that of the request ahead of it; it is ${earlier} ms earlier` };
}
