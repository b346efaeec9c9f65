/**
 * What is kept while the writer is behind? A bounded ring of pages. Steps and lists of runs get the first part of it,
 * the rows of requests also the rest; what does not fit is counted, nobody waits.
 */

import type { TruthDropped } from "../engine/interface/types.ts";
import type { Observer, RequestTimeline } from "../engine/observer.ts";
import { PAGE_WORDS, Page, requestWords, STEP_WORDS, textWords } from "./page.ts";

export interface RingLimits {
  /** Pages that may be under way to the writer before steps and runs are dropped, and before anything is. */
  readonly pages: number;
  readonly pagesForRequests: number;
  /** A page that is not full is sent so long after its first row; microseconds. */
  readonly lingerUs: number;
}

/** 4 MiB, and 28 MiB more for the rows of some 160,000 requests. */
export const RING: RingLimits = { pages: 16, pagesForRequests: 128, lingerUs: 500_000 };

/** Longest line of a fault. */
const FAULT_BYTES = 4 * PAGE_WORDS;

export class Ring {
  readonly dropped = { run: 0, step: 0, request: 0 } satisfies TruthDropped;
  readonly #limits: RingLimits;
  readonly #send: (page: Page) => void;
  readonly #spare: Page[] = [];
  #page = new Page();
  /** Sent and not come back. */
  #away = 0;
  #sinceUs = 0;
  #flushWanted = false;

  constructor(limits: RingLimits, send: (page: Page) => void) {
    this.#limits = limits;
    this.#send = send;
  }

  observer(engine: number): Observer {
    return {
      step: (facts) => {
        const { endUs } = facts;
        if (this.#room(STEP_WORDS, this.#limits.pages)) {
          if (this.#page.used === 0) this.#sinceUs = endUs;
          this.#page.step(engine, facts);
        } else this.dropped.step++;
        if (endUs - this.#sinceUs >= this.#limits.lingerUs) this.flush();
      },
      request: (timeline) => this.#request(engine, timeline),
      idle: () => this.flush(),
    };
  }

  /** Sends what there is as soon as the writer has nothing else to do. */
  flush(): void {
    if (this.#page.used === 0) return;
    if (this.#away > 0) this.#flushWanted = true;
    else this.#swap();
  }

  /** The writer is done with a page. */
  returned(page: Page): void {
    this.#away--;
    page.clear();
    this.#spare.push(page);
    if (this.#flushWanted) this.flush();
  }

  /** Sends what there is, whatever is away. */
  drain(): void {
    if (this.#page.used > 0) this.#swap();
  }

  /** A line of its own; one for which there is no room counts as a row that was lost. */
  fault(line: string): void {
    if (line.length < FAULT_BYTES && this.#room(textWords(line.length), this.#limits.pagesForRequests))
      this.#page.fault(line);
    else this.dropped.request++;
  }

  #request(engine: number, timeline: RequestTimeline): void {
    const { pages, pagesForRequests } = this.#limits;
    this.dropped.run += timeline.runsDropped;
    if (this.#room(requestWords(timeline, true), pages)) this.#page.request(engine, timeline, true);
    else if (this.#room(requestWords(timeline, false), pagesForRequests)) {
      this.dropped.run += timeline.runs.length / 3;
      this.#page.request(engine, timeline, false);
    } else this.dropped.request++;
  }

  /** Is there room in the page, or in the next one, with at most `limit` pages away? */
  #room(words: number, limit: number): boolean {
    if (this.#away >= limit) return false;
    if (this.#page.fits(words)) return true;
    if (this.#away + 1 >= limit) return false;
    this.#swap();
    return true;
  }

  #swap(): void {
    const page = this.#page;
    this.#flushWanted = false;
    this.#away++;
    this.#page = this.#spare.pop() ?? new Page();
    this.#send(page);
  }
}
