/** When was each step due, and when was it written? A file of doubles (due, start, end; microseconds) for measuring tools. */
import { writeFileSync } from "node:fs";
import type { EndingStep, LoopObserver } from "../engine/lateness/loop-observer.ts";

/** Steps kept; later ones are not. */
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
