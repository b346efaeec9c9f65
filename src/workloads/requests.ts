/** Selects the requests of a trace to send, and shifts times so that the first is 0. A bad line ends the trace or is reported. */
import type { SkippedRows } from "./skipped-rows.ts";
import { type BadLine, type Trace, TraceError, type TraceItem, type TraceRequest } from "./trace.ts";

export interface RequestSelection {
  /** Seed for traces whose requests or times are generated. */
  readonly seed: number;
  /** Largest number of requests. */
  readonly limit: number;
  /** Factor by which arrivals are faster. */
  readonly rateScale: number;
  /** Called for each bad line, which is then left out. Null: the first bad line throws. */
  readonly onBad: ((bad: BadLine) => void) | null;
}

/**
 * Returns the selected requests. `next` throws a TraceError at the first bad line, and at the end if there was no
 * request. `where` names the trace in messages.
 */
export function requests(trace: Trace, where: string, selection: RequestSelection): IterableIterator<TraceRequest> {
  return new Requests(trace, where, selection);
}

/** A class instead of a generator, because compiling a generator takes most of the time of a short replay. */
class Requests implements IterableIterator<TraceRequest> {
  readonly #items: Iterator<TraceItem>;
  #firstUs = 0;
  #lastUs = Number.NEGATIVE_INFINITY;
  #count = 0;
  #badLines = 0;

  constructor(
    private readonly trace: Trace,
    private readonly where: string,
    private readonly selection: RequestSelection,
  ) {
    this.#items = trace.items(selection.seed)[Symbol.iterator]();
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<TraceRequest, undefined> {
    const { limit, rateScale } = this.selection;
    while (this.#count < limit) {
      const { value: item, done } = this.#items.next();
      if (done) break;
      this.trace.passed.rows++;
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
    throw new TraceError(`${this.where}: ${whyNone(this.#badLines, this.trace.passed, "the trace is empty")}`);
  }

  #bad(bad: BadLine): void {
    const { onBad } = this.selection;
    if (!onBad) throw new TraceError(`${this.where}:${bad.line}: expected ${bad.expected}`);
    onBad(bad);
    this.#badLines++;
  }
}

/** Returns the reason why a trace has no request: bad lines, skipped rows and how to select others, or `empty`. */
export function whyNone(badLines: number, passed: SkippedRows | null, empty: string): string {
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
