/** When was each step due, and when was it written? A file of doubles (due, start, end; microseconds) for measuring tools. */
import { writeFileSync } from "node:fs";

/** Steps kept; later ones are not. */
const LIMIT = 2_000_000;

export class StepLog {
  readonly #rows: number[] = [];

  constructor(readonly file: string) {}

  readonly add = (dueUs: number, startUs: number, endUs: number): void => {
    if (this.#rows.length < LIMIT * 3) this.#rows.push(dueUs, startUs, endUs);
  };

  write(): void {
    writeFileSync(this.file, new Uint8Array(Float64Array.from(this.#rows).buffer));
  }
}
