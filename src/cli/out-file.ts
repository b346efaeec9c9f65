/** Where does a result go? A file that is opened before the work, so that nobody waits for what cannot be written. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { TraceError } from "../traces/trace.ts";

export class OutFile {
  readonly #path: string;
  readonly #fd: number;

  /** Empties the file. This and the others throw a TraceError where it cannot be written. */
  constructor(path: string) {
    this.#path = path;
    this.#fd = this.#tried(() => openSync(path, "w"));
  }

  write(text: string): void {
    this.#tried(() => writeFileSync(this.#fd, text));
  }

  /** Writes the rest and closes. */
  end(text: string): void {
    this.write(text);
    this.#tried(() => closeSync(this.#fd));
  }

  #tried<T>(act: () => T): T {
    try {
      return act();
    } catch (failure) {
      throw new TraceError(`cannot write "${this.#path}" (${(failure as { code?: string }).code ?? failure})`);
    }
  }
}
