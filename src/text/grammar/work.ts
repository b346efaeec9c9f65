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

/** The constraint that is being read or written. Nothing in it waits, so that there is one at a time. */
const constraint = { isUnderWay: false, stepsLeft: STEPS_MOST };

/** Runs the work for one constraint, with `STEPS_MOST` steps. Throws an error inside the work for another constraint. */
export function limited<T>(work: () => T): T {
  if (constraint.isUnderWay) throw new Error("a constraint begins within another, whose steps it would take");
  constraint.isUnderWay = true;
  constraint.stepsLeft = STEPS_MOST;
  try {
    return work();
  } finally {
    constraint.isUnderWay = false;
  }
}

/** Counts steps of the work under way. Throws `TooMuchWork`. */
export function spend(steps = 1): void {
  if (!constraint.isUnderWay) throw new Error("a step outside of every constraint");
  constraint.stepsLeft -= steps;
  if (constraint.stepsLeft < 0) throw new TooMuchWork();
}

/** Returns the steps that the last constraint has spent. Only tests and benches read it. */
export function spent(): number {
  return STEPS_MOST - constraint.stepsLeft;
}
