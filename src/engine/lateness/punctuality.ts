/** Observes late steps: finds the cause of each and writes log lines about them. */
import type { Clock } from "../../base/clock.ts";
import { Causes, type ProcessorTimes } from "./causes.ts";
import { LateLog } from "./late-log.ts";
import type { EndingStep, LoopObserver } from "./loop-observer.ts";

export interface PunctualityOptions {
  readonly clock: Clock;
  /** Processor times. null if they are unknown. */
  readonly host: ProcessorTimes | null;
  /** Returns the number of steps with tokens so far. */
  readonly steps: () => number;
  /** Writes a line of the log about late steps. Null if late steps are not logged. */
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

  /** Steps in simulated time cannot be delayed by a host. */
  coasted(): void {}

  /** Writes the last line. */
  stop(): void {
    this.#log?.stop();
  }
}
