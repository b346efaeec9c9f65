/**
 * The computing time of one GPU, divided equally among the jobs that run at the same time, as a real GPU divides it among
 * processes: with two jobs each takes twice as long.
 */
import type { Clock } from "../../../base/clock.ts";

interface Job {
  /** Value of `#workUs` at which the job is done. */
  readonly endUs: number;
  readonly done: () => void;
}

/** Jobs that end within this time end together: the clock has whole microseconds. */
const ROUNDING_US = 1;

export class GpuTime {
  readonly #clock: Pick<Clock, "now" | "at">;
  /** Running jobs, the next to end first. */
  readonly #jobs: Job[] = [];
  /** Work that a job would have done that has run since the start, microseconds. */
  #workUs = 0;
  #sinceUs = 0;
  #disarm = () => {};

  constructor(clock: Pick<Clock, "now" | "at">) {
    this.#clock = clock;
  }

  /** Resolves when a job that takes `us` microseconds alone is done. What is no time (negative, not finite) is none, as for timers. */
  compute(us: number): Promise<void> {
    this.#advance();
    const endUs = this.#workUs + (us > 0 && us < Number.POSITIVE_INFINITY ? us : 0);
    return new Promise((done) => {
      const later = this.#jobs.findIndex((job) => job.endUs > endUs);
      this.#jobs.splice(later < 0 ? this.#jobs.length : later, 0, { endUs, done });
      this.#arm();
    });
  }

  #advance(): void {
    const nowUs = this.#clock.now();
    if (this.#jobs.length > 0) this.#workUs += (nowUs - this.#sinceUs) / this.#jobs.length;
    this.#sinceUs = nowUs;
  }

  #arm(): void {
    this.#disarm();
    const [first] = this.#jobs;
    if (first === undefined) return;
    const leftUs = Math.max(0, first.endUs - this.#workUs) * this.#jobs.length;
    this.#disarm = this.#clock.at(this.#sinceUs + leftUs, this.#ring);
  }

  readonly #ring = (): void => {
    this.#advance();
    const left = this.#jobs.findIndex(({ endUs }) => endUs >= this.#workUs + ROUNDING_US);
    for (const { done } of this.#jobs.splice(0, left < 0 ? this.#jobs.length : left)) done();
    this.#arm();
  };
}
