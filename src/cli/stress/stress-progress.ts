/** Shows the progress of a stress run as one line on a terminal. */
import { isRed, type StressVerdict } from "../../tools/stress/verdict.ts";
import type { TerminalLine } from "../terminal-line.ts";

export class StressProgress {
  #done = 0;
  #red = 0;

  constructor(private readonly line: TerminalLine) {}

  /** Counts a finished case. `cases`: total number of cases. */
  finished(verdict: StressVerdict, cases: number): void {
    this.#done++;
    if (isRed(verdict)) this.#red++;
    this.line.show(`${this.#done} of ${cases} cases, ${this.#red} red`);
  }

  /**
   * Shows that plan number `at` of `of` failed plans is being shrunk. `runs`: number of runs that shrinking it has taken so
   * far.
   */
  shrinking(at: number, of: number, runs: number): void {
    this.line.show(`shrinking red plan ${at} of ${of}, ${runs} runs`);
  }

  clear(): void {
    this.line.clear();
  }
}
