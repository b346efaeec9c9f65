/** How is each request counted once, whatever becomes of it? */
import type { Outcome } from "../../engine/types.ts";
import type { Ticket } from "./answer.ts";
import type { Accounting, HttpVisit } from "./front.ts";

/** No closure per request: one would hold the request's body as long as the stream lasts. */
export class CountedOnce implements Ticket {
  #settled: ((outcome: Outcome) => void) | null;
  #accounting: Accounting | null = null;
  #visit: HttpVisit | null = null;

  constructor(settled: (outcome: Outcome) => void) {
    this.#settled = settled;
  }

  settle(outcome: Outcome): void {
    const settled = this.#settled;
    this.#settled = null;
    settled?.(outcome);
    this.#accounting?.stream(-1);
    this.#accounting = null;
    this.#visit?.done(200, 0);
  }

  /** The answer is an event stream from now on, complete when it is settled. */
  streams(accounting: Accounting, visit: HttpVisit | null): void {
    accounting.stream(1);
    this.#accounting = accounting;
    this.#visit = visit;
  }
}
