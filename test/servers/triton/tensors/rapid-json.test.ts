/** Tests that JSON is read and written like by RapidJSON in Triton. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { doubleText } from "../../../../src/base/double-text.ts";
import { atOnce } from "../../../../src/base/pieces.ts";
import { inferBody, wholeBody } from "../../../../src/servers/triton/http/infer-answer.ts";
import { bytesOf, type Datatype, elementsOf, type Numbers } from "../../../../src/servers/triton/tensors/datatypes.ts";
import { JsonMembers, type JsonNode, Real } from "../../../../src/servers/triton/tensors/json-nodes.ts";
import { parseRapidJson } from "../../../../src/servers/triton/tensors/rapid-json.ts";
import { rapidJsonInPieces } from "../../../../src/servers/triton/tensors/rapid-json-pieces.ts";
import { elementsText, rapidText, readElements } from "../../../../src/servers/triton/tensors/tensor-json.ts";
import { times } from "../../../size.ts";

const parse = (text: string) => parseRapidJson(Buffer.from(text));

test.each([
  ["", "The document is empty. at 0"],
  ["x", "Invalid value. at 0"],
  ["-", "Invalid value. at 1"],
  ["nul", "Invalid value. at 3"],
  ['{"inputs":[}', "Invalid value. at 11"],
  ["{", "Missing a name for object member. at 1"],
  ['{"a" 1}', "Missing a colon after a name of object member. at 5"],
  ['{"a":1 "b"', "Missing a comma or '}' after an object member. at 7"],
  ["[1 2]", "Missing a comma or ']' after an array element. at 3"],
  ['"abc', "Missing a closing quotation mark in string. at 4"],
  ['"a\nb"', "Invalid escape character in string. at 2"],
  ['"\\q"', "Invalid escape character in string. at 1"],
  ['"\\u12g4"', "Incorrect hex digit after \\u escape in string. at 1"],
  ['"\\ud800x"', "The surrogate pair in string is invalid. at 1"],
  ["1.", "Miss fraction part in number. at 2"],
  ["1e", "Miss exponent in number. at 2"],
  ["1e999", "Number too big to be stored in double. at 0"],
  ["{} x", "The document root must not be followed by other values. at 3"],
])("%p: %s", (text, why) => {
  expect(() => parse(text)).toThrow(why);
});

test("integers of 64 bits are told apart from other numbers, and NaN and Inf are read", () => {
  expect(parse("[1,-0,18446744073709551615,18446744073709551616,1.0,1e2,NaN,-Inf,Infinity]")).toEqual([
    1,
    0,
    18446744073709551615n,
    new Real(18446744073709552000),
    new Real(1),
    new Real(100),
    new Real(Number.NaN),
    new Real(-Infinity),
    new Real(Infinity),
  ]);
});

test("repeated members are kept, and strings are bytes", () => {
  const read = parse('{"a":1,"a":"é\\u00e9\\ud83d\\ude00"}') as JsonMembers;
  const bytes = Buffer.from("éé😀").toString("latin1");
  expect(read.members).toEqual([
    ["a", 1],
    ["a", bytes],
  ]);
  expect(read.get("a")).toBe(1);
});

/** Returns the number with as many digits as all parsers read equally. */
const shorter = (value: number) =>
  Number.isSafeInteger(value) ? value : Math.abs(value) < 1e-300 ? 0 : Number(value.toPrecision(12));

/** Returns the node as JavaScript's parser returns it. */
function plainOf(node: JsonNode): unknown {
  if (typeof node === "string") return Buffer.from(node, "latin1").toString();
  if (node instanceof Real) return shorter(node.value);
  if (node instanceof JsonMembers)
    return Object.fromEntries(node.members.map(([name, one]) => [plainOf(name), plainOf(one)]));
  return Array.isArray(node) ? node.map(plainOf) : typeof node === "bigint" ? shorter(Number(node)) : node;
}

test("JSON written by JavaScript is read back unchanged", () => {
  const value = fc.jsonValue().filter((one) => !JSON.stringify(one).includes("__proto__"));
  fc.assert(
    fc.property(value, (one) => {
      const text = JSON.stringify(one);
      expect(plainOf(parse(text))).toEqual(
        JSON.parse(Buffer.from(text).toString(), (_, one) => (typeof one === "number" ? shorter(one) : one)),
      );
    }),
    { numRuns: times(500) },
  );
});

test("tensors written as JSON are read back unchanged", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.double({ noNaN: true }), (text, number) => {
      const bytes = Buffer.from(text).toString("latin1");
      expect(parse(Buffer.from(rapidText(bytes), "latin1").toString())).toBe(bytes);
      expect(Number(doubleText(number))).toBe(number);
      const read = (parse(doubleText(number)) as Real).value;
      expect(read === number || Math.abs(read / number - 1) < 1e-14 || Math.abs(number) < 1e-307).toBe(true);
    }),
    { numRuns: times(500) },
  );
  expect([1, 0.1, 1e30, 1e-7, 1.5e300, -0].map(doubleText)).toEqual(["1.0", "0.1", "1e30", "1e-7", "1.5e300", "-0.0"]);
  expect(rapidText('a"\\\n\u001f/')).toBe('"a\\"\\\\\\n\\u001F/"');
});

test("numbers of many digits are written and read like by a real 2.51, one place off the nearest number", () => {
  const written = [0.1, 0.3, 1e21, 1e22, 0.000001, 3.4e38, 16777217, 3.5].map((one) => doubleText(Math.fround(one)));
  expect(written.join(" ")).toBe(
    "0.10000000149011612 0.30000001192092898 1.0000000200408774e21 9.999999778196309e21 9.999999974752428e-7 3.3999999521443644e38 16777216.0 3.5",
  );
  const wide = [2 ** 64, 0.3, 0.30000000000000004, 5e-324, 1.7976931348623157e308, -1e21, 123456789012345680].map(
    doubleText,
  );
  expect(wide.join(" ")).toBe(
    "18446744073709553000.0 0.3 0.30000000000000007 5e-324 1.7976931348623157e308 -1e21 123456789012345680.0",
  );
});

test("short and long numbers are read correctly", () => {
  const read = (text: string) => (parse(text) as Real).value;
  fc.assert(
    fc.property(fc.integer({ min: -99_999, max: 99_999 }), fc.integer({ min: 1, max: 9999 }), (whole, fraction) => {
      const text = `${whole}.${fraction}`;
      expect(read(text)).toBe(Number(text));
      expect(read(`${text}e0`)).toBe(Number(text));
      expect(read(`${text}${"0".repeat(12)}`)).toBeCloseTo(Number(text), 9);
    }),
    { numRuns: times(200) },
  );
  expect([read("1e-400"), read("1e308"), read("0.0000000000000000000001")]).toEqual([0, 1e308, 1e-22]);
});

test("a byte order mark is skipped, also by the parser in pieces", () => {
  const marked = Buffer.from('\ufeff{"a":x}');
  expect(parseRapidJson(Buffer.from("\ufeff[1]"))).toEqual([1]);
  expect(() => parseRapidJson(marked)).toThrow("Invalid value. at 8");
  expect(() => [...rapidJsonInPieces(marked)]).toThrow("Invalid value. at 8");
});

const WHOLE = { INT8: 8, UINT8: 8, INT16: 16, UINT16: 16, INT32: 32, UINT32: 32, INT64: 64, UINT64: 64 } as const;
const wholeNumbers = fc.constantFrom(...(Object.keys(WHOLE) as (keyof typeof WHOLE)[])).chain((datatype) => {
  const [bits, signed] = [BigInt(WHOLE[datatype]), datatype.startsWith("INT")];
  const [min, max] = signed ? [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] : [0n, 2n ** bits - 1n];
  const number = fc.oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max, 0n, 9n, 10n, 99n, 100n));
  // The longest lists are written in several pieces.
  const numbers = fc.oneof(fc.array(number, { maxLength: 80 }), fc.array(number, { minLength: 1500, maxLength: 1600 }));
  return fc.tuple(fc.constant(datatype), numbers);
});

test("integers are written exactly and read back", () => {
  fc.assert(
    fc.property(wholeNumbers, ([datatype, numbers]) => {
      const text = numbers.join(",");
      const read = readElements("x", parse(`[${text}]`), datatype, numbers.length, "missing");
      const data = read instanceof Uint8Array ? read : atOnce(read);
      expect(elementsText({ name: "x", datatype, data })).toBe(text);
      expect(Array.from(elementsOf(datatype, data) as Int32Array, String)).toEqual(numbers.map(String));
    }),
    { numRuns: times(100) },
  );
});

test("an output with a new shape or type is not written from the cache of the old one", () => {
  const wish = {
    fields: { id: "", inputs: [], outputs: [], parameters: [], priority: 0, timeoutUs: 0 },
    outputs: new Map(),
    otherwise: { kind: "json", classes: 0, put: null } as const,
  };
  const said = (datatype: Exclude<Datatype, "BYTES">, shape: number[], numbers: Numbers) => {
    const outputs = [{ name: "OUT", datatype, shape, data: bytesOf(datatype, numbers) }];
    const config = { name: "m", version_policy: {} };
    const model = { name: "m", version: 1, config, labels: new Map() };
    return wholeBody(atOnce(inferBody({ outputs, parameters: [] }, model, wish)));
  };
  const of = (datatype: string, shape: string, data: string) =>
    `{"model_name":"m","model_version":"1","outputs":[{"name":"OUT","datatype":"${datatype}","shape":[${shape}],"data":[${data}]}]}`;
  expect(said("INT32", [2], Int32Array.of(1, -2))).toBe(of("INT32", "2", "1,-2"));
  expect(said("INT32", [1, 2], Int32Array.of(1, -2))).toBe(of("INT32", "1,2", "1,-2"));
  expect(said("UINT32", [1, 2], Uint32Array.of(1, 2 ** 32 - 1))).toBe(of("UINT32", "1,2", "1,4294967295"));
  expect(said("UINT32", [2, 1], Uint32Array.of(1, 2))).toBe(of("UINT32", "2,1", "1,2"));
  expect(said("UINT32", [2], Uint32Array.of(1, 2))).toBe(of("UINT32", "2", "1,2"));
});
