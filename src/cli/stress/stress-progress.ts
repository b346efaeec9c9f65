/** How far is the run? One line on a terminal, rewritten with each case; nothing where standard error is none. */
import { isRed, type StressVerdict } from "../../stress/verdict.ts";

export class StressProgress {
  readonly #write: (text: string) => void;
  readonly #isTerminal: boolean;
  #done = 0;
  #red = 0;
  #shown = false;

  constructor(isTerminal: boolean, write: (text: string) => void) {
    this.#isTerminal = isTerminal;
    this.#write = write;
  }

  /** A case of so many has its verdict. */
  told(verdict: StressVerdict, cases: number): void {
    this.#done++;
    if (isRed(verdict)) this.#red++;
    this.#show(`${this.#done} of ${cases} cases, ${this.#red} red`);
  }

  /** A red plan, of so many, is being shrunk. */
  shrinking(at: number, of: number, runs: number): void {
    this.#show(`shrinking red plan ${at} of ${of}, ${runs} runs`);
  }

  clear(): void {
    if (this.#shown) this.#write("\r\x1b[K");
    this.#shown = false;
  }

  #show(line: string): void {
    if (!this.#isTerminal) return;
    this.#shown = true;
    this.#write(`\r\x1b[K${line}`);
  }
}
