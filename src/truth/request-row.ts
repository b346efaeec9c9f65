/** Reads the row of a generation, as `Page.request` writes it. */
import { REQUEST_WORDS } from "./page.ts";

export type Words = Float64Array<ArrayBuffer>;

/** Index of a row's first field. */
export const FIELDS = 2;
const ENGINE = FIELDS;
const ID_WORDS = FIELDS + 15;
const PREEMPTED = FIELDS + 16;
const RUNS = FIELDS + 17;

/** Returns the label of the engine. */
export const engineOf = (row: Words): number => row[ENGINE]!;

const runsAt = (row: Words): number => FIELDS + REQUEST_WORDS - 2 + Math.ceil(row[ID_WORDS]! / 8) + row[PREEMPTED]!;

/** Returns the number of the first step that gave the request a token, or Infinity. */
export const firstStepOf = (row: Words): number => (row[RUNS]! > 0 ? row[runsAt(row)]! : Number.POSITIVE_INFINITY);

/** Calls `run` for each run of a request's row: first step, number of steps, tokens per step. */
export function eachRun(row: Words, run: (first: number, steps: number, width: number) => void): void {
  const from = runsAt(row);
  for (let at = from; at < from + row[RUNS]!; at += 3) run(row[at]!, row[at + 1]!, row[at + 2]!);
}
