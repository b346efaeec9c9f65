/** Who looks into late steps? Finds the cause of each, and has a line written about them now and then. */
import type { Clock } from "../clock.ts";
import { Causes, type Host } from "./causes.ts";
import { LateLog } from "./late-log.ts";
import type { LateWatch } from "./loop.ts";

export interface PunctualityOptions {
  readonly clock: Clock;
  /** Of the loop's thread; null: nothing is known of it. */
  readonly host: Host | null;
  /** Steps that gave tokens so far. */
  readonly steps: () => number;
  /** Null: no line is written. */
  readonly log: ((line: string) => void) | null;
}

export class Punctuality implements LateWatch {
  readonly causes: Causes;
  readonly #log: LateLog | null;

  constructor({ clock, host, steps, log }: PunctualityOptions) {
    this.causes = new Causes(host);
    this.#log = log && new LateLog(clock, steps, log);
  }

  late(dueUs: number, startUs: number, rebasedUs: number): number {
    const cause = this.causes.of(dueUs, startUs);
    this.#log?.late(startUs - dueUs, rebasedUs, cause);
    return cause;
  }

  stepped(fromUs: number, untilUs: number): void {
    this.causes.stepped(fromUs, untilUs);
  }

  /** Writes what is left to say. */
  stop(): void {
    this.#log?.stop();
  }
}
