/** Tests the bodies of answers to /infer: short ones and those made in pieces are equal, and only ASCII text is declared ASCII. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { bodyParts, inferBody, shortBody, wholeBody } from "../../../../src/servers/triton/http/infer-answer.ts";
import type { OutputWish } from "../../../../src/servers/triton/http/infer-body.ts";
import { packNumbers, packTexts, type Tensor, toBytesText } from "../../../../src/servers/triton/tensors/datatypes.ts";
import { times } from "../../../size.ts";

/** Names and ids, of which some contain characters beyond ASCII, quotes or control characters. */
const names = fc.oneof(fc.constantFrom("OUT", "", "é", "\u{1f600}"), fc.string({ unit: "binary", maxLength: 4 }));
const integers = fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 3 });
const outputs = fc.oneof(
  fc.record({ name: names, values: integers }).map(
    ({ name, values }): Tensor => ({
      ...{ name, datatype: "INT32", shape: [values.length], data: packNumbers("INT32", values) },
    }),
  ),
  fc.record({ name: names, texts: fc.array(names, { maxLength: 2 }) }).map(
    ({ name, texts }): Tensor => ({
      ...{ name, datatype: "BYTES", shape: [texts.length], data: packTexts(texts.map(toBytesText)) },
    }),
  ),
);
const kinds = fc.constantFrom("json" as const, "binary" as const);
const answers = fc.record({
  outputs: fc.array(outputs, { maxLength: 3 }),
  parameters: fc.array(fc.tuple(names.map(toBytesText), names.map(toBytesText)), { maxLength: 1 }),
  model: names,
  id: fc.oneof(fc.constant(""), names),
  kind: kinds,
  ownKind: kinds,
});

test("any short answer equals the same answer made in pieces, and is JSON that contains its names; ASCII is declared rightly", () => {
  let declared = 0;
  const check = (given: typeof answers extends fc.Arbitrary<infer T> ? T : never) => {
    const how = (kind: OutputWish["kind"]): OutputWish => ({ kind, classes: 0, put: null });
    const fields = { id: given.id, inputs: [], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
    const wish = { fields, outputs: new Map([["OUT", how(given.ownKind)]]), otherwise: how(given.kind) };
    const config = { name: given.model, version_policy: {} };
    const model = { name: given.model, version: 1, config, labels: new Map() };
    const short = shortBody(given, model, wish);
    const bytes = Buffer.concat(bodyParts(atOnce(inferBody(given, model, wish))));
    const whole = wholeBody(short);
    expect(typeof whole === "string" ? Buffer.from(whole, "latin1") : whole).toEqual(bytes);
    const json = Buffer.from(short.text, "latin1");
    expect(json.length).toBe(short.head ?? bytes.length);
    const read = JSON.parse(json.toString());
    expect([read.model_name, read.id ?? "", read.outputs.map(({ name }: Tensor) => name)]).toEqual([
      given.model,
      given.id,
      given.outputs.map(({ name }) => name),
    ]);
    if (!short.ascii) return;
    declared++;
    expect(json.every((byte) => byte < 128)).toBe(true);
  };
  fc.assert(fc.property(answers, check), { numRuns: times(500) });
  expect(declared).toBeGreaterThan(0);
});
