/** How does a thread beside the loop leave it the core when a step is due? */
import { epochMs } from "../clock.ts";

/**
 * Work that is not done when the next step is due rests from just before it until just behind it: on a machine whose cores
 * are all busy the system would let the thread go on for a millisecond while the loop wants its core.
 */
const BEFORE_MS = 0.1;
const BEHIND_MS = 0.2;

/** Milliseconds since 1970 of a step that is due in so many microseconds: threads have that time in common. */
export const restDueMs = (leftUs: number): number => epochMs() + leftUs / 1000;

/** Where a thread may leave its work: `look` waits where the step is about to be due, once: of later steps it knows nothing. */
export class StepRest {
  readonly #dueMs: number;
  readonly #wait: (ms: number) => void;
  readonly #nowMs: () => number;
  #rested = false;

  /** `dueMs` as `restDueMs` gives it; Infinity: no step is due. */
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
    // The loop has taken it meanwhile.
    if (nowMs > this.#dueMs + BEHIND_MS) return;
    this.#wait(Math.max(0, this.#dueMs - nowMs) + BEHIND_MS);
  }
}
