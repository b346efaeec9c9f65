/** Tests the helpers that return an error, or undefined, where others throw. */
import { expect, test } from "bun:test";
import { jsonObjectIn, parsedJson } from "../../src/base/json-object.ts";
import { resultOrError } from "../../src/base/result-or-error.ts";

class KnownError extends Error {}

test("errors of the class are returned, and others thrown", () => {
  const expected = new KnownError("expected");
  const throwing = (error: Error) => () => {
    throw error;
  };
  expect(resultOrError(KnownError, () => 7)).toBe(7);
  expect(resultOrError(KnownError, throwing(expected))).toBe(expected);
  expect(() => resultOrError(KnownError, throwing(new Error("other")))).toThrow("other");
});

test("text that is not JSON becomes undefined, and JSON that is no object becomes null if an object is wanted", () => {
  expect([parsedJson("null"), parsedJson('"a"'), parsedJson("{")]).toEqual([null, "a", undefined]);
  expect([jsonObjectIn("[1]"), jsonObjectIn("{"), jsonObjectIn(null), jsonObjectIn('{"a":1}')]).toEqual([
    null,
    null,
    null,
    { a: 1 },
  ]);
});
