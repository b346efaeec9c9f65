/** Writes a log line about late steps, at most every ten seconds: number, lateness and causes. */
import type { Cancel, Clock } from "../../base/clock.ts";
import { CAUSE_NAMES, type Cause, LATE_US } from "./causes.ts";

/** Time from the first late step to the line that reports it and all late steps until then. */
export const LATE_LOG_US = 10_000_000;

export class LateLog {
  readonly #byCause = new Float64Array(CAUSE_NAMES.length + 1);
  #late = 0;
  #sumUs = 0;
  #mostUs = 0;
  #rebasedUs = 0;
  #sinceUs = 0;
  #stepsBefore = 0;
  #waiting: Cancel | null = null;

  constructor(
    private readonly clock: Clock,
    /** Returns the number of steps with tokens so far. */
    private readonly steps: () => number,
    private readonly log: (line: string) => void,
  ) {}

  /** Records a late step, which `steps` does not count yet. `rebasedUs`: time by which engine time was moved forward. */
  late(lateUs: number, rebasedUs: number, cause: Cause): void {
    if (this.#waiting === null) this.#begin();
    this.#late++;
    this.#sumUs += lateUs;
    this.#mostUs = Math.max(this.#mostUs, lateUs);
    this.#rebasedUs += rebasedUs;
    this.#byCause[cause]!++;
  }

  /** Writes the last line, if late steps are left. */
  stop(): void {
    if (this.#waiting === null) return;
    this.#waiting();
    this.#write();
  }

  #begin(): void {
    this.#sinceUs = this.clock.now();
    this.#stepsBefore = this.steps();
    this.#waiting = this.clock.at(this.#sinceUs + LATE_LOG_US, () => this.#write());
  }

  #write(): void {
    const steps = this.steps() - this.#stepsBefore;
    const seconds = ((this.clock.now() - this.#sinceUs) / 1e6).toFixed(1);
    const rebased =
      this.#rebasedUs > 0 ? `; engine time was moved on by ${(this.#rebasedUs / 1e6).toFixed(3)} s in all` : "";
    this.log(
      `late: ${this.#late} of ${Math.max(steps, this.#late)} steps in ${seconds} s began more than ${ms(LATE_US)} after they were due, ` +
        `${ms(this.#mostUs)} at most, ${ms(this.#sumUs / this.#late)} on average; likely causes: ${this.#causes()}${rebased}`,
    );
    this.#byCause.fill(0);
    this.#late = 0;
    this.#sumUs = 0;
    this.#mostUs = 0;
    this.#rebasedUs = 0;
    this.#waiting = null;
  }

  /** Lists the causes, the most frequent first. */
  #causes(): string {
    const counted = [...this.#byCause].flatMap((count, cause) => (count > 0 ? [{ count, cause }] : []));
    counted.sort((a, b) => b.count - a.count || a.cause - b.cause);
    return counted.map(({ count, cause }) => `${CAUSE_NAMES[cause - 1] ?? "unknown"} ${count}`).join(", ");
  }
}

function ms(us: number): string {
  return `${Number((us / 1000).toFixed(1))} ms`;
}
