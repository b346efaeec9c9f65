/**
 * Tests that answers other than inference, which are written by the table of fields, equal the library's bytes, and that long
 * fields are written in pieces.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { serviceMessages } from "../../../../src/servers/triton/grpc/fields.ts";
import { type MessageJson, messageParts } from "../../../../src/servers/triton/grpc/message-parts.ts";
import { type ConfigField, enums, messages } from "../../../../src/servers/triton/model-config/schema.ts";
import { decoded, encoded } from "../../../triton/grpc-client.ts";

const all = new Map([...messages, ...serviceMessages]);
const ANSWERS = [...serviceMessages.keys()].filter((name) => name.endsWith("Response") && !name.includes("Infer"));
const DEPTH_MOST = 4;
/** Returns the message without the five bytes that are reserved for its head. */
const written = (name: string, json: MessageJson) => Buffer.concat(atOnce(messageParts(name, json))).subarray(5);

const WHOLE: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  int32: fc.integer(),
  uint32: fc.nat(2 ** 32 - 1),
  int64: fc.maxSafeInteger(),
  uint64: fc.oneof(fc.maxSafeNat(), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String)),
};
const SCALARS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  ...WHOLE,
  string: fc.string({ unit: "grapheme" }),
  bool: fc.boolean(),
  double: fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => one + 0),
  float: fc.float({ noNaN: true, noDefaultInfinity: true }).map((one) => one + 0),
};
const keyOf = (type: string) => (type === "string" ? SCALARS.string! : WHOLE[type]!).map(String);

function oneOf({ type }: ConfigField, depth: number): fc.Arbitrary<unknown> {
  const names = enums.get(type);
  if (names !== undefined) return fc.constantFrom(...names);
  return SCALARS[type] ?? messageOf(type, depth + 1);
}

/** Generates a message. Only the last field of a choice is kept, because no answer has more than one. */
function messageOf(type: string, depth = 0): fc.Arbitrary<MessageJson> {
  if (depth > DEPTH_MOST) return fc.constant({});
  const fields = all.get(type)!;
  const model = Object.fromEntries(
    fields.map((field) => {
      const value = oneOf(field, depth);
      if (field.keys !== null) return [field.name, fc.dictionary(keyOf(field.keys), value, { maxKeys: 3 })];
      return [field.name, field.repeated ? fc.array(value, { maxLength: 3 }) : value];
    }),
  );
  return fc.record(model, { requiredKeys: [] }).map((made) => {
    const choices = new Map(fields.filter(({ name }) => name in made).map(({ choice, name }) => [choice, name]));
    return Object.fromEntries(
      Object.entries(made).filter(([name]) => {
        const { choice } = fields.find((one) => one.name === name)!;
        return choice === null || choices.get(choice) === name;
      }),
    );
  });
}

test.each(ANSWERS)("%s is written byte for byte like by the library", (name) => {
  fc.assert(
    fc.property(messageOf(name), (json) => {
      expect(written(name, json).toString("hex")).toBe(encoded(name, json).toString("hex"));
    }),
    { numRuns: 60 },
  );
});

const COUNT = 20_000;
const range = <T>(of: (at: number) => T, count = COUNT): T[] => Array.from({ length: count }, (_, at) => of(at));
const LONG: readonly (readonly [string, MessageJson])[] = [
  ["ModelConfigResponse", { config: { name: "m", parameters: Object.fromEntries(range((at) => [`k${at}`, {}])) } }],
  ["ModelConfigResponse", { config: { input: range((at) => ({ name: `x${at}`, dims: [-1, at] })) } }],
  ["ModelConfigResponse", { config: { input: [{ name: "x", dims: range((at) => at) }] } }],
  ["ModelMetadataResponse", { name: "m", inputs: range((at) => ({ name: `x${at}`, shape: ["-1"] })) }],
  ["RepositoryIndexResponse", { models: range((at) => ({ name: `m${at}`, state: "READY" })) }],
];

test.each(LONG)("a long %s is written in parts, with stops and with the same bytes", (name, json) => {
  let stops = 0;
  const work = messageParts(name, json);
  for (;;) {
    const { done, value } = work.next();
    if (!done) stops++;
    else {
      const bytes = Buffer.concat(value).subarray(5);
      expect(bytes.equals(encoded(name, json))).toBe(true);
      // A nested list is one part.
      if (!JSON.stringify(json).includes('"dims":[0,')) expect(value.length).toBeGreaterThan(2);
      break;
    }
  }
  expect(stops).toBeGreaterThan(COUNT / 100);
});

test("a list may be any iterable that is read once", () => {
  const models = range((at) => ({ name: `m${at}` }), 3);
  expect(decoded("RepositoryIndexResponse", written("RepositoryIndexResponse", { models: models.values() }))).toEqual({
    models,
  });
});
