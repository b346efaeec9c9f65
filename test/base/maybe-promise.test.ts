/** Tests `andThen` and `orElse`, which continue at once with a value, and later with a promise. */
import { expect, test } from "bun:test";
import { andThen, orElse } from "../../src/base/maybe-promise.ts";

const list = (...all: unknown[]) => all;

test("a value: the next function runs at once, with all further arguments", () => {
  expect(andThen(1, list, 2, "3", null, { five: 5 }) as unknown).toEqual([1, 2, "3", null, { five: 5 }]);
  expect(andThen(undefined, (value: undefined) => value === undefined)).toBe(true);
  expect(orElse(7, () => "failed")).toBe(7);
});

test("a promise: the next function runs when it resolves, with all further arguments", async () => {
  const calls: unknown[][] = [];
  const promise = Promise.resolve(1);
  const made = andThen(promise, (...all: unknown[]) => calls.push(all), 2, 3, 4, 5);
  expect(made).toBeInstanceOf(Promise);
  expect(calls).toEqual([]);
  await made;
  expect(calls).toEqual([[1, 2, 3, 4, 5]]);
});

test("a chain of values and promises is a promise of the last one", async () => {
  const twice = (value: number) => value * 2;
  const twiceLater = async (value: number) => value * 2;
  expect(andThen(andThen(3, twice), twice)).toBe(12);
  expect(await andThen(andThen(andThen(3, twice), twiceLater), twice)).toBe(24);
});

test("andThen throws synchronous errors, and a rejection passes through to orElse", async () => {
  const fails = () => {
    throw new Error("now");
  };
  expect(() => andThen(1, fails)).toThrow("now");
  const describeError = (error: unknown, where: string) => `${(error as Error).message} ${where}`;
  expect(await orElse(andThen(Promise.resolve(1), fails), describeError, "later")).toBe("now later");
  expect(await orElse(andThen(Promise.reject(new Error("no")), list), describeError, "body")).toBe("no body");
  expect(await orElse(Promise.resolve(8), describeError, "never")).toBe(8);
});
