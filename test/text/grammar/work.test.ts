/** Constraints that need too much work are refused, and the work for others grows in proportion to their size. */
import { expect, test } from "bun:test";
import { type Structure, writerOf } from "../../../src/text/grammar/structure.ts";
import { limited, STEPS_MOST, spend, spent } from "../../../src/text/grammar/work.ts";
import { sampled } from "../../size.ts";

const range = <T>(count: number, of: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => of(i));
const json = (schema: object): Structure => ({ kind: "json", schema: JSON.stringify(schema) });
const defs = (count: number, of: (at: number) => object) => ({
  $defs: Object.fromEntries(range(count, (i) => [`d${i}`, of(i)])),
  $ref: `#/$defs/d${count - 1}`,
});
const ref = (at: number) => ({ $ref: `#/$defs/d${at}` });
const doubling = defs(25, (i) =>
  i === 0 ? { type: "object", properties: { a: { type: "string" } } } : { allOf: [ref(i - 1), ref(i - 1)] },
);

const TOO_MUCH: readonly (readonly [string, Structure])[] = [
  ["references that double", json(doubling)],
  [
    "references in all directions",
    json(defs(40, () => ({ type: "object", required: ["a"], properties: { a: { anyOf: range(40, (i) => ref(i)) } } }))),
  ],
  [
    "thousands of schemas that must all hold",
    json({ allOf: range(4000, (i) => ({ properties: { [`p${i}`]: { type: "string" } } })) }),
  ],
  ["many long texts", json({ type: "array", minItems: 60_000, items: { type: "string", minLength: 60_000 } })],
  ["more properties than names", json({ type: "object", minProperties: 1e9 })],
  ["repetitions of repetitions of nothing", { kind: "regex", pattern: "((((a?){1000}){1000}){1000}){1000}" }],
];

test.each(sampled("structured", TOO_MUCH, 3))(
  "%s: refused after the limit of steps, without effect on the next constraint",
  (_, structure) => {
    const write = () => writerOf(structure)(1, 0);
    expect(write).toThrow("understudy: no text is drawn for this constraint: it takes more than");
    expect(spent()).toBeLessThan(STEPS_MOST * 1.1);
    expect(writerOf({ kind: "regex", pattern: "a{3}" })(1, 0)).toBe("aaa");
  },
);

test("a constraint within another, and a step outside of a constraint, are errors", () => {
  expect(() => limited(() => limited(() => 1))).toThrow("a constraint starts within another");
  expect(() => spend()).toThrow("outside of a constraint");
  expect(limited(() => 1)).toBe(1);
});

test("a tool whose arguments need too much work is called without arguments", () => {
  const call = { name: "f", parameters: JSON.stringify(doubling) };
  const plans = [{ form: "hermes" as const, text: "", spaced: false, calls: [call] }];
  expect(writerOf({ kind: "calls", plans })(1, 0)).toBe('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>');
});

test("a grammar that nests deeper than the thread's stack is refused", () => {
  const deep = 100_000;
  const grammar = `root ::= ${"(".repeat(deep)} "a" ${")".repeat(deep)}`;
  expect(() => writerOf({ kind: "grammar", grammar })(1, 0)).toThrow("understudy: no text is drawn");
});

const GROWING: readonly (readonly [string, (count: number) => Structure])[] = [
  [
    "a chain of rules, the last one first",
    (count) => ({
      kind: "grammar",
      grammar: ["root ::= r0", ...range(count, (i) => `r${i} ::= r${i + 1}`), `r${count} ::= "a"`].join("\n"),
    }),
  ],
  ["consecutive unlimited repetitions", (count) => ({ kind: "regex", pattern: "a*".repeat(count) })],
  [
    "a choice among many",
    (count) => ({ kind: "grammar", grammar: `root ::= ${range(count, (i) => `"${i}"`).join("|")}` }),
  ],
  [
    "optional properties, of which one is allowed",
    (count) =>
      json({
        type: "object",
        maxProperties: 1,
        properties: Object.fromEntries(range(count, (i) => [`p${i}`, { type: "string" }])),
      }),
  ],
  ["an enumeration with a type", (count) => json({ type: "string", enum: range(count, (i) => `v${i}`) })],
];

test.each(GROWING)("%s: four times the size takes about four times as long", (_, of) => {
  const took = (count: number) => {
    const structure = of(count);
    const times = range(5, () => {
      const from = Bun.nanoseconds();
      writerOf(structure)(1, 0);
      return Bun.nanoseconds() - from;
    });
    return { ns: Math.min(...times), steps: spent() };
  };
  took(2000);
  let [once, more] = [took(2000), took(8000)];
  // Quadratic work takes sixteen times as long in every round. Other work on the machine disturbs only some rounds.
  for (let rounds = 1; rounds < 5 && more.ns / once.ns >= 12; rounds++) [once, more] = [took(2000), took(8000)];
  expect(more.ns / once.ns).toBeLessThan(12);
  expect(more.steps).toBeLessThan(8 * (once.steps + 100));
});
