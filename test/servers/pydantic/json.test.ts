/** Our JSON parser reads, fails and prints like CPython. The tables were made by CPython 3.11. */

import { describe, expect, test } from "bun:test";
import { MAX_DEPTH, PythonJsonError, PythonJsonFailure, parsePython } from "../../../src/servers/pydantic/json.ts";
import { decodeBody, tooDeep } from "../../../src/servers/pydantic/read-body.ts";
import { repr } from "../../../src/servers/pydantic/repr.ts";
import { codePoints } from "../../../src/servers/pydantic/value.ts";

/** Each document with its `repr(json.loads(document))`. */
const READ: readonly (readonly [string, string])[] = [
  ['"\\u00e9\\ud83d\\ude00"', "'\u00e9\ud83d\ude00'"],
  ['"\\ud83d"', "'\\ud83d'"],
  ['"\\udc00x"', "'\\udc00x'"],
  ['"\\ud83d\\u0041"', "'\\ud83dA'"],
  ['{"a":1,"a":2}', "{'a': 2}"],
  ["NaN", "nan"],
  ["[-Infinity,Infinity]", "[-inf, inf]"],
  ["1.0", "1.0"],
  ["1e5", "100000.0"],
  ["1E+2", "100.0"],
  ["-0", "0"],
  ["-0.0", "-0.0"],
  ["0.1", "0.1"],
  ["1e16", "1e+16"],
  ["123456789012345678901234567890", "123456789012345678901234567890"],
  ["9007199254740993", "9007199254740993"],
  ["1e400", "inf"],
  ["[null,true,false]", "[None, True, False]"],
  ['"\\/\\b\\f\\n\\r\\t\\"\\\\"', "'/\\x08\\x0c\\n\\r\\t\"\\\\'"],
  ["[]", "[]"],
  ["{}", "{}"],
  ["[[],{}]", "[[], {}]"],
  [" \t\r\n1 \n", "1"],
  ['{"it\'s":"a\'b\\"c"}', "{\"it's\": 'a\\'b\"c'}"],
  ['"\\u0000\\u007f\\u00a0\\u00ad\\u200b\\u2028"', "'\\x00\\x7f\\xa0\\xad\\u200b\\u2028'"],
  ["1e-5", "1e-05"],
  ["0.0001", "0.0001"],
  ["1e22", "1e+22"],
  ["5e-324", "5e-324"],
  ["1.7976931348623157e308", "1.7976931348623157e+308"],
  ["123456789.123", "123456789.123"],
  ["2.5e-7", "2.5e-07"],
  ["100000.0", "100000.0"],
  ["1e15", "1000000000000000.0"],
  ["-1.5e-10", "-1.5e-10"],
];

/** Each document with message and position of its JSONDecodeError. */
const REFUSED: readonly (readonly [string, readonly [string, number]])[] = [
  ["", ["Expecting value", 0]],
  ["  ", ["Expecting value", 2]],
  [" {", ["Expecting property name enclosed in double quotes", 2]],
  ["{", ["Expecting property name enclosed in double quotes", 1]],
  ['{"a"', ["Expecting ':' delimiter", 4]],
  ['{"a" 1}', ["Expecting ':' delimiter", 5]],
  ['{"a":', ["Expecting value", 5]],
  ['{"a":}', ["Expecting value", 5]],
  ['{"a":1', ["Expecting ',' delimiter", 6]],
  ['{"a":1,', ["Expecting property name enclosed in double quotes", 7]],
  ['{"a":1,}', ["Expecting property name enclosed in double quotes", 7]],
  ['{"a":1 "b":2}', ["Expecting ',' delimiter", 7]],
  ["{a:1}", ["Expecting property name enclosed in double quotes", 1]],
  ["{'a':1}", ["Expecting property name enclosed in double quotes", 1]],
  ["[", ["Expecting value", 1]],
  ["[1", ["Expecting ',' delimiter", 2]],
  ["[1,", ["Expecting value", 3]],
  ["[1,]", ["Expecting value", 3]],
  ["[1 2]", ["Expecting ',' delimiter", 3]],
  ["[,]", ["Expecting value", 1]],
  ['{"a":1}x', ["Extra data", 7]],
  ['{"a":1} {', ["Extra data", 8]],
  ['"abc', ["Unterminated string starting at", 0]],
  ['"a\\', ["Unterminated string starting at", 0]],
  ['"a\\x"', ["Invalid \\escape", 2]],
  ['"a\\u12"', ["Invalid \\uXXXX escape", 3]],
  ['"a\\u12G4"', ["Invalid \\uXXXX escape", 3]],
  ['"\\ud83d\\u12"', ["Invalid \\uXXXX escape", 8]],
  ['"\\ud83d\\u12G4"  ', ["Invalid \\uXXXX escape", 8]],
  ['"tab\there"', ["Invalid control character at", 4]],
  ['"a\nb"', ["Invalid control character at", 2]],
  ["nul", ["Expecting value", 0]],
  ["tru", ["Expecting value", 0]],
  ["-", ["Expecting value", 0]],
  ["01", ["Extra data", 1]],
  ["1.", ["Extra data", 1]],
  ["1.e5", ["Extra data", 1]],
  [".5", ["Expecting value", 0]],
  ["+1", ["Expecting value", 0]],
  ["1e", ["Extra data", 1]],
  ["--1", ["Expecting value", 0]],
  ["Infinit", ["Expecting value", 0]],
  ["NaNx", ["Extra data", 3]],
  ["-Infinity1", ["Extra data", 9]],
  ['{"\u00e9\ud83d\ude00":1,}', ["Expecting property name enclosed in double quotes", 8]],
  ['["\ud83d\ude00" x]', ["Expecting ',' delimiter", 5]],
  ["[1,2", ["Expecting ',' delimiter", 4]],
  ['{"a":[1,{"b":nope}]}', ["Expecting value", 13]],
  ["1\u00a0", ["Extra data", 1]],
  ["\u00a01", ["Expecting value", 0]],
];

test.each(READ)("%j reads", (document, printed) => {
  expect(repr(parsePython(document))).toBe(printed);
});

test.each(REFUSED)("%j fails", (document, [message, position]) => {
  expect(() => parsePython(document)).toThrow();
  try {
    parsePython(document);
  } catch (error) {
    expect(error).toEqual(new PythonJsonError(message, position));
  }
});

describe("limits of Python", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

  test("nesting beyond the recursion limit fails", () => {
    expect(repr(parsePython(nested(MAX_DEPTH)))).toHaveLength(2 * MAX_DEPTH);
    expect(() => parsePython(nested(MAX_DEPTH + 1))).toThrow(PythonJsonFailure);
  });

  test("the quick check of the nesting agrees, and ignores brackets in strings", () => {
    expect(tooDeep(nested(MAX_DEPTH))).toBe(false);
    expect(tooDeep(nested(MAX_DEPTH + 1))).toBe(true);
    expect(tooDeep(`["${'\\"['.repeat(3000)}"]`)).toBe(false);
    expect(tooDeep(`[${"[],".repeat(3000)}[]]`)).toBe(false);
  });

  test("ints of more than 4,300 digits fail", () => {
    expect(parsePython("1".repeat(4300))).toBe(BigInt("1".repeat(4300)));
    expect(() => parsePython("1".repeat(4301))).toThrow(PythonJsonFailure);
  });
});

describe("bytes to text", () => {
  const wide = (text: string, width: 2 | 4, little: boolean) => {
    const codes =
      width === 2
        ? [...text].map((character) => character.charCodeAt(0))
        : [...text].map((character) => character.codePointAt(0) as number);
    const view = new DataView(new ArrayBuffer(codes.length * width));
    for (const [i, code] of codes.entries())
      width === 2 ? view.setUint16(2 * i, code, little) : view.setUint32(4 * i, code, little);
    return new Uint8Array(view.buffer);
  };

  test.each([2, 4] as const)("UTF of %i bytes, in both byte orders, with and without a byte order mark", (width) => {
    for (const little of [true, false]) {
      expect(decodeBody(wide('{"a":1}', width, little))).toBe('{"a":1}');
      expect(decodeBody(wide('\ufeff{"a":1}', width, little))).toBe('{"a":1}');
    }
  });

  test("UTF-8: removes a byte order mark, keeps encoded surrogates, refuses other invalid bytes", () => {
    expect(decodeBody(Buffer.from('\ufeff"é😀"'))).toBe('"é😀"');
    expect(decodeBody(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x41, 0xed, 0xb0, 0x80, 0x22))).toBe('"\ud800A\udc00"');
    expect(decodeBody(Uint8Array.of(0x22, 0xff, 0x22))).toBeNull();
    expect(decodeBody(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0xff, 0x22))).toBeNull();
    expect(decodeBody(Uint8Array.of(0x22, 0xc3))).toBeNull();
  });
});

test("codePoints counts a surrogate pair once", () => {
  expect(codePoints("a😀é")).toBe(3);
  expect(codePoints("\ud800\ud800\udc00x")).toBe(3);
});
