/** Does looking for JSON in a prompt take work in proportion to the prompt, whatever it holds, and read JSON as it is? */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { BrokenStructure } from "../../../src/text/grammar/broken.ts";
import { findJson } from "../../../src/text/grammar/loose-json.ts";
import { writerOf } from "../../../src/text/grammar/structure.ts";

const LINE = '{"type": "object", "properties": {"a": {"type": "integer"}}}';
const writerFor = (text: string) =>
  writerOf({ kind: "prompted", texts: [text], mustBeObject: false, always: false, calls: 0.5 });

/** Texts that make readers with backtracking, or with a stack of the thread, slow or dead. */
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

test("the work is proportional to the text, whatever stands in it, and nothing overflows", () => {
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
    // A pass over half a megabyte takes up to 0.3 s; a reader in quadratic time takes minutes.
    expect(cpu(text)).toBeLessThan(3_000_000);
    cpu(`${text}${LINE}`);
  }
  const many = Array.from({ length: 60_000 }, (_, n) => `{"k${n}": ${n}}`).join(",");
  expect(cpu(`JSON like this: [${many}]`)).toBeLessThan(5_000_000);
}, 120_000);

test("what is JSON is read as JSON.parse reads it, with any text around it", () => {
  const text = fc.string().map((one) => one.replace(/[[{]/g, ""));
  const value = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue()));
  fc.assert(
    fc.property(text, value, text, (before, given, after) => {
      for (const json of [JSON.stringify(given), JSON.stringify(given, null, 2)]) {
        const [found] = findJson(`${before}${json}${after}`);
        expect(JSON.stringify(found!.value)).toBe(JSON.stringify(given));
      }
    }),
    { numRuns: 300 },
  );
});

test("whatever a prompt holds, it is answered or its schema is broken", () => {
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
