/** A line on a terminal that is written again and again, and is gone at the end; nothing where standard error is none. */
export class TerminalLine {
  readonly isTerminal: boolean;
  readonly #write: (text: string) => void;
  #shown = false;

  constructor(
    isTerminal = process.stderr.isTTY === true,
    write: (text: string) => void = (text) => process.stderr.write(text),
  ) {
    this.isTerminal = isTerminal;
    this.#write = write;
  }

  show(line: string): void {
    if (!this.isTerminal) return;
    this.#shown = true;
    this.#write(`\r\x1b[K${line}`);
  }

  clear(): void {
    if (this.#shown) this.#write("\r\x1b[K");
    this.#shown = false;
  }
}
