/**
 * How much work may one constraint be? Schemas and expressions may ask for more than can be done: references that double at
 * each level, repetitions of repetitions. Steps are counted, not time: the same constraint is taken or refused everywhere.
 */

/** Some tenths of a second; an ordinary schema takes some thousands. */
export const STEPS_MOST = 2_000_000;

/** Thrown when a constraint takes more than `STEPS_MOST` steps. */
export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";

  constructor() {
    super(`it takes more than ${STEPS_MOST} steps`);
  }
}

/** The thread's stack was at its end. */
export function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("call stack");
}

let left = STEPS_MOST;

/** Another text, or another constraint, begins. */
export function beginWork(): void {
  left = STEPS_MOST;
}

/** Throws `TooMuchWork`. */
export function spend(steps = 1): void {
  left -= steps;
  if (left < 0) throw new TooMuchWork();
}

/** Steps since the beginning; for tests and measurements. */
export function spent(): number {
  return STEPS_MOST - left;
}
