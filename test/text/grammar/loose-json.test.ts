/** Finding JSON in a prompt takes work in proportion to its length, for any content, and reads valid JSON exactly. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { BrokenStructure } from "../../../src/text/grammar/broken.ts";
import { findJson } from "../../../src/text/grammar/loose-json.ts";
import { writerOf } from "../../../src/text/grammar/structure.ts";

const LINE = '{"type": "object", "properties": {"a": {"type": "integer"}}}';
const writerFor = (text: string) =>
  writerOf({ kind: "prompted", texts: [text], mustBeObject: false, always: false, calls: 0.5 });

/** Texts that, repeated, make a reader with backtracking slow, or a recursive reader overflow. */
const HARD: readonly string[] = [
  '{"a":',
  "{",
  "[",
  '{"',
  '[{"a":"',
  "{/*",
  "{a:",
  "[[],",
  '{"a":1}',
  "{'",
  '{"\\"',
  "{#",
  "{a:(",
  "{a:<",
  '{"type":"object","properties":{"a":',
  '"a"|',
  "json with ",
  "json with keys ",
  "keys in ",
  "json fields a and b ",
  "[1 or ",
  "\\",
  "{a:'b'|",
  '{"x{',
];

test("the work is proportional to the length of any text, and nothing overflows", () => {
  const cpu = (text: string) => {
    const from = process.cpuUsage();
    try {
      writerFor(text)(1, 0);
    } catch (error) {
      expect(error).toBeInstanceOf(BrokenStructure);
    }
    const { user, system } = process.cpuUsage(from);
    return user + system;
  };
  const plain = "The quick brown fox. ".repeat(25_000);
  cpu(plain);
  for (const piece of HARD) {
    const text = piece.repeat(Math.ceil(524_288 / piece.length));
    // A pass over half a megabyte takes up to 0.3 s. A reader in quadratic time takes minutes.
    expect(cpu(text)).toBeLessThan(3_000_000);
    cpu(`${text}${LINE}`);
  }
  const many = Array.from({ length: 60_000 }, (_, n) => `{"k${n}": ${n}}`).join(",");
  expect(cpu(`JSON like this: [${many}]`)).toBeLessThan(5_000_000);
}, 120_000);

test("JSON is read like by JSON.parse, with any text around it", () => {
  const text = fc.string().map((string) => string.replace(/[[{]/g, ""));
  const value = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue()));
  fc.assert(
    fc.property(text, value, text, (before, json, after) => {
      for (const written of [JSON.stringify(json), JSON.stringify(json, null, 2)]) {
        const [found] = findJson(`${before}${written}${after}`);
        expect(JSON.stringify(found!.value)).toBe(JSON.stringify(json));
      }
    }),
    { numRuns: 300 },
  );
});

test("any prompt is answered, or its schema is refused", () => {
  const piece = fc.constantFrom(
    ...HARD,
    ..."{}[]:,\"'",
    "json",
    "type",
    "object",
    '"properties"',
    "string",
    "|",
    "or",
    "1",
    "\n",
    "...",
    "```",
    LINE,
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
      try {
        writerFor(pieces.join(""))(1, 0);
      } catch (error) {
        expect(error).toBeInstanceOf(BrokenStructure);
      }
    }),
    { numRuns: 300 },
  );
});
