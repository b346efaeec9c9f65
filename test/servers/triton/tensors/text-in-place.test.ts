/** Tests that long JSON texts that are decoded in place give the texts and errors of the parser. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { seeded } from "../../../../src/base/random.ts";
import { LongText } from "../../../../src/servers/triton/tensors/json-nodes.ts";
import { parseRapidJson } from "../../../../src/servers/triton/tensors/rapid-json.ts";
import { rapidJsonInPieces } from "../../../../src/servers/triton/tensors/rapid-json-pieces.ts";
import { TextInPlace } from "../../../../src/servers/triton/tensors/text-in-place.ts";
import { fuzz, mutated } from "../../../fuzz.ts";
import { seed, times } from "../../../size.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const GOOD = ["\\n", "\\t", '\\"', "\\\\", "\\/", "\\u0041", "\\u00e9", "\\u4e2d", "\\ud83d\\ude00", "é"];
const BAD = ["\\x", "\\u12g4", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\n", "\0", "\\"];
const WINDOW = 65_536;

/** Returns the text, or the message of the error. */
function read(parse: () => unknown): string {
  try {
    const value = parse();
    return value instanceof LongText ? value.text : `${value}`;
  } catch (error) {
    return `${error}`;
  }
}

test.each(["good", "bad"])("texts with %s escapes are read alike, also if a piece ends inside an escape", (kind) => {
  const drawn = seeded(kind.length);
  const random = () => drawn() / 2 ** 32;
  const draw = (list: readonly string[]) => list[Math.floor(random() * list.length)]!;
  for (let round = 0; round < 60; round++) {
    let text = "";
    for (let length = 0; length < 3 * WINDOW; ) {
      const plain = "p".repeat(Math.floor(random() * 2 * WINDOW));
      const run = Array.from({ length: 8 }, () => draw(GOOD)).join("");
      text += plain + run;
      length += plain.length;
    }
    if (kind === "bad") text += draw(BAD) + draw(["", "more"]);
    const body = Buffer.from(`"${text}${kind === "bad" && round % 3 === 0 ? "" : '"'}`);
    const expected = read(() => parseRapidJson(body));
    expect(read(() => atOnce(rapidJsonInPieces(body))) === expected).toBe(true);
  }
});

test("a long text takes no memory besides its body", () => {
  const body = Buffer.from(`["${"plain \\n".repeat(400_000)}"]`);
  const [text] = atOnce(rapidJsonInPieces(body)) as unknown as [LongText];
  expect(text.bytes.buffer).toBe(body.buffer);
});

const plainText = fc.stringMatching(/^[ !#-[\]-~]{1,40}$/).map((text) => Buffer.from(text));
const oneEscape = fc.constantFrom(...GOOD, ...BAD).map((text) => Buffer.from(text));
/** Parts of a string and its closing quotation mark, before they are mutated. */
const stringParts = fc
  .array(fc.oneof(plainText, oneEscape), { minLength: 1, maxLength: 12 })
  .map((list) => [...list, Buffer.from('"')]);

/** Reads a copy of the bytes, because the reader writes over its input. */
function readInPlace(bytes: Uint8Array) {
  const own = Buffer.from(new Uint8Array(bytes).buffer);
  const text = new TextInPlace(own, 0, "");
  return { text, own, isValid: atOnce(text.read()) };
}

test("any bytes end, in time and memory in proportion to them", () => {
  // The copy of the input is in the memory, which the runtime counts twice.
  const bounds = { usPerByte: 0.1, usMore: 300, memoryPerByte: 2.2, memoryMore: 10_000 };
  fuzz(300, mutated(stringParts), bounds, () => readInPlace);
});

test("any bytes give the text of the parser, no longer than the bytes read, or are refused by both", () => {
  fc.assert(
    fc.property(mutated(stringParts), (bytes) => {
      const { text, own, isValid } = readInPlace(bytes);
      expect(text.bytes.buffer).toBe(own.buffer);
      expect(text.bytes.length).toBeLessThanOrEqual(text.at);
      expect(text.at).toBeLessThanOrEqual(bytes.length);
      const json = Buffer.concat([Buffer.from('"'), isValid ? bytes.subarray(0, text.at) : bytes]);
      // The parser's texts have a character per byte.
      const expected = read(() => parseRapidJson(json));
      if (isValid) expect(text.bytes.toString("latin1") === expected).toBe(true);
      else expect(expected).toMatch(/Error/);
    }),
    { numRuns: times(600), seed },
  );
});
