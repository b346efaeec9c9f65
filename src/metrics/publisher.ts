/**
 * When does a process bring its page up to date? After what moved, at once if the last time is long enough ago, else a
 * little later; and before it answers a scrape itself. Where nothing moves nothing is done.
 */
import type { Cancel, Clock } from "../base/clock.ts";
import type { Held } from "./rows/held.ts";
import { OwnPage, openPage, type Pages } from "./rows/shared.ts";

/** At least so long between two, for each four engines: a copy of one takes 10 µs, of 64 engines 0.8 ms. */
const GAP_US = 1000;
const GAP_ENGINES = 4;
/** What nothing follows is shown after this. */
const LATER_US = 5000;

/** From now on others see what this process counts. */
export function publisherAt(pages: Pages, place: number, held: Held, clock: Clock): Publisher {
  return new Publisher(new OwnPage(openPage(pages, place), pages), held, clock, pages);
}

export class Publisher {
  readonly #page: OwnPage;
  readonly #held: Held;
  readonly #clock: Clock;
  readonly #gapUs: number;
  /** The longest period of a held copy: when it is over, all show what moved last. */
  readonly #settleUs: number;
  #shownUs = Number.NEGATIVE_INFINITY;
  #movedUs = 0;
  #stale = false;
  #later: Cancel | null = null;
  #settle: Cancel | null = null;

  constructor(page: OwnPage, held: Held, clock: Clock, { shape, refreshes }: Omit<Pages, "files">) {
    this.#page = page;
    this.#held = held;
    this.#clock = clock;
    this.#gapUs = GAP_US * Math.ceil(shape.engines / GAP_ENGINES);
    this.#settleUs = Math.max(0, ...refreshes.map((one) => (typeof one === "string" ? 0 : one.everyMs * 1000)));
    this.now();
  }

  /** Shows everything as it stands. */
  now(): void {
    const nowUs = this.#clock.now();
    this.#page.write(this.#held.refresh(nowUs));
    this.#shownUs = nowUs;
    this.#stale = false;
  }

  /** Something moved; `last`: nothing follows soon, so it is shown at once where that costs little. */
  readonly moved = (last = false): void => {
    this.#movedUs = this.#clock.now();
    this.#stale = true;
    const soonUs = last && this.#gapUs === GAP_US ? 0 : this.#gapUs;
    if (this.#movedUs - this.#shownUs >= soonUs) this.now();
    else this.#later ??= this.#clock.at(this.#shownUs + Math.max(this.#gapUs, LATER_US), this.#late);
    if (this.#settleUs > 0) this.#settle ??= this.#clock.at(this.#movedUs + this.#settleUs, this.#rest);
  };

  stop(): void {
    this.#later?.();
    this.#settle?.();
    this.now();
  }

  readonly #late = (): void => {
    this.#later = null;
    if (this.#stale) this.now();
  };

  readonly #rest = (): void => {
    const dueUs = this.#movedUs + this.#settleUs;
    this.#settle = null;
    if (this.#clock.now() < dueUs) this.#settle = this.#clock.at(dueUs, this.#rest);
    else this.now();
  };
}
