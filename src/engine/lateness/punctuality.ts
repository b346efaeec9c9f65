/** Who looks into late steps? Finds the cause of each, and has a line written about them now and then. */
import type { Clock } from "../../base/clock.ts";
import { Causes, type ProcessorTimes } from "./causes.ts";
import { LateLog } from "./late-log.ts";
import type { EndingStep, LoopObserver } from "./loop-observer.ts";

export interface PunctualityOptions {
  readonly clock: Clock;
  /** Processor time of the loop's thread; null: nothing is known of it. */
  readonly host: ProcessorTimes | null;
  /** Steps that gave tokens so far. */
  readonly steps: () => number;
  /** Null: no line is written. */
  readonly log: ((line: string) => void) | null;
}

export class Punctuality implements LoopObserver {
  readonly causes: Causes;
  readonly #log: LateLog | null;

  constructor({ clock, host, steps, log }: PunctualityOptions) {
    this.causes = new Causes(host);
    this.#log = log && new LateLog(clock, steps, log);
  }

  started(step: EndingStep): void {
    if (!step.isLate) return;
    const { plannedUs, startUs, rebasedUs } = step;
    step.cause = this.causes.of(plannedUs, startUs);
    this.#log?.late(startUs - plannedUs, rebasedUs, step.cause);
  }

  stepped({ startUs, doneUs, rows, isTimed }: EndingStep): void {
    if (isTimed && rows > 0) this.causes.stepped(startUs, doneUs);
  }

  /** Steps at once are none that a host could hold up. */
  coasted(): void {}

  /** Writes what is left to say. */
  stop(): void {
    this.#log?.stop();
  }
}
