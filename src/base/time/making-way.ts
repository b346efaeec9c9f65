/**
 * Lets long work on another thread pause while the event loop runs a step, in case both threads share a processor. The kernel
 * lets a running thread continue for milliseconds at any priority (Linux 6.18, EEVDF: a slice of up to 2.8 ms). So the work
 * checks when the loop is due, and sleeps from shortly before that time. The sleep ends when the loop sets its next due time,
 * after writing the step.
 */
import { epochUsOf, wallUs } from "../clock.ts";

/** Milliseconds before the due time at which work pauses. The loop is woken 0.2 ms before its due time. */
const AHEAD_MS = 0.5;
/** A loop that is overdue by more than this many milliseconds is considered idle. */
const PAST_MS = 50;
/**
 * Longest pause in milliseconds. After such a pause, work runs for `WORK_MS` without another pause, so that a busy loop cannot
 * stop it for good.
 */
const WAIT_MS = 25;
const WORK_MS = 2;

/** The members of `DueTime` that this file uses. */
export interface Due {
  readonly ms: number;
  readonly turn: number;
  wait(seen: number, ms: number): boolean;
}

export class MakingWay {
  #worksUntilMs = 0;

  /** `nowMs` returns milliseconds since 1970. */
  constructor(
    private readonly due: Due,
    private readonly nowMs: () => number = () => epochUsOf(wallUs()) / 1000,
  ) {}

  /** Pauses if a step is due. Call this method between pieces of work that are much shorter than half a millisecond. */
  readonly pass = (): void => {
    const nowMs = this.nowMs();
    const leftMs = this.due.ms - nowMs;
    if (leftMs > AHEAD_MS || leftMs < -PAST_MS || nowMs < this.#worksUntilMs) return;
    // Read the number of orders before checking the due time again, so that no order in between is missed.
    const seen = this.due.turn;
    if (this.due.ms - nowMs !== leftMs) return;
    if (!this.due.wait(seen, WAIT_MS)) this.#worksUntilMs = this.nowMs() + WORK_MS;
  };
}
