/** Lets work on another thread pause while a step of the event loop is due, so that the loop gets the processor core. */
import { epochMs } from "../clock.ts";

/**
 * The work pauses from `BEFORE_MS` before the step until `BEHIND_MS` after it. If all cores are busy, the system would
 * otherwise let the thread run for a millisecond while the loop waits.
 */
const BEFORE_MS = 0.1;
const BEHIND_MS = 0.2;

/** Returns the due time of a step in milliseconds since 1970, which all threads share. `leftUs`: microseconds until it is due. */
export const restDueMs = (leftUs: number): number => epochMs() + leftUs / 1000;

/**
 * Pauses a thread for the step that is due when the work begins. The thread calls `look` between pieces of its work, and pauses
 * once at most, because later steps are unknown to it.
 */
export class StepRest {
  readonly #dueMs: number;
  readonly #wait: (ms: number) => void;
  readonly #nowMs: () => number;
  #rested = false;

  /** `dueMs`: as returned by `restDueMs`; Infinity: no step is due. */
  constructor(dueMs: number, wait: (ms: number) => void, nowMs = epochMs) {
    this.#dueMs = dueMs;
    this.#wait = wait;
    this.#nowMs = nowMs;
  }

  look(): void {
    if (this.#rested) return;
    const nowMs = this.#nowMs();
    if (nowMs < this.#dueMs - BEFORE_MS) return;
    this.#rested = true;
    // The event loop has run the step by now, so that there is nothing to wait for.
    if (nowMs > this.#dueMs + BEHIND_MS) return;
    this.#wait(Math.max(0, this.#dueMs - nowMs) + BEHIND_MS);
  }
}
