/**
 * Divides the computing time of one GPU equally among the jobs that run at the same time, like a real GPU among processes.
 * With two jobs, each takes twice as long.
 */
import type { Clock } from "../../../base/clock.ts";

interface GpuJob {
  /** Value of `#workUs` at which the job is done. */
  readonly endUs: number;
  readonly done: () => void;
}

/** Jobs that end within this time end together, because the clock counts whole microseconds. */
const ROUNDING_US = 1;

export class GpuTime {
  /** Running jobs, sorted by end. */
  readonly #jobs: GpuJob[] = [];
  /** Microseconds of work that a job running since the start would have received. */
  #workUs = 0;
  #sinceUs = 0;
  #disarm = () => {};

  constructor(private readonly clock: Pick<Clock, "now" | "at">) {}

  /**
   * Resolves when the job is done. `us`: its duration if it ran alone, in microseconds. Negative and infinite durations count
   * as 0, as in timers.
   */
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
    const nowUs = this.clock.now();
    if (this.#jobs.length > 0) this.#workUs += (nowUs - this.#sinceUs) / this.#jobs.length;
    this.#sinceUs = nowUs;
  }

  #arm(): void {
    this.#disarm();
    const [first] = this.#jobs;
    if (first === undefined) return;
    const leftUs = Math.max(0, first.endUs - this.#workUs) * this.#jobs.length;
    this.#disarm = this.clock.at(this.#sinceUs + leftUs, this.#ring);
  }

  readonly #ring = (): void => {
    this.#advance();
    const left = this.#jobs.findIndex(({ endUs }) => endUs >= this.#workUs + ROUNDING_US);
    for (const { done } of this.#jobs.splice(0, left < 0 ? this.#jobs.length : left)) done();
    this.#arm();
  };
}
