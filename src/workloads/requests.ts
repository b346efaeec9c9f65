/** Selects the requests of a trace that are sent, and moves the first to 0. Bad lines end the trace or are reported. */
import type { PassedOver } from "./passed-over.ts";
import { type BadLine, type Trace, TraceError, type TraceItem, type TraceRequest } from "./trace.ts";

export interface RequestSelection {
  /** For traces that are made up, wholly or in their times. */
  readonly seed: number;
  /** At most so many requests. */
  readonly limit: number;
  /** Arrivals come so many times as fast. */
  readonly rateScale: number;
  /** Null: the first bad line throws; else it is told and left out. */
  readonly onBad: ((bad: BadLine) => void) | null;
}

/** `next` throws a TraceError at the first bad line, and at the end when there was no request. `where` names the trace in messages. */
export function requests(trace: Trace, where: string, wanted: RequestSelection): IterableIterator<TraceRequest> {
  return new Requests(trace, where, wanted);
}

/** No generator: short replays spend more time on compiling those than on anything else. */
class Requests implements IterableIterator<TraceRequest> {
  readonly #items: Iterator<TraceItem>;
  readonly #trace: Trace;
  readonly #where: string;
  readonly #wanted: RequestSelection;
  #firstUs = 0;
  #lastUs = Number.NEGATIVE_INFINITY;
  #count = 0;
  #badLines = 0;

  constructor(trace: Trace, where: string, wanted: RequestSelection) {
    this.#items = trace.items(wanted.seed)[Symbol.iterator]();
    this.#trace = trace;
    this.#where = where;
    this.#wanted = wanted;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<TraceRequest, undefined> {
    const { limit, rateScale } = this.#wanted;
    while (this.#count < limit) {
      const { value: item, done } = this.#items.next();
      if (done) break;
      this.#trace.passed.rows++;
      if ("expected" in item) this.#bad(item);
      else if (!item.follows && item.arrivalUs < this.#lastUs) this.#bad(backwards(item, this.#lastUs));
      else {
        if (this.#count++ === 0) this.#firstUs = item.arrivalUs;
        // A later turn waits for its conversation anyway, so its time need not be in order.
        if (!item.follows) this.#lastUs = item.arrivalUs;
        if (this.#firstUs === 0 && rateScale === 1) return { value: item, done: false };
        const arrivalUs = Math.max(0, Math.round((item.arrivalUs - this.#firstUs) / rateScale));
        const pause = item.thinkUs === undefined ? {} : { thinkUs: Math.round(item.thinkUs / rateScale) };
        return { value: { ...item, ...pause, arrivalUs }, done: false };
      }
    }
    if (this.#count > 0) return { value: undefined, done: true };
    throw new TraceError(`${this.#where}: ${whyNone(this.#badLines, this.#trace.passed, "the trace is empty")}`);
  }

  #bad(bad: BadLine): void {
    const { onBad } = this.#wanted;
    if (!onBad) throw new TraceError(`${this.#where}:${bad.line}: expected ${bad.expected}`);
    onBad(bad);
    this.#badLines++;
  }
}

/** Returns why a trace has no request: bad lines, rows that were passed over and how to choose others, or `empty`. */
export function whyNone(badLines: number, passed: PassedOver | null, empty: string): string {
  const reasons = passed?.text() ?? null;
  const cure = passed?.cure ? `; ${passed.cure}` : "";
  const bad = badLines > 0 ? `no good line, ${badLines} bad ones` : "";
  if (reasons === null) return bad === "" ? empty : bad;
  return `no request to send: ${reasons}${bad === "" ? "" : `; ${bad}`}${cure}`;
}

function backwards({ arrivalUs, line }: TraceRequest, lastUs: number): BadLine {
  const earlier = (lastUs - arrivalUs) / 1000;
  return { line, expected: `a time not before that of the request ahead of it; it is ${earlier} ms earlier` };
}
