/**
 * Continues with a value that may be a promise. Usually the value is available at once. Then the code continues in the same
 * turn and allocates nothing, because a promise costs as much as a token.
 */

export type MaybePromise<T> = T | Promise<T>;

/** Up to four arguments, which the functions below pass on so that their callers need no closure. */
type Arguments = [unknown?, unknown?, unknown?, unknown?];

/** Calls `next` with the value and `rest`. Calls it now, or when the promise resolves. Rejections pass through. */
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
  return value instanceof Promise ? thenLater(value, next, a, b, c, d) : next(value, a, b, c, d);
}

/**
 * Calls `next` with the result of the promise and with `rest`. For hot paths, which call `next` themselves if the value is no
 * promise. They avoid `andThen`, because it is called with so many functions that the compiler inlines none of them. A function
 * that contains a closure keeps its arguments in an object from the start, so the closure is made here.
 */
export function thenLater<T, A extends Arguments, R>(
  value: Promise<T>,
  next: (value: T, ...rest: A) => MaybePromise<R>,
  ...rest: A
): Promise<R>;
export function thenLater(
  value: Promise<unknown>,
  next: (value: unknown, a: unknown, b: unknown, c: unknown, d: unknown) => unknown,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
): Promise<unknown> {
  return value.then((resolved) => next(resolved, a, b, c, d));
}

/**
 * Returns the value. If it is a promise that rejects, the returned promise has the result of `failed`, called with the error
 * and `rest`.
 */
export function orElse<T, A extends [unknown?], R>(
  value: MaybePromise<T>,
  failed: (error: unknown, ...rest: A) => R,
  ...rest: A
): MaybePromise<T | R>;
export function orElse(value: unknown, failed: (error: unknown, a: unknown) => unknown, a?: unknown): unknown {
  return value instanceof Promise ? failLater(value, failed, a) : value;
}

const failLater = (value: Promise<unknown>, failed: (error: unknown, a: unknown) => unknown, a: unknown) =>
  value.catch((error) => failed(error, a));
