/**
 * Lets many callers sleep with one shared alarm. Sleepers whose time has come when it rings continue in the same turn, so that
 * their output is sent together.
 */
import type { Clock } from "../clock.ts";

/**
 * Most sleepers that continue in one turn of the event loop. The others continue in the next turn, so that other callbacks can
 * run between.
 */
const WOKEN_MOST = 64;

interface Nap {
  readonly dueUs: number;
  readonly wake: () => void;
}

export class Naps {
  /** Sleepers in order of their due times. */
  readonly #waiting: Nap[] = [];
  #armedUs = Number.POSITIVE_INFINITY;
  #disarm = () => {};

  constructor(private readonly clock: Pick<Clock, "now" | "at">) {}

  sleep(ms: number): Promise<void> {
    // NaN, negative and infinite times count as 0, as with timers of JavaScript.
    const dueUs = this.clock.now() + (ms > 0 && ms < Number.POSITIVE_INFINITY ? ms * 1000 : 0);
    return new Promise((wake) => {
      let at = this.#waiting.length;
      while (at > 0 && this.#waiting[at - 1]!.dueUs > dueUs) at--;
      if (at === this.#waiting.length) this.#waiting.push({ dueUs, wake });
      else this.#waiting.splice(at, 0, { dueUs, wake });
      this.#arm();
    });
  }

  #arm(): void {
    const next = this.#waiting[0];
    if (next === undefined || next.dueUs >= this.#armedUs) return;
    this.#disarm();
    this.#armedUs = next.dueUs;
    this.#disarm = this.clock.at(next.dueUs, this.#ring);
  }

  readonly #ring = (): void => {
    this.#armedUs = Number.POSITIVE_INFINITY;
    const nowUs = this.clock.now();
    let due = 0;
    while (due < WOKEN_MOST && due < this.#waiting.length && this.#waiting[due]!.dueUs <= nowUs) due++;
    for (const { wake } of this.#waiting.splice(0, due)) wake();
    this.#arm();
  };
}
