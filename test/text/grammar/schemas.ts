/** Arbitrary schemas, nested up to four levels, with the keywords that clients use. */
import fc from "fast-check";

type Schema = Record<string, unknown> | boolean;

const key = fc.constantFrom("id", "name", "city", "kind", "count", "tags", "parent", "when", "a-b", "7");
const PATTERNS = [
  "^[a-z]{3,8}$",
  "^\\d{3}-\\d{4}$",
  "[A-Z]\\w+",
  "^(red|green|blue)$",
  "^#[0-9a-fA-F]{6}$",
  "^\\S+@\\S+$",
  "a{2,5}b?",
  "^[^\\s,]+$",
];
/** Formats that both of vLLM's grammar libraries support and Ajv checks. */
const FORMATS = ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

const text = fc.oneof(
  fc
    .record({ minLength: fc.nat(12), more: fc.nat(12) })
    .map(({ minLength, more }) => ({ type: "string", minLength, maxLength: minLength + more })),
  fc.constantFrom(...PATTERNS).map((pattern) => ({ type: "string", pattern })),
  fc.constantFrom(...FORMATS).map((format) => ({ type: "string", format })),
  fc.constant({ type: "string" }),
);
const bounds = fc.record({ minimum: fc.integer({ min: -1000, max: 1000 }), width: fc.integer({ min: 2, max: 500 }) });
const numeric = fc
  .tuple(fc.constantFrom("integer", "number"), bounds, fc.nat(3))
  .map(([type, { minimum, width }, kind]) => {
    if (kind === 0) return { type };
    if (kind === 1) return { type, exclusiveMinimum: minimum, exclusiveMaximum: minimum + width };
    if (kind === 2) return { type, multipleOf: type === "integer" ? 3 : 0.5, minimum, maximum: minimum + width + 3 };
    return { type, minimum, maximum: minimum + width };
  });
const plain = fc.oneof(
  text,
  numeric,
  fc.constantFrom<Schema>(
    { type: "boolean" },
    { type: "null" },
    { type: ["string", "null"] },
    { type: ["integer", "string"] },
  ),
  fc
    .uniqueArray(fc.oneof(fc.string({ maxLength: 6 }), fc.integer(), fc.boolean(), fc.constant(null)), {
      minLength: 1,
      maxLength: 4,
    })
    .map((list) => ({ enum: list })),
  fc.oneof(fc.string({ maxLength: 6 }), fc.integer(), fc.constant({ a: [1] })).map((value) => ({ const: value })),
);

const REFERENCES = ["#/$defs/tree", "#/$defs/pair", "#/$defs/word"];

function nested(depth: number): fc.Arbitrary<Schema> {
  if (depth === 0)
    return fc.oneof(
      { weight: 5, arbitrary: plain },
      { weight: 1, arbitrary: fc.constantFrom(...REFERENCES).map(($ref) => ({ $ref })) },
    );
  const inner = nested(depth - 1);
  const object = fc
    .record({
      properties: fc.dictionary(key, inner, { minKeys: 1, maxKeys: 5 }),
      needed: fc.array(fc.nat(4), { maxLength: 4 }),
      closed: fc.constantFrom<unknown>(false, false, true, undefined, { type: "integer" }),
    })
    .map(({ properties, needed, closed }) => {
      const keys = Object.keys(properties);
      const required = [...new Set(needed.map((at) => keys[at % keys.length]!))];
      return {
        type: "object",
        properties,
        required,
        ...(closed === undefined ? {} : { additionalProperties: closed }),
      };
    });
  const array = fc
    .record({ items: inner, minItems: fc.nat(3), more: fc.option(fc.nat(3), { nil: undefined }) })
    .map(({ items, minItems, more }) => ({
      type: "array",
      items,
      minItems,
      ...(more === undefined ? {} : { maxItems: minItems + more }),
    }));
  const union = fc.array(inner, { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf }));
  const joined = fc
    .tuple(
      fc.dictionary(key, inner, { maxKeys: 2 }),
      fc.dictionary(fc.constantFrom("x", "y", "z"), inner, { minKeys: 1, maxKeys: 2 }),
    )
    .map(([properties, more]) => ({
      allOf: [
        { type: "object", properties },
        { type: "object", properties: more, required: Object.keys(more) },
      ],
    }));
  return fc.oneof(
    { weight: 5, arbitrary: object },
    { weight: 3, arbitrary: array },
    { weight: 2, arbitrary: union },
    { weight: 1, arbitrary: joined },
    { weight: 2, arbitrary: plain },
  );
}

const DEFS = {
  tree: {
    type: "object",
    properties: { value: { type: "integer" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } },
    required: ["value"],
    additionalProperties: false,
  },
  pair: { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }], items: false, minItems: 2 },
  word: { type: "string", pattern: "^[a-z]+$" },
};

/** Schemas as clients send them: the outermost is of an object. */
export const schemas: fc.Arbitrary<Record<string, unknown>> = fc
  .dictionary(key, nested(3), { minKeys: 1, maxKeys: 5 })
  .chain((properties) =>
    fc.subarray(Object.keys(properties)).map((required) => ({
      type: "object",
      properties,
      required,
      additionalProperties: false,
      $defs: DEFS,
    })),
  );
