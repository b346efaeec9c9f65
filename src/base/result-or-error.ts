/** Returns the result of `run`, or the error that `run` throws if it is of the class `kind`. Throws other errors. */
export function resultOrError<T, E extends Error>(kind: new (...values: never[]) => E, run: () => T): T | E {
  try {
    return run();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
}
