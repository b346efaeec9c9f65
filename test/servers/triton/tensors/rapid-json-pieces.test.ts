/** Tests that large bodies read in pieces give the values and errors of one that is read at once, and that reading stops. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { atOnce, type Pieces } from "../../../../src/base/pieces.ts";
import { parameterIn } from "../../../../src/servers/triton/http/infer-body.ts";
import { TritonError } from "../../../../src/servers/triton/model-config/status.ts";
import {
  asBoolean,
  asBytesText,
  asDouble,
  asSigned,
  asString,
  asUnsigned,
} from "../../../../src/servers/triton/tensors/access.ts";
import {
  bytesOf,
  type Datatype,
  ELEMENT_BYTES,
  newNumbers,
  packTexts,
} from "../../../../src/servers/triton/tensors/datatypes.ts";
import { JsonMembers, type JsonNode, LongList, LongText } from "../../../../src/servers/triton/tensors/json-nodes.ts";
import { parseRapidJson } from "../../../../src/servers/triton/tensors/rapid-json.ts";
import { rapidJsonInPieces } from "../../../../src/servers/triton/tensors/rapid-json-pieces.ts";
import { elementsText, elementsTexts, readElements } from "../../../../src/servers/triton/tensors/tensor-json.ts";
import { times } from "../../../size.ts";

/** Returns the node with long lists as plain lists. */
function plain(node: JsonNode): unknown {
  if (node instanceof JsonMembers) return { members: node.members.map(([name, one]) => [name, plain(one)]) };
  if (node instanceof LongText) return node.text;
  const list = node instanceof LongList ? node.whole() : node;
  return Array.isArray(list) ? list.map(plain) : list;
}

function said(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    return `${error}`;
  }
}

const same = (text: string) => {
  const body = Buffer.from(text, "latin1");
  const whole = said(() => plain(parseRapidJson(body)));
  const pieces = said(() => plain(atOnce(rapidJsonInPieces(body))));
  expect(pieces).toEqual(whole);
};

test("a string of megabytes stays in the body until it is copied into a tensor; elsewhere it becomes a string", () => {
  const text = `${"plain text ".repeat(60_000)}\\n\\u00e9\\ud83d\\ude00${"\u00c3\u00a9".repeat(400_000)}`;
  const body = Buffer.from(`{"id":"7","text_input":"${text}","texts":["a","${text}"]}`, "latin1");
  const expected = parseRapidJson(body) as JsonMembers;
  const document = atOnce(rapidJsonInPieces(body)) as JsonMembers;
  for (const name of ["text_input", "texts"]) {
    const [value, whole] = [document.get(name)!, expected.get(name)!];
    const count = Array.isArray(whole) ? whole.length : 1;
    expect(plain(value)).toEqual(plain(whole));
    let pieces = 0;
    const work = readElements(name, value, "BYTES", count, "") as Pieces<Uint8Array>;
    for (let next = work.next(); ; next = work.next(), pieces++)
      if (next.done) {
        expect(Bun.hash(next.value)).toBe(Bun.hash(packTexts([whole].flat() as string[])));
        break;
      }
    expect(pieces).toBeGreaterThan(20);
  }
  expect(document.get("text_input")).toBeInstanceOf(LongText);
  expect(asBytesText(document.get("text_input")!)).toBe(expected.get("text_input") as string);
  const most = "a stand-in takes 1048576 here";
  expect(() => parameterIn("p", document.get("text_input")!)).toThrow(most);
  expect(() => asString(document.get("text_input")!)).toThrow(most);
  const long = Buffer.from(`{"${"n".repeat(2 ** 20)}":1,"${"n".repeat(2 ** 20 + 1)}":1}`);
  expect(() => atOnce(rapidJsonInPieces(long))).toThrow("a name of 1048577 bytes: a stand-in takes 1048576");
});

const blanks = fc.constantFrom("", " ", "\n\t", " ".repeat(70_000));
const token = fc.oneof(
  fc.integer().map(String),
  fc.double().map((one) => `${one}`.replace("nan", "NaN")),
  fc.string({ unit: "binary" }).map((one) => JSON.stringify(one)),
  fc.constantFrom(
    "-0",
    "0",
    "01",
    "1.",
    "1e",
    "-",
    "nul",
    "null",
    "true",
    "NaN",
    "-Inf",
    "Infinity",
    "1e999",
    "1.5e-7",
    "[]",
    "{}",
    "18446744073709551615",
    "18446744073709551616",
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\u00e9"',
    '"a',
    '"\x01"',
    "}",
    "]",
    "9".repeat(400),
    `0.${"1".repeat(70_000)}`,
    `"${"x".repeat(200_000)}"`,
    `"${"\\n".repeat(50_000)}"`,
  ),
);
const list = fc
  .tuple(token, fc.integer({ min: 1, max: 6000 }), blanks, fc.array(token, { maxLength: 4 }), fc.boolean())
  .map(([one, count, blank, rest, isLast]) => {
    const many = new Array(one.length > 1000 ? Math.min(count, 3) : count).fill(one);
    return `[${(isLast ? [...rest, ...many] : [...many, ...rest]).join(`,${blank.length > 10 ? "" : blank}`)}${blank}]`;
  });

test("the parser in pieces gives the same values and errors", () => {
  const document = fc
    .tuple(fc.array(fc.oneof(list, token), { maxLength: 5 }), blanks, fc.boolean())
    .map(([parts, blank, isObject]) =>
      isObject ? `{${parts.map((one, at) => `"k${at}"${blank}:${one}`).join(",")}}` : `[${parts.join(`${blank},`)}]`,
    );
  fc.assert(fc.property(document, same), { numRuns: times(150) });
});

test("a truncated or changed document gives the same error at the same byte", () => {
  const text = `{"inputs":[{"name":"x","shape":[2],"data":[${'1.25,-3,[true,"\\u00e9 text"],'.repeat(6000)}4]}]} `;
  fc.assert(
    fc.property(fc.nat(text.length), fc.constantFrom("", "x", '"', "]", "}", ",", "\\", "\0"), (at, put) => {
      same(text.slice(0, at) + put);
      same(text.slice(0, at) + put + text.slice(at + 1));
    }),
    { numRuns: times(100) },
  );
});

test("nested lists are read up to a depth", () => {
  for (const depth of [999, 1000, 1001, 1002]) same(`${"[".repeat(depth)}1,2${"]".repeat(depth)}`);
});

test("the parser stops regularly within long bodies", () => {
  const stops = (text: string) => [...rapidJsonInPieces(Buffer.from(text))].length;
  expect(stops("[1,2,3]")).toBe(0);
  expect(stops(`[${"1.5,".repeat(100_000)}1]`)).toBeGreaterThan(500);
  expect(stops(`[${"1,".repeat(100_000)}1]`)).toBeGreaterThan(1);
  expect(stops(`["${"x".repeat(1_000_000)}"]`)).toBeGreaterThan(10);
  expect(stops(`[${" ".repeat(1_000_000)}]`)).toBeGreaterThan(10);
});

const whole = (value: JsonNode) => BigInt.asUintN(64, BigInt(asSigned(value)));
const unsigned = (value: JsonNode) => BigInt(asUnsigned(value));
const TAKERS: Readonly<Record<string, (value: JsonNode) => number | bigint>> = {
  BOOL: (value) => Number(asBoolean(value)),
  ...Object.fromEntries(
    [8, 16, 32].map((bits) => [`INT${bits}`, (value) => Number(BigInt.asIntN(bits, whole(value)))]),
  ),
  ...Object.fromEntries(
    [8, 16, 32].map((bits) => [`UINT${bits}`, (value) => Number(BigInt.asUintN(bits, unsigned(value)))]),
  ),
  INT64: whole,
  UINT64: unsigned,
  FP32: asDouble,
  FP64: asDouble,
};

/** The bytes of the elements, read one by one. */
function model(data: JsonNode, datatype: Datatype | null, count: number): Uint8Array {
  const flat: JsonNode[] = [];
  const add = (value: JsonNode, depth: number) => {
    if (!Array.isArray(value)) return void flat.push(value);
    if (depth === 100) throw new TritonError("INVALID_ARG", "JSON nesting depth exceeds maximum allowed limit (100)");
    for (const item of value) add(item, depth + 1);
  };
  const fail = (message: string): never => {
    throw new TritonError("INTERNAL", message);
  };
  const within = <T>(prefix: string, act: () => T): T => {
    try {
      return act();
    } catch (error) {
      return fail(`${prefix}: ${(error as Error).message}`);
    }
  };
  if (datatype === null) return fail("invalid datatype for input x");
  const take = TAKERS[datatype];
  if (take === undefined && datatype !== "BYTES")
    return fail(`receiving ${datatype} data via JSON is not supported. Please use the binary data format for input x`);
  add(data, 0);
  if (take === undefined)
    return packTexts(within("Unable to parse JSON bytes array", () => flat.map((value) => asBytesText(value))));
  const into = newNumbers(datatype as "INT32", count);
  for (const [at, value] of flat.entries())
    within("Unable to parse 'data'", () => {
      if (at >= count) fail("Shape does not match true shape of 'data' field");
      into[at] = take(value) as number;
    });
  return flat.length === count ? bytesOf(datatype as "INT32", into) : fail("missing");
}

const readBoth = (text: string, datatype: Datatype | null, count: number) => {
  const body = Buffer.from(text, "latin1");
  const expected = said(() => model(parseRapidJson(body), datatype, count));
  for (const data of [parseRapidJson(body), atOnce(rapidJsonInPieces(body))]) {
    const read = said(() => {
      const elements = readElements("x", data, datatype, count, "missing");
      return elements instanceof Uint8Array ? elements : atOnce(elements);
    });
    if (expected instanceof Uint8Array && read instanceof Uint8Array)
      expect(Buffer.compare(Buffer.from(expected), Buffer.from(read))).toBe(0);
    else expect(read).toBe(expected);
  }
};

test("elements give the same bytes and the same errors", () => {
  const item = fc.constantFrom(
    "1",
    "-2",
    "1.5",
    "-0.0",
    '"text"',
    "true",
    "300",
    "18446744073709551615",
    "[1]",
    "[[2,3]]",
    "{}",
  );
  const lists = fc.tuple(fc.array(item, { maxLength: 3 }), item, fc.nat(5000), fc.array(item, { maxLength: 3 }));
  const types = [...(Object.keys(ELEMENT_BYTES) as Datatype[]), null];
  fc.assert(
    fc.property(
      lists,
      fc.constantFrom(...types),
      fc.integer({ min: -1, max: 1 }),
      ([a, many, count, b], type, more) => {
        const all = [...a, ...new Array<string>(count).fill(many), ...b];
        const elements = all.length + (many === "[[2,3]]" ? count : 0);
        readBoth(`[${all.join(",")}]`, type, Math.max(0, elements + more));
      },
    ),
    { numRuns: times(300) },
  );
  for (const depth of [99, 100, 101]) readBoth(`["x",${"[".repeat(depth)}1${"]".repeat(depth)}]`, "FP32", 2);
});

test("elements in pieces are written like at once", () => {
  const datatypes = fc.constantFrom(...(Object.keys(ELEMENT_BYTES) as Datatype[]));
  fc.assert(
    fc.property(datatypes, fc.uint8Array({ maxLength: 9000, minLength: 1 }), fc.nat(40), (datatype, bytes, repeats) => {
      const size = ELEMENT_BYTES[datatype] || 1;
      const long = Buffer.concat(new Array<Uint8Array>(repeats + 1).fill(bytes));
      const data =
        datatype === "BYTES"
          ? packTexts([...long.toString("latin1").split("a")])
          : long.subarray(0, long.length - (long.length % size));
      if (data.length === 0) return;
      for (const cut of datatype === "BYTES" ? [0, 1] : [0]) {
        const tensor = { name: "x", datatype, data: data.subarray(0, data.length - cut) };
        expect(said(() => [...elementsTexts(tensor)].join(""))).toBe(said(() => elementsText(tensor)));
      }
    }),
    { numRuns: times(200) },
  );
});

test("2,000,000 lists and objects and 8,000,000 texts are read, more are refused", () => {
  const said = (unit: string, count: number) => {
    try {
      atOnce(rapidJsonInPieces(Buffer.from(`[${unit.repeat(count)}0]`)));
      return "read";
    } catch (error) {
      return (error as Error).message;
    }
  };
  // The list around them counts, too.
  expect(said("{},", 1_999_999)).toBe("read");
  expect(said("[],", 2_000_000)).toBe("more than 2000000 lists and objects: a stand-in takes no more");
  expect(said('"",', 8_000_000)).toBe("read");
  expect(said('"",', 8_000_001)).toBe("more than 8000000 texts: a stand-in takes no more");
}, 60_000);
