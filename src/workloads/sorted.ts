/** Holds requests until all are read and returns them by arrival time. Takes 32 bytes per request. */
import { TraceError, type TraceRequest } from "./trace.ts";

/** Numbers per request: arrival, prompt tokens, output tokens, line. */
const WIDTH = 4;
/** Largest number of requests, which take 256 MiB. */
export const SORTED_MOST = 1 << 23;

export class SortedRequests {
  #rows = new Float64Array(1024 * WIDTH);
  #count = 0;

  /** `what` names the trace in the error at the limit. */
  constructor(
    readonly what: string,
    readonly most = SORTED_MOST,
  ) {}

  /** Throws a TraceError if there are more than `most` requests. */
  add(line: number, arrivalUs: number, promptTokens: number, outputTokens: number): void {
    if (this.#count === this.most)
      throw new TraceError(`line ${line}: more than ${this.most} requests in ${this.what}`);
    if ((this.#count + 1) * WIDTH > this.#rows.length) {
      const larger = new Float64Array(2 * this.#rows.length);
      larger.set(this.#rows);
      this.#rows = larger;
    }
    this.#rows.set([arrivalUs, promptTokens, outputTokens, line], WIDTH * this.#count++);
  }

  /** Returns the requests by arrival. Requests with the same time keep the order of the file. */
  *byArrival(): Generator<TraceRequest> {
    const rows = this.#rows;
    const order = Uint32Array.from({ length: this.#count }, (_, row) => row);
    order.sort((a, b) => rows[WIDTH * a]! - rows[WIDTH * b]! || a - b);
    for (const row of order) {
      const at = WIDTH * row;
      const [arrivalUs, promptTokens, outputTokens, line] = [rows[at]!, rows[at + 1]!, rows[at + 2]!, rows[at + 3]!];
      yield { line, arrivalUs, promptTokens, outputTokens, blockIds: null };
    }
  }
}
