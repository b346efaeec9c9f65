/**
 * Ends requests and connections that have taken too long. All of them get the same time, so the oldest is due first and one timer
 * is enough. If thousands are due at once, they end in several turns of the event loop.
 */

import type { Clock } from "../../base/clock.ts";
import { logUnexpected } from "../../base/unexpected.ts";

/** Longest time in one turn of the event loop that is spent on ending overdue requests and connections. */
const TURN_US = 1000;

/** The current time, and callbacks at a later time. Without `after` there are no callbacks. */
export interface Timer {
  nowUs(): number;
  /** Runs `act` after `us` microseconds. Returns a function that cancels it. */
  after?(us: number, act: () => void): () => void;
}

/** Returns a timer for bytes to be sent later. Its callbacks may run a little late (`Clock.about`), which saves wake-ups. */
export function pacing(clock: Pick<Clock, "now" | "at" | "about">): Required<Timer> {
  const after = (us: number, act: () => void) => {
    const dueUs = clock.now() + us;
    return clock.about?.(dueUs, act) ?? clock.at(dueUs, act);
  };
  return { nowUs: () => clock.now(), after };
}

/** A request or connection that must end within a time limit. */
export interface TimedItem {
  /** Called once, when the time is over. */
  expire(): void;
}

export class Deadlines {
  /** Due time of each watched item, in microseconds of the clock. Sorted by due time, because all get the same limit. */
  readonly #watched = new Map<TimedItem, number>();
  #isArmed = false;

  constructor(
    private readonly afterUs: number,
    private readonly backend: Required<Timer>,
  ) {}

  /** Starts the time limit of an item. */
  watch(item: TimedItem): void {
    this.#watched.set(item, this.backend.nowUs() + this.afterUs);
    this.#arm();
  }

  /** Stops watching an item that ended in time. */
  forget(item: TimedItem): void {
    this.#watched.delete(item);
  }

  #arm(): void {
    if (this.#isArmed) return;
    const { value: dueUs } = this.#watched.values().next();
    if (dueUs === undefined) return;
    this.#isArmed = true;
    this.backend.after(Math.max(0, dueUs - this.backend.nowUs()), this.#endOverdue);
  }

  readonly #endOverdue = (): void => {
    this.#isArmed = false;
    const nowUs = this.backend.nowUs();
    for (const [item, dueUs] of this.#watched) {
      if (dueUs > nowUs || this.backend.nowUs() - nowUs >= TURN_US) break;
      this.#watched.delete(item);
      try {
        item.expire();
      } catch (error) {
        logUnexpected("ending an overdue connection or request failed", error);
      }
    }
    this.#arm();
  };
}

/** Returns the deadlines for a limit in seconds, or null if the limit is 0 or the timer has no callbacks. */
export function deadlines(seconds: number, { nowUs, after }: Timer): Deadlines | null {
  return seconds > 0 && after !== undefined ? new Deadlines(seconds * 1e6, { nowUs, after }) : null;
}
