/**
 * How does long work on another thread let the streams' steps pass, where both have one processor? The kernel lets whoever
 * runs go on for milliseconds, whatever its priority (Linux 6.18, EEVDF: up to a slice of 2.8 ms). So it looks now and then when
 * the loop is due, and sleeps from shortly before that until the loop says when it is due next: then the step is written.
 */
import { epochUsOf, wallUs } from "../clock.ts";

/** So long before the loop is due: it is woken 0.2 ms before. */
const AHEAD_MS = 0.5;
/** A loop that was due so long ago has nothing to do. */
const PAST_MS = 50;
/** So long at most at a time; then some work is done all the same, so that a busy loop does not stop it. */
const WAIT_MS = 25;
const WORK_MS = 2;

/** What it looks at: `DueTime`. */
export interface Due {
  readonly ms: number;
  readonly turn: number;
  wait(seen: number, ms: number): boolean;
}

export class MakingWay {
  readonly #due: Due;
  readonly #nowMs: () => number;
  #worksUntilMs = 0;

  /** `nowMs`: since 1970. */
  constructor(due: Due, nowMs: () => number = () => epochUsOf(wallUs()) / 1000) {
    this.#due = due;
    this.#nowMs = nowMs;
  }

  /** Between two pieces of work, which are short beside half a millisecond. */
  readonly pass = (): void => {
    const nowMs = this.#nowMs();
    const leftMs = this.#due.ms - nowMs;
    if (leftMs > AHEAD_MS || leftMs < -PAST_MS || nowMs < this.#worksUntilMs) return;
    // Read before the time is looked at again: an order in between is not missed.
    const seen = this.#due.turn;
    if (this.#due.ms - nowMs !== leftMs) return;
    if (!this.#due.wait(seen, WAIT_MS)) this.#worksUntilMs = this.#nowMs() + WORK_MS;
  };
}
