/**
 * Continues with values that may be promises. Almost always the value is there already, and then nothing is allocated and no turn
 * of the event loop passes: a promise costs as much as a token.
 */

export type MaybePromise<T> = T | Promise<T>;

/** Up to four arguments, which the functions below pass on so that their callers need no closure. */
type Arguments = [unknown?, unknown?, unknown?, unknown?];

/** Calls `next` with the value and `rest`: now, or when the promise resolves. Rejections pass through. */
export function andThen<T, A extends Arguments, R>(
  value: MaybePromise<T>,
  next: (value: T, ...rest: A) => MaybePromise<R>,
  ...rest: A
): MaybePromise<R>;
export function andThen(
  value: unknown,
  next: (value: unknown, a: unknown, b: unknown, c: unknown, d: unknown) => unknown,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
): unknown {
  return value instanceof Promise ? value.then((resolved) => next(resolved, a, b, c, d)) : next(value, a, b, c, d);
}

/** Returns the value. If it is a promise that rejects, calls `failed` with the error and `rest` and returns the result. */
export function orElse<T, A extends [unknown?], R>(
  value: MaybePromise<T>,
  failed: (error: unknown, ...rest: A) => R,
  ...rest: A
): MaybePromise<T | R>;
export function orElse(value: unknown, failed: (error: unknown, a: unknown) => unknown, a?: unknown): unknown {
  return value instanceof Promise ? value.catch((error) => failed(error, a)) : value;
}
