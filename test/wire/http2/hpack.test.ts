/** Tests HPACK with the examples of RFC 7541, and that any other bytes give fields or a connection error. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ConnectionError } from "../../../src/wire/http2/frames.ts";
import { encodeFields, HpackDecoder } from "../../../src/wire/http2/hpack.ts";
import { huffmanText } from "../../../src/wire/http2/huffman.ts";
import { times } from "../../size.ts";

const bytes = (hex: string) => Buffer.from(hex.replaceAll(" ", ""), "hex");

/** Appendix C.4: three header blocks of one connection. */
const requests: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    [
      [":method", "GET"],
      [":scheme", "http"],
      [":path", "/"],
      [":authority", "www.example.com"],
    ],
  ],
  [
    "828684be5886a8eb10649cbf",
    [
      [":method", "GET"],
      [":scheme", "http"],
      [":path", "/"],
      [":authority", "www.example.com"],
      ["cache-control", "no-cache"],
    ],
  ],
  [
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    [
      [":method", "GET"],
      [":scheme", "https"],
      [":path", "/index.html"],
      [":authority", "www.example.com"],
      ["custom-key", "custom-value"],
    ],
  ],
];

test("the request examples, with Huffman codes and a growing table", () => {
  const decoder = new HpackDecoder();
  for (const [hex, fields] of requests) expect(decoder.decode(bytes(hex))).toEqual(fields as [string, string][]);
});

test("the response example (appendix C.6): entries leave a table of 256 bytes", () => {
  const decoder = new HpackDecoder();
  const first = bytes(
    "3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
  );
  const date = ["date", "Mon, 21 Oct 2013 20:13:21 GMT"] as const;
  const location = ["location", "https://www.example.com"] as const;
  const control = ["cache-control", "private"] as const;
  expect(decoder.decode(first)).toEqual([[":status", "302"], control, date, location]);
  expect(decoder.decode(bytes("4883640effc1c0bf"))).toEqual([[":status", "307"], control, date, location]);
  // `:status 302` has been removed, so its index is invalid.
  expect(() => decoder.decode(bytes("c2"))).toThrow(ConnectionError);
});

test("decoding reverses encoding, for all names and values", () => {
  const text = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
  const long = fc.integer({ min: 120, max: 40_000 }).map((length) => "x".repeat(length));
  fc.assert(
    fc.property(fc.array(fc.tuple(text, fc.oneof({ arbitrary: text, weight: 9 }, long))), (fields) => {
      expect(new HpackDecoder().decode(encodeFields(fields))).toEqual(fields);
    }),
    { numRuns: times(300) },
  );
});

test("any bytes give fields or a connection error", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 4 }), (blocks) => {
      const decoder = new HpackDecoder();
      try {
        for (const block of blocks) {
          for (const [name, value] of decoder.decode(block))
            expect([typeof name, typeof value]).toEqual(["string", "string"]);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(ConnectionError);
      }
    }),
    { numRuns: times(2000) },
  );
});

test.each([
  ["index 0", "80"],
  ["an index beyond both tables", "ff00"],
  ["a string that is cut short", "400a637573746f6d2d6b6579"],
  ["an integer without an end", "ffffffffffff"],
  ["a table that is too large", "3fe21f"],
  ["a table size update after a field", "8220"],
  ["the Huffman EOS in a string", "4084ffffffff01 61"],
  ["padding of a whole byte", "0082 1fff 00"],
  ["padding of zeros", "0081 18 00"],
])("refused: %s", (_, hex) => {
  expect(() => new HpackDecoder().decode(bytes(hex))).toThrow(ConnectionError);
});

test("repeated references to a table entry cannot make a list of megabytes", () => {
  const decoder = new HpackDecoder();
  const long = Buffer.concat([bytes("4001 78"), Buffer.from([0x7f, 0x81, 0x1e]), Buffer.alloc(3968, 65)]);
  expect(decoder.decode(long)).toEqual([["x", "A".repeat(3968)]]);
  expect(decoder.decode(Buffer.alloc(60, 0xbe)).length).toBe(60);
  expect(() => decoder.decode(Buffer.alloc(60_000, 0xbe))).toThrow("headers exceed 262144 bytes");
});

test("Huffman: known strings, and null for invalid padding", () => {
  const text = (hex: string) => huffmanText(bytes(hex), 0, bytes(hex).length);
  expect(text("f1e3c2e5f23a6ba0ab90f4ff")).toBe("www.example.com");
  expect(text("9d29ad171863c78f0b97c8e9ae82ae43d3")).toBe("https://www.example.com");
  expect(text("94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007")).toBe(
    "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
  );
  expect(text("f1e3c2e5f23a6ba0ab90f4ffff")).toBeNull();
});
