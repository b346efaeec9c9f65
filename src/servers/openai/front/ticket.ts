/** How is each request counted once, whatever becomes of it? */

import { logUnexpected } from "../../../base/unexpected.ts";
import type { Outcome } from "../../../engine/interface/types.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import type { Deadlines, Expiring } from "../../../wire/http/deadlines.ts";
import type { HttpVisit } from "./front.ts";

/** Counts what becomes of a request. */
export interface Ticket {
  /** The first call decides. Never throws: an answer must not wait for an end that its counting kept from it. */
  settle(outcome: Outcome): void;
}

const notCounted = (error: unknown): void =>
  logUnexpected("a request ended, and is missing in some of the numbers", error);

/** No closure per request: one would hold the request's body as long as the stream lasts. */
export class CountedOnce implements Ticket {
  #settled: ((outcome: Outcome) => void) | null;
  #told: ((outcome: Outcome) => void) | null = null;
  #accounting: Pick<Accounting, "stream"> | null = null;
  #visit: HttpVisit | null = null;
  #deadlines: Deadlines | null = null;
  #watched: Expiring | null = null;

  constructor(settled: (outcome: Outcome) => void) {
    this.#settled = settled;
  }

  settle(outcome: Outcome): void {
    const settled = this.#settled;
    const told = this.#told;
    this.#settled = null;
    this.#told = null;
    try {
      settled?.(outcome);
    } catch (error) {
      notCounted(error);
    }
    try {
      told?.(outcome);
    } catch (error) {
      notCounted(error);
    }
    try {
      this.#end();
    } catch (error) {
      notCounted(error);
    }
  }

  #end(): void {
    if (this.#watched !== null) this.#deadlines?.forget(this.#watched);
    this.#watched = null;
    const accounting = this.#accounting;
    this.#accounting = null;
    accounting?.stream(-1);
    this.#visit?.done(200, 0);
  }

  /** `told` hears of the end too. */
  tell(told: (outcome: Outcome) => void): void {
    this.#told = told;
  }

  /** The answer is to be complete in time, unless it is; `null`: whenever. */
  within(deadlines: Deadlines | null, answer: Expiring): void {
    if (deadlines === null || this.#settled === null) return;
    this.#deadlines = deadlines;
    this.#watched = answer;
    deadlines.watch(answer);
  }

  /** The answer is an event stream from now on, complete when it is settled, or by now. */
  streams(accounting: Pick<Accounting, "stream">, visit: HttpVisit | null): void {
    if (this.#settled === null) {
      visit?.done(200, 0);
      return;
    }
    accounting.stream(1);
    this.#accounting = accounting;
    this.#visit = visit;
  }
}
