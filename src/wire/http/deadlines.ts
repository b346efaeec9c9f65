/**
 * Ends what has taken too long. All that is watched gets the same time, so that the oldest is due first and one alarm is
 * enough. Thousands that are due at once end in several turns of the event loop.
 */

import type { Clock } from "../../base/clock.ts";
import { logUnexpected } from "../../base/unexpected.ts";

/** Requests and connections end for so long in one turn of the event loop. */
const PIECE_US = 1000;

/** Time, and what may happen later. */
export interface Timer {
  nowUs(): number;
  /** Runs `act` so much later; gives what takes it back. */
  after?(us: number, act: () => void): () => void;
}

/** For bytes that are to leave later: they may do so a little later than that (`Clock.about`). */
export function pacing(clock: Pick<Clock, "now" | "at" | "about">): Required<Timer> {
  const after = (us: number, act: () => void) => {
    const dueUs = clock.now() + us;
    return clock.about?.(dueUs, act) ?? clock.at(dueUs, act);
  };
  return { nowUs: () => clock.now(), after };
}

export interface Expiring {
  /** Once, when its time is over. */
  expire(): void;
}

export class Deadlines {
  readonly #afterUs: number;
  readonly #backend: Required<Timer>;
  /** With the time at which each is due; in order of that. */
  readonly #watched = new Map<Expiring, number>();
  #armed = false;

  constructor(afterUs: number, backend: Required<Timer>) {
    this.#afterUs = afterUs;
    this.#backend = backend;
  }

  watch(one: Expiring): void {
    this.#watched.set(one, this.#backend.nowUs() + this.#afterUs);
    this.#arm();
  }

  /** Takes off the list what ended in time. */
  forget(one: Expiring): void {
    this.#watched.delete(one);
  }

  #arm(): void {
    if (this.#armed) return;
    const { value: dueUs } = this.#watched.values().next();
    if (dueUs === undefined) return;
    this.#armed = true;
    this.#backend.after(Math.max(0, dueUs - this.#backend.nowUs()), this.#ring);
  }

  readonly #ring = (): void => {
    this.#armed = false;
    const nowUs = this.#backend.nowUs();
    for (const [one, dueUs] of this.#watched) {
      if (dueUs > nowUs || this.#backend.nowUs() - nowUs >= PIECE_US) break;
      this.#watched.delete(one);
      try {
        one.expire();
      } catch (error) {
        logUnexpected("the end of a connection or request that took too long failed", error);
      }
    }
    this.#arm();
  };
}

/** null: there is no limit, or nothing that could wake us. */
export function deadlines(seconds: number, { nowUs, after }: Timer): Deadlines | null {
  return seconds > 0 && after !== undefined ? new Deadlines(seconds * 1e6, { nowUs, after }) : null;
}
