/** Drawn values fit any schema, and every choice in it occurs. */
import { expect, test } from "bun:test";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import fc from "fast-check";
import { Draws } from "../../../src/text/grammar/draws.ts";
import { jsonText } from "../../../src/text/grammar/json-text.ts";
import { Pattern } from "../../../src/text/grammar/pattern.ts";
import type { Schema } from "../../../src/text/grammar/schema.ts";
import { parseToolHabits } from "../../../src/text/grammar/tool-habits.ts";
import { ValueDrawer } from "../../../src/text/grammar/values.ts";
import { limited } from "../../../src/text/grammar/work.ts";
import { figure, sized } from "../../size.ts";
import { schemas } from "./schemas.ts";

const SCHEMAS = sized("structured", { sample: 80, whole: 500 });
figure("schemas without a server", SCHEMAS);

const ajv = new Ajv({ strict: false });
addFormats(ajv);
const validator = (schema: object) => ajv.compile(schema);
const drawn = (schema: Schema, seed: number) => limited(() => jsonText(new ValueDrawer(schema).draw(new Draws(seed))));

test(`values of ${SCHEMAS} generated schemas fit them, and the seed decides`, () => {
  fc.assert(
    fc.property(schemas, fc.nat(), (schema, seed) => {
      const validate = validator(schema);
      const text = drawn(schema, seed);
      expect(drawn(schema, seed)).toBe(text);
      const fits = validate(JSON.parse(text));
      if (!fits) throw new Error(`${text}: ${JSON.stringify(validate.errors)}`);
    }),
    { numRuns: SCHEMAS, seed: 20261122 },
  );
}, 60_000);

const HABITS = parseToolHabits("integers=3:5,numbers=-1:1,items=2:4,optional=0.9,inner=0.1")!;
const habitual = (schema: Schema, seed: number) => limited(() => new ValueDrawer(schema, HABITS).draw(new Draws(seed)));

test("values by habits fit generated schemas", () => {
  fc.assert(
    fc.property(schemas, fc.nat(), (schema, seed) => {
      const text = jsonText(habitual(schema, seed));
      if (!validator(schema)(JSON.parse(text))) throw new Error(text);
    }),
    { numRuns: SCHEMAS / 2, seed: 20261122 },
  );
}, 60_000);

test("habits decide numbers, lengths and optional members that a schema leaves open", () => {
  const open = {
    type: "object",
    properties: {
      many: { type: "array", items: { type: "integer" } },
      real: { type: "number" },
      high: { type: "integer", minimum: 50 },
      even: { type: "integer", multipleOf: 10 },
      pair: { type: "array", items: { type: "boolean" }, maxItems: 1 },
      object: { type: "object", properties: { maybe: { type: "boolean" } } },
      sometimes: { type: "boolean" },
    },
    required: ["many", "real", "high", "even", "pair", "object"],
  };
  const found = Array.from({ length: 400 }, (_, seed) => JSON.parse(jsonText(habitual(open, seed))));
  const all = (key: string): Set<unknown> => new Set(found.map((one) => one[key]));
  expect(new Set(found.flatMap(({ many }) => many))).toEqual(new Set([3, 4, 5]));
  expect(new Set(found.map(({ many }) => many.length))).toEqual(new Set([2, 3, 4]));
  expect(found.every(({ real }) => real >= -1 && real <= 1)).toBe(true);
  expect(all("high")).toEqual(new Set([50]));
  expect([...all("even")].every((value) => (value as number) % 10 === 0)).toBe(true);
  expect(found.every(({ pair }) => pair.length === 1)).toBe(true);
  const share = (isThere: (one: Record<string, Record<string, unknown>>) => boolean) =>
    found.filter(isThere).length / 400;
  expect(share(({ sometimes }) => sometimes !== undefined)).toBeWithin(0.85, 0.95);
  expect(share(({ object }) => object!.maybe !== undefined)).toBeWithin(0.05, 0.15);
});

test.each([
  ["", undefined],
  ["integers=1:5", { integers: [1, 5] }],
  ["optional=0,another=1,numbers=-0.5:0.5", { optional: 0, another: 1, numbers: [-0.5, 0.5] }],
  ["integers=5:1", undefined],
  ["integers=0.5:1", undefined],
  ["items=-1:5", undefined],
  ["items=0:101", undefined],
  ["optional=1.5", undefined],
  ["optional=0:1", undefined],
  ["integers=1", undefined],
  ["integers=1:5,integers=1:5", undefined],
  ["colours=1:5", undefined],
])("habits written %j", (text, habits) => {
  expect(parseToolHabits(text)).toEqual(habits as never);
});

/** Schemas that structured outputs refuse and tools may have, or that only some of vLLM's libraries support. */
const OTHERS: readonly Schema[] = [
  { type: "array", items: { type: "integer", minimum: 0, maximum: 9 }, uniqueItems: true, minItems: 4 },
  { type: "array", contains: { const: "x" }, items: { type: "string" }, minContains: 2 },
  { oneOf: [{ type: "integer" }, { type: "number", minimum: 5 }] },
  { type: "integer", minimum: 0, maximum: 9, not: { enum: [1, 2, 3] } },
  { type: "object", properties: { a: { type: "string" }, b: { type: "integer" } }, dependentRequired: { a: ["b"] } },
  { type: "object", patternProperties: { "^n_": { type: "integer" } }, additionalProperties: false, minProperties: 2 },
  { type: "object", propertyNames: { pattern: "^[a-c]{2}$" }, minProperties: 3 },
  { type: "object", minProperties: 2, maxProperties: 2, properties: { a: {}, b: {}, c: {} } },
  // Parsed from text, because an object literal with a member `then` looks like a promise.
  JSON.parse(
    '{"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"],"if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"]},"else":{"required":["y"]}}',
  ),
  { type: "array", prefixItems: [{ type: "string" }, { type: "boolean" }], items: false },
  { allOf: [{ type: "number", minimum: 3 }, { maximum: 4 }] },
  {
    allOf: [
      { type: "string", pattern: "^[a-f]+$" },
      { minLength: 4, maxLength: 6 },
    ],
  },
  { type: "number", multipleOf: 0.01, minimum: 0, maximum: 1 },
  { type: "string", minLength: 300, maxLength: 300 },
  {
    $ref: "#/definitions/x",
    definitions: { x: { anyOf: [{ type: "null" }, { type: "array", items: { $ref: "#" } }] } },
  },
  { enum: [1, "a", null, { b: [2] }], type: ["string", "object"] },
  { $defs: { a: { $anchor: "here", type: "boolean" } }, $ref: "#here" },
];

test.each(OTHERS.map((schema) => [JSON.stringify(schema), schema] as const))("%s", (_, schema) => {
  const validate = validator(schema as object);
  for (let seed = 0; seed < 100; seed++) {
    const text = drawn(schema, seed);
    if (!validate(JSON.parse(text))) throw new Error(`${text}: ${JSON.stringify(validate.errors)}`);
  }
});

test("over 200 seeds each optional property, branch of a union and length from 0 to 3 occurs, also three levels deep", () => {
  const leaf = {
    type: "object",
    properties: {
      note: { type: "string" },
      list: { type: "array", items: { anyOf: [{ const: "x" }, { const: "y" }, { const: "z" }] } },
    },
  };
  const middle = {
    type: "object",
    properties: { leaf, flag: { type: "boolean" }, union: { anyOf: [{ type: "null" }, { type: "integer" }, leaf] } },
  };
  const schema: Schema = {
    type: "object",
    properties: {
      middle,
      all: { type: "array", items: middle },
      maybe: { anyOf: [{ type: "string" }, { type: "integer" }] },
    },
    additionalProperties: false,
  };
  const seen = new Set<string>();
  const look = (value: unknown, path: string): void => {
    if (Array.isArray(value)) {
      seen.add(`${path}#${value.length}`);
      for (const item of value) look(item, `${path}[]`);
    } else if (typeof value === "object" && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        seen.add(`${path}.${key}`);
        look(item, `${path}.${key}`);
      }
    } else
      seen.add(
        `${path}:${typeof value === "string" && /^[xyz]$/.test(value) ? value : value === null ? "null" : typeof value}`,
      );
  };
  for (let seed = 0; seed < 200; seed++) look(JSON.parse(drawn(schema, seed)), "");
  for (const at of [".middle", ".all[]"]) {
    for (const key of ["leaf", "flag", "union"]) expect(seen).toContain(`${at}.${key}`);
    for (const kind of ["null", "number"]) expect(seen).toContain(`${at}.union:${kind}`);
    for (const leafAt of [`${at}.leaf`, `${at}.union`]) {
      expect(seen).toContain(`${leafAt}.note`);
      for (const length of [0, 1, 2, 3]) expect(seen).toContain(`${leafAt}.list#${length}`);
      for (const letter of ["x", "y", "z"]) expect(seen).toContain(`${leafAt}.list[]:${letter}`);
    }
  }
  for (const length of [0, 1, 2, 3]) expect(seen).toContain(`.all#${length}`);
  for (const kind of ["string", "number"]) expect(seen).toContain(`.maybe:${kind}`);
});

const PATTERNS = [
  "[0-9]{2}",
  "(foo|ba[rz]){1,3}",
  "\\d{3}-\\w+",
  "[^a-y]{4}",
  "(a|b)*c?",
  "^x.*y$",
  "\\p{Lu}{2}",
  "(?:ab)?(?<n>c)+",
  "[\\w.]+@[a-z]+\\.com",
  "\\S{5}\\s\\D",
  ".{0,3}",
];

test.each(PATTERNS)("texts of %s match it as a whole", (source) => {
  const whole = new RegExp(`^(?:${source})$`, "u");
  limited(() => {
    const pattern = new Pattern(source);
    for (let seed = 0; seed < 100; seed++) expect(pattern.draw(new Draws(seed))).toMatch(whole);
  });
});

test.each([
  [{ const: { a: [1, "x y"] } }, /^\{"a":\[1,"x y"\]\}$/],
  [{ enum: [[1, 2]] }, /^\[1,2\]$/],
  [{ type: "array", items: { const: [1, 2] }, minItems: 2, maxItems: 2 }, /^\[\[1,2\], \[1,2\]\]$/],
  [{ type: "string", pattern: "^[^a]{20}$" }, /^"[^"\\]*"$/],
  [{ type: "integer", multipleOf: 3, minimum: -30, maximum: 9 }, /^[0369]$/],
  [{ type: "integer", multipleOf: 3, minimum: -30, maximum: -28 }, /^-30$/],
] as const)("%j is written in the form that the grammar libraries accept", (schema, form) => {
  for (let seed = 0; seed < 50; seed++) expect(drawn(schema as Schema, seed)).toMatch(form);
});

test("a wanted length is kept if the pattern has such texts", () =>
  limited(() => {
    const pattern = new Pattern("^[a-z]{2,}(-[a-z]{2,5})*$");
    for (let seed = 0; seed < 100; seed++) {
      const text = pattern.draw(new Draws(seed), 10, 14);
      expect(text).toMatch(/^[a-z]{2,}(-[a-z]{2,5})*$/);
      expect(text.length).toBeGreaterThanOrEqual(10);
      expect(text.length).toBeLessThanOrEqual(14);
    }
  }));

test("expressions that are slow to match are drawn at once, and too long ones are refused", () =>
  limited(() => {
    expect(new Pattern("(a+)+$").draw(new Draws(1))).toMatch(/^a+$/);
    expect(new Pattern("((a{0,9}){0,9}){0,9}").draw(new Draws(1)).length).toBeLessThanOrEqual(729);
    expect(() => new Pattern("((a{1000}){1000}){1000}")).toThrow("at most 65536");
  }));

test("a schema without an end is drawn up to the wanted length", () =>
  limited(() => {
    const values = new ValueDrawer({
      type: "object",
      properties: { a: { type: "integer" }, next: { $ref: "#" } },
      required: ["a", "next"],
    });
    expect(values.endless).toBe(true);
    const text = values.drawEndless(new Draws(1), jsonText, 500);
    expect(text).toMatch(/^(\{"a": \d+, "next": )+$/);
    expect(text.length).toBeGreaterThanOrEqual(500);
  }));
