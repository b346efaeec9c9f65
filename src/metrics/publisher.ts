/**
 * When does a process bring its page up to date? After what moved, at once if the last time is long enough ago, else a
 * little later; and before it answers a scrape itself. Where nothing moves nothing is done.
 */
import type { Cancel, Clock } from "../clock.ts";
import type { Held } from "./held.ts";
import type { OwnPage } from "./shared.ts";
import type { Refresh } from "./table.ts";

/** At least so long between two, per engine: a copy of 256 engines takes a while. */
const GAP_US = 1000;
/** What nothing follows is shown after this. */
const LATER_US = 5000;

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

  constructor(page: OwnPage, held: Held, clock: Clock, engines: number, refreshes: readonly Refresh[]) {
    this.#page = page;
    this.#held = held;
    this.#clock = clock;
    this.#gapUs = GAP_US * Math.ceil(engines / 8);
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

  /** Something moved; `last`: nothing follows soon, so it is shown at once. */
  readonly moved = (last = false): void => {
    this.#movedUs = this.#clock.now();
    this.#stale = true;
    if (last || this.#movedUs - this.#shownUs >= this.#gapUs) this.now();
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
