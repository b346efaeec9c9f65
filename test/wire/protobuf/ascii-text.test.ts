/** Tests the cache of short ASCII texts: colliding texts stay apart, and long or other texts are refused. */
import { expect, test } from "bun:test";
import { asciiText } from "../../../src/wire/protobuf/ascii-text.ts";

const read = (text: string) => {
  const bytes = Buffer.from(`<${text}>`);
  return asciiText(bytes, 1, bytes.length - 1);
};

test("texts that share a place in the cache stay apart", () => {
  const texts = Array.from({ length: 2000 }, (_, at) => `text_${at}`);
  for (let round = 0; round < 2; round++) for (const text of ["", "a", ...texts]) expect(read(text)).toBe(text);
});

test("long texts and other characters are left to the decoder", () => {
  expect(read("a".repeat(32))).toBe("a".repeat(32));
  expect(read("a".repeat(33))).toBeNull();
  expect(read("naïve")).toBeNull();
});
