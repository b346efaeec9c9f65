/** Tests the limits on size and nesting of constraints, and that a constraint that is too large is not read to its end. */
import { expect, test } from "bun:test";
import { constraintError } from "../../../../src/servers/openai/request/constraints.ts";
import type { PythonValue } from "../../../../src/servers/pydantic/value.ts";
import { readChat } from "../../../../src/servers/vllm/openai/read.ts";
import { LIMITS } from "../../../limits.ts";

const properties = Object.fromEntries(
  Array.from({ length: 10_000 }, (_, i) => [`p${i}`, { type: "string", description: "x".repeat(60) }]),
);
const large = { type: "object", properties };

/** Returns the milliseconds that reading a request takes, the best of some tries. */
function readingMs(fields: object): number {
  const body = new TextEncoder().encode(JSON.stringify({ messages: [{ role: "user", content: "x" }], ...fields }));
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 12; i++) {
    const from = Bun.nanoseconds();
    const read = readChat(body, "application/json", LIMITS);
    best = Math.min(best, (Bun.nanoseconds() - from) / 1e6);
    if ("error" in read) throw new Error(read.error.body);
  }
  return best;
}

test("refusing a schema of a megabyte takes about as long as reading its JSON", () => {
  const format = { type: "json_schema", json_schema: { name: "x", schema: large } };
  // A second, slow parser of the schema would take four times as long.
  expect(readingMs({ response_format: format })).toBeLessThan(2.5 * readingMs({ metadata: format }));
});

const nested = (levels: number): PythonValue => (levels === 0 ? {} : { properties: { a: nested(levels - 1) } });
const list = (count: number, item: PythonValue): PythonValue => Array.from({ length: count }, () => item);
const DEEP = /nested too deeply/;
const LONG = "understudy: the constraint has more than 262144 characters";

test.each<[string, PythonValue, string | RegExp | null]>([
  ["64 levels", { a: nested(31) }, null],
  ["66 levels", { a: nested(32) }, DEEP],
  ["64 levels as a text", JSON.stringify({ a: nested(31) }), null],
  ["66 levels as a text", JSON.stringify({ a: nested(32) }), DEEP],
  ["a text at the limit", `"${"x".repeat(262_142)}"`, null],
  ["a text above the limit", `"${"x".repeat(262_143)}"`, LONG],
  ["many small values", { enum: list(100_000, 1) }, LONG],
  ["long names", { properties: Object.fromEntries([["x".repeat(300_000), {}]]) }, LONG],
  ["a map of Python's", new Map<string, PythonValue>([["enum", list(50_000, "abc")]]), LONG],
  ["a list below the limit", { enum: list(30_000, "abc") }, null],
])("%s", (_, json, error) => {
  const message = constraintError(new Map([["json", json]]));
  if (error instanceof RegExp) expect(message).toMatch(error);
  else expect(message).toBe(error);
});

test("a list of choices has the same limit", () => {
  const errorOf = (count: number) => constraintError(new Map([["choice", list(count, "abcde")]]));
  expect([errorOf(30_000), errorOf(40_000)]).toEqual([null, LONG]);
});
