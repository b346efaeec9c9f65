/** How does a thread beside the loop leave it the core when a step is due? */
import { wallUs } from "./clock.ts";

/**
 * Work that is not done when the next step is due rests from just before it until just behind it: on a machine whose cores
 * are all busy the system would let the thread go on for a millisecond while the loop wants its core. Microseconds.
 */
const BEFORE_US = 100;
const BEHIND_US = 200;

/** Where a thread may leave its work: `look` waits, once, where the step is about to be due. */
export class StepRest {
  readonly #dueUs: number;
  readonly #wait: (us: number) => void;
  readonly #nowUs: () => number;
  #rested = false;

  /** The step is due in `leftUs`. */
  constructor(leftUs: number, wait: (us: number) => void, nowUs = wallUs) {
    this.#wait = wait;
    this.#nowUs = nowUs;
    this.#dueUs = nowUs() + leftUs;
  }

  look(): void {
    if (this.#rested) return;
    const nowUs = this.#nowUs();
    if (nowUs < this.#dueUs - BEFORE_US) return;
    this.#rested = true;
    this.#wait(Math.max(0, this.#dueUs - nowUs) + BEHIND_US);
  }
}
