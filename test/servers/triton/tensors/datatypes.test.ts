/** Tests texts of bytes and texts of characters: which texts are ASCII, and the conversion in both directions. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { fromBytesText, isAscii, toBytesText } from "../../../../src/servers/triton/tensors/datatypes.ts";

/** Texts of any code units, including single surrogates. */
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 80 }),
  fc.string({ unit: "binary-ascii", maxLength: 80 }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 60 }).map((units) => String.fromCharCode(...units)),
);

test("a text is ASCII if each of its characters is below 0x80, whatever its length", () => {
  const model = (text: string) =>
    Array.from(text, (character) => character.codePointAt(0)!).every((code) => code < 128);
  fc.assert(fc.property(anyText, (text) => expect(isAscii(text)).toBe(model(text))));
});

test("a text becomes UTF-8 with one character per byte, and is converted back", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 80 }), (text) => {
      const bytes = toBytesText(text);
      expect(bytes).toBe(Buffer.from(text).toString("latin1"));
      expect(fromBytesText(bytes)).toBe(text.toWellFormed());
    }),
  );
});
