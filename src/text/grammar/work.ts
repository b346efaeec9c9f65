/**
 * Limits the work for one constraint. Schemas and expressions can require endless work, for example with references that double
 * at each level. The limit is a number of steps, not a time, so that every machine refuses the same constraints.
 */

/** Most steps, which take some tenths of a second. An ordinary schema takes some thousands. */
export const STEPS_MOST = 2_000_000;

/** Thrown when a constraint takes more than `STEPS_MOST` steps. */
export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";

  constructor() {
    super(`it takes more than ${STEPS_MOST} steps`);
  }
}

/** Reports whether an error is an overflow of the thread's stack. */
export function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("call stack");
}

/** The state of the constraint that is being read or written. Its work is synchronous, so that there is one at a time. */
const constraint = { isUnderWay: false, stepsLeft: STEPS_MOST };

/** Runs the work for one constraint, with `STEPS_MOST` steps. Throws if called within the work for another constraint. */
export function limited<T>(work: () => T): T {
  if (constraint.isUnderWay) throw new Error("a constraint starts within another, and would use its steps");
  constraint.isUnderWay = true;
  constraint.stepsLeft = STEPS_MOST;
  try {
    return work();
  } finally {
    constraint.isUnderWay = false;
  }
}

/** Counts steps of the current work. Throws `TooMuchWork`, or an error outside of `limited`. */
export function spend(steps = 1): void {
  if (!constraint.isUnderWay) throw new Error("a step outside of a constraint");
  constraint.stepsLeft -= steps;
  if (constraint.stepsLeft < 0) throw new TooMuchWork();
}

/** Returns the steps that the last constraint has spent. Only tests and benches read it. */
export function spent(): number {
  return STEPS_MOST - constraint.stepsLeft;
}
