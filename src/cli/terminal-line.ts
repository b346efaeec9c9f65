/** Rewrites one line of a terminal and clears it at the end. Writes nothing if standard error is not a terminal. */
import { printable } from "../base/printable.ts";

export class TerminalLine {
  #shown = false;

  constructor(
    readonly isTerminal = process.stderr.isTTY === true,
    private readonly write: (text: string) => void = (text) => process.stderr.write(text),
  ) {}

  /** Replaces the text of the line. Escapes control characters. */
  show(line: string): void {
    if (!this.isTerminal) return;
    this.#shown = true;
    this.write(`\r\x1b[K${printable(line)}`);
  }

  clear(): void {
    if (this.#shown) this.write("\r\x1b[K");
    this.#shown = false;
  }
}
