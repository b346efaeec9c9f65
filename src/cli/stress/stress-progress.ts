/** How far is the run? One line on a terminal, rewritten with each case. */
import { isRed, type StressVerdict } from "../../tools/stress/verdict.ts";
import type { TerminalLine } from "../terminal-line.ts";

export class StressProgress {
  readonly #line: TerminalLine;
  #done = 0;
  #red = 0;

  constructor(line: TerminalLine) {
    this.#line = line;
  }

  /** A case of so many has its verdict. */
  told(verdict: StressVerdict, cases: number): void {
    this.#done++;
    if (isRed(verdict)) this.#red++;
    this.#line.show(`${this.#done} of ${cases} cases, ${this.#red} red`);
  }

  /** A red plan, of so many, is being shrunk. */
  shrinking(at: number, of: number, runs: number): void {
    this.#line.show(`shrinking red plan ${at} of ${of}, ${runs} runs`);
  }

  clear(): void {
    this.#line.clear();
  }
}
