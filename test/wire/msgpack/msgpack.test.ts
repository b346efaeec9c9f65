/**
 * Tests the reader and the writer of MessagePack. What was written is read again, and numbers and lengths have their shortest
 * form. Malformed input is refused. CPU time and memory are in proportion to the length of the input.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { decodeMsgpack, MsgpackError } from "../../../src/wire/msgpack/reader.ts";
import { Extension, Float32, type MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { MsgpackWriter } from "../../../src/wire/msgpack/writer.ts";
import { fuzz, mutated } from "../../fuzz.ts";
import { times } from "../../size.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const bytes = (hex: string) => Buffer.from(hex.replaceAll(" ", ""), "hex");
const written = (write: (writer: MsgpackWriter) => void): Buffer => {
  const writer = new MsgpackWriter();
  write(writer);
  return writer.copy();
};
const encoded = (value: MsgpackValue) => written((writer) => writer.value(value));

const scalars = fc.oneof(
  fc.constantFrom<MsgpackValue>(null, true, false, 0, -1, -32, -33, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1),
  fc.maxSafeInteger(),
  fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: -(2n ** 63n), max: -(2n ** 53n) }),
  fc.double({ noNaN: true }).map((value) => (Object.is(value, -0) ? 0 : value)),
  fc.float({ noNaN: true }).map((value) => new Float32(value)),
  fc.string({ maxLength: 40, unit: "grapheme" }),
  fc.integer({ min: 0, max: 70_000 }).map((length) => "x".repeat(length)),
  fc.uint8Array({ maxLength: 300 }),
  fc
    .tuple(fc.integer({ min: -128, max: 127 }), fc.uint8Array({ maxLength: 300 }))
    .map(([type, data]) => new Extension(type, data)),
);
const { value: values } = fc.letrec<{ value: MsgpackValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    scalars,
    fc.array(tie("value"), { maxLength: 20 }),
    fc
      .array(fc.tuple(fc.oneof(fc.integer(), fc.string({ maxLength: 9 })), tie("value")), { maxLength: 20 })
      .map((pairs) => new Map<MsgpackValue, MsgpackValue>(pairs)),
  ),
}));

/** Makes values comparable: views of a message become plain arrays. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return [...value];
  if (value instanceof Extension) return { type: value.type, data: [...value.data] };
  if (value instanceof Map) return [...value].map(([key, one]) => [key, plain(one)]);
  return Array.isArray(value) ? value.map(plain) : value;
}

test("any value is read as it was written, and written again with the same bytes", () => {
  fc.assert(
    fc.property(values, (value) => {
      const whole = encoded(value);
      const read = decodeMsgpack(whole);
      expect(plain(read)).toEqual(plain(value));
      expect(encoded(read).equals(whole)).toBe(true);
    }),
    { seed: 1, numRuns: times(600) },
  );
});

test("a value that is cut anywhere is refused, and never read as another one", () => {
  fc.assert(
    fc.property(values, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (value, place) => {
      const whole = encoded(value);
      const cut = whole.subarray(0, Math.floor(place * whole.length));
      expect(() => decodeMsgpack(cut)).toThrow(MsgpackError);
    }),
    { seed: 1, numRuns: times(600) },
  );
});

test.each<[string, MsgpackValue]>([
  ["7f", 127],
  ["cc80", 128],
  ["e0", -32],
  ["d0df", -33],
  ["d2ffff7fff", -32_769],
  ["cf0000000100000000", 2 ** 32],
  ["d3ffffff0000000000", -(2 ** 40)],
  ["cfffffffffffffffff", 2n ** 64n - 1n],
  ["05", 5n],
  ["cb3fb999999999999a", 0.1],
  ["ca3f000000", new Float32(0.5)],
  ["a2c3a9", "é"],
  [`d920${"78".repeat(32)}`, "x".repeat(32)],
  ["8105a135", new Map<MsgpackValue, MsgpackValue>([[5, "5"]])],
  ["d60301020304", new Extension(3, bytes("01020304"))],
  ["c401ff", bytes("ff")],
])("the shortest form is %s", (hex, value) => {
  expect(encoded(value).toString("hex")).toBe(hex);
});

test("a float keeps its type if it is whole, and a number that is no exact integer is refused", () => {
  expect(written((writer) => writer.float64(1)).toString("hex")).toBe("cb3ff0000000000000");
  expect(written((writer) => writer.float32(1)).toString("hex")).toBe("ca3f800000");
  for (const wrong of [0.5, Number.NaN, 2 ** 60]) expect(() => new MsgpackWriter().int(wrong)).toThrow(RangeError);
});

test("a 32-bit float has a short form with the same bits", () => {
  expect((decodeMsgpack(bytes("ca3f333333")) as Float32).value).toBe(0.699999988079071);
  expect((decodeMsgpack(bytes("ca3f333333")) as Float32).short).toBe(0.7);
  fc.assert(
    fc.property(fc.float({ noNaN: true }), (value) => {
      expect(Math.fround(new Float32(value).short)).toBe(value);
    }),
    { seed: 1, numRuns: times(300) },
  );
});

test.each([
  ["", "byte 0: 1 bytes are announced, and 0 are left"],
  ["c1", "byte 0: no value begins with the byte 0xc1"],
  ["0102", "byte 1: 1 bytes follow the value"],
  ["dd ffffffff 00", "byte 5: 4294967295 values are announced, and 1 bytes are left"],
  ["df 7fffffff 00", "byte 5: 4294967294 values are announced, and 1 bytes are left"],
  ["c6 ffffffff 00", "byte 5: 4294967295 bytes are announced, and 1 are left"],
  ["a1 ff", "byte 1: a text is not UTF-8"],
])("refusal %# names the offset and the reason", (hex, why) => {
  expect(() => decodeMsgpack(bytes(hex))).toThrow(`not MessagePack at ${why}`);
});

test("more values and objects than the limits are refused", () => {
  for (const [hex, why] of [
    ["91".repeat(65), "byte 65: more than 64 lists and maps inside each other"],
    [`dd 00040000 ${"90".repeat(2 ** 18)}`, "byte 262149: more than 262144 lists, maps, texts and the like"],
    [`dd 00400001 ${"00".repeat(2 ** 22 + 1)}`, "byte 5: more than 4194304 values"],
  ] as const)
    expect(() => decodeMsgpack(bytes(hex))).toThrow(`not MessagePack at ${why}`);
});

test("an extension type is refused with the caller's reason", () => {
  expect(() => decodeMsgpack(bytes("91 d401ff"), new Map([[1, "a pickle"]]))).toThrow(
    "not MessagePack at byte 2: extension type 1: a pickle",
  );
});

test("any bytes are read in CPU time and memory in proportion to them", () => {
  const parts = fc.array(
    values.map((value) => encoded(value)),
    { minLength: 1, maxLength: 4 },
  );
  const stream = fc.oneof(
    mutated(parts),
    fc.uint8Array({ maxLength: 600 }).map((all) => Buffer.from(all)),
    // Objects of one byte each, behind the longest head.
    fc.constantFrom("80", "90", "a0", "c400", "d40300").map((one) => {
      const count = 40_000;
      const head = Buffer.from([0xdd, 0, 0, 0, 0]);
      head.writeUInt32BE(count, 1);
      return Buffer.concat([head, bytes(one.repeat(count))]);
    }),
  );
  fuzz(200, stream, { usPerByte: 1, usMore: 2000, memoryPerByte: 400, memoryMore: 4096 }, () => (input) => {
    try {
      return decodeMsgpack(input);
    } catch (error) {
      if (!(error instanceof MsgpackError)) throw error;
      return error;
    }
  });
});
