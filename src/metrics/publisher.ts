/**
 * Updates a process's shared page of numbers: after a change, at once if the last update was long enough ago, else a
 * little later. Also updates it before this process answers a scrape. Without changes, does nothing.
 */
import type { Cancel, Clock } from "../base/clock.ts";
import type { SnapshotCopies } from "./rows/held.ts";
import { OwnPage, openPage, type Pages } from "./rows/shared.ts";

/** Shortest time between two updates, per four engines. Copying one engine takes 10 µs, 64 engines 0.8 ms. */
const GAP_US = 1000;
const GAP_ENGINES = 4;
/** Time after which a change is published that no further change follows. */
const LATER_US = 5000;

/** Starts to publish the numbers of this process to the others. */
export function publisherAt(pages: Pages, place: number, copies: SnapshotCopies, clock: Clock): Publisher {
  return new Publisher(new OwnPage(openPage(pages, place), pages), copies, clock, pages);
}

export class Publisher {
  readonly #page: OwnPage;
  readonly #copies: SnapshotCopies;
  readonly #clock: Clock;
  readonly #gapUs: number;
  /** Longest period of a snapshot copy. Once it is over, every copy shows the last change. */
  readonly #settleUs: number;
  #shownUs = Number.NEGATIVE_INFINITY;
  #movedUs = 0;
  #stale = false;
  #later: Cancel | null = null;
  #settle: Cancel | null = null;

  constructor(page: OwnPage, copies: SnapshotCopies, clock: Clock, { shape, refreshes }: Omit<Pages, "files">) {
    this.#page = page;
    this.#copies = copies;
    this.#clock = clock;
    this.#gapUs = GAP_US * Math.ceil(shape.engines / GAP_ENGINES);
    this.#settleUs = Math.max(
      0,
      ...refreshes.map((refresh) => (typeof refresh === "string" ? 0 : refresh.everyMs * 1000)),
    );
    this.now();
  }

  /** Publishes the current numbers. */
  now(): void {
    const nowUs = this.#clock.now();
    this.#page.write(this.#copies.refresh(nowUs));
    this.#shownUs = nowUs;
    this.#stale = false;
  }

  /** Reports a change. `last`: no further change follows soon, so it is published at once if that is cheap. */
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
