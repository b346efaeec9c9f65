/**
 * Lets long work on another thread pause for the steps of streams if both share a processor. The kernel lets a running
 * thread continue for milliseconds at any priority (Linux 6.18, EEVDF: a slice of up to 2.8 ms). The work therefore checks when
 * the loop is due, and sleeps from shortly before until the loop sets its next due time, which it does after writing the step.
 */
import { epochUsOf, wallUs } from "../clock.ts";

/** Time before the due time at which work pauses. The loop is woken 0.2 ms before. */
const AHEAD_MS = 0.5;
/** A loop whose due time is further in the past is idle. */
const PAST_MS = 50;
/** Longest pause. Then WORK_MS of work is done, so that a busy loop does not stop the work for good. */
const WAIT_MS = 25;
const WORK_MS = 2;

/** The part of `DueTime` that is used. */
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

  /** Pauses if a step is due. Call it between pieces of work that are much shorter than half a millisecond. */
  readonly pass = (): void => {
    const nowMs = this.nowMs();
    const leftMs = this.due.ms - nowMs;
    if (leftMs > AHEAD_MS || leftMs < -PAST_MS || nowMs < this.#worksUntilMs) return;
    // Read before the due time is checked again, so that no order in between is missed.
    const seen = this.due.turn;
    if (this.due.ms - nowMs !== leftMs) return;
    if (!this.due.wait(seen, WAIT_MS)) this.#worksUntilMs = this.nowMs() + WORK_MS;
  };
}
