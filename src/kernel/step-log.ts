/** Records when each step was due, when it began and when it ended. Writes a file of doubles in microseconds, for measuring tools. */
import { writeFileSync } from "node:fs";
import type { EndingStep, LoopObserver } from "../engine/lateness/loop-observer.ts";

/** Most steps that are recorded. Later ones are not. */
const LIMIT = 2_000_000;

export class StepLog implements LoopObserver {
  readonly #rows: number[] = [];

  constructor(readonly file: string) {}

  delivered({ dueUs, startUs, endUs, rows }: EndingStep): void {
    if (rows > 0 && this.#rows.length < LIMIT * 3) this.#rows.push(dueUs, startUs, endUs);
  }

  write(): void {
    writeFileSync(this.file, new Uint8Array(Float64Array.from(this.#rows).buffer));
  }
}
