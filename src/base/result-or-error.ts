/** Returns the result of `run`, or the error of this class that it throws. Other errors are thrown. */
export function resultOrError<T, E extends Error>(kind: new (...values: never[]) => E, run: () => T): T | E {
  try {
    return run();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
}
