/**
 * Bounded buffer of pages for the writer. If it fills, steps and lists of runs are dropped first, then rows of
 * requests. Dropped rows are counted, and the engine never waits.
 */

import type { TruthDropped } from "../engine/interface/types.ts";
import type { Observer, RequestTimeline } from "../engine/observer.ts";
import { PAGE_WORDS, Page, requestWords, STEP_WORDS, textWords } from "./page.ts";

export interface RingLimits {
  /** Number of pages at the writer from which on steps and runs are dropped, and number from which on everything is dropped. */
  readonly pages: number;
  readonly pagesForRequests: number;
  /** Microseconds after its first row when a page is sent although it is not full. */
  readonly lingerUs: number;
}

/** 4 MiB, and 28 MiB more for the rows of about 160,000 requests. */
export const RING: RingLimits = { pages: 16, pagesForRequests: 128, lingerUs: 500_000 };

/** Largest length of a fault's line. */
const FAULT_BYTES = 4 * PAGE_WORDS;

export class Ring {
  readonly dropped = { run: 0, step: 0, request: 0 } satisfies TruthDropped;
  readonly #spare: Page[] = [];
  #page = new Page();
  /** Pages sent and not yet returned. */
  #away = 0;
  #sinceUs = 0;
  #flushWanted = false;

  constructor(
    private readonly limits: RingLimits,
    private readonly send: (page: Page) => void,
  ) {}

  observer(engine: number): Observer {
    return {
      step: (facts) => {
        const { endUs } = facts;
        if (this.#room(STEP_WORDS, this.limits.pages)) {
          if (this.#page.used === 0) this.#sinceUs = endUs;
          this.#page.step(engine, facts);
        } else this.dropped.step++;
        if (endUs - this.#sinceUs >= this.limits.lingerUs) this.flush();
      },
      request: (timeline) => this.#request(engine, timeline),
      idle: () => this.flush(),
    };
  }

  /** Sends the current page as soon as the writer has no other page. */
  flush(): void {
    if (this.#page.used === 0) return;
    if (this.#away > 0) this.#flushWanted = true;
    else this.#swap();
  }

  /** Takes back a page that the writer has finished. */
  returned(page: Page): void {
    this.#away--;
    page.clear();
    this.#spare.push(page);
    if (this.#flushWanted) this.flush();
  }

  /** Sends the current page even if other pages are at the writer. */
  drain(): void {
    if (this.#page.used > 0) this.#swap();
  }

  /** Adds a line. If there is no room for it, it counts as a lost request row. */
  fault(line: string): void {
    if (line.length < FAULT_BYTES && this.#room(textWords(line.length), this.limits.pagesForRequests))
      this.#page.fault(line);
    else this.dropped.request++;
  }

  #request(engine: number, timeline: RequestTimeline): void {
    const { pages, pagesForRequests } = this.limits;
    this.dropped.run += timeline.runsDropped;
    if (this.#room(requestWords(timeline, true), pages)) this.#page.request(engine, timeline, true);
    else if (this.#room(requestWords(timeline, false), pagesForRequests)) {
      this.dropped.run += timeline.runs.length / 3;
      this.#page.request(engine, timeline, false);
    } else this.dropped.request++;
  }

  /** Returns true if the current page or the next one has room, with at most `limit` pages at the writer. */
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
    this.send(page);
  }
}
