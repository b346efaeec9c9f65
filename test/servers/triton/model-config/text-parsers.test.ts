/** Tests that each parser of texts from clients and operators ends, with bounded time and memory per byte of any text. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { pbtxtInPieces } from "../../../../src/servers/triton/model-config/pbtxt.ts";
import { parseRapidJson } from "../../../../src/servers/triton/tensors/rapid-json.ts";
import { times } from "../../../size.ts";

setDefaultTimeout(60_000);
const LENGTH = 2 ** 20;
const filled = (unit: string, before = "", after = "") =>
  before + unit.repeat(Math.floor(LENGTH / unit.length)) + after;

const PBTXT: Readonly<Record<string, string>> = {
  "a text that does not end": filled("a", 'name: "'),
  escapes: filled("\\001", 'name: "', '"'),
  "texts side by side": filled('"a" ', "name: "),
  messages: filled("input{}"),
  "messages in messages": filled("optimization{"),
  "lists of numbers": filled("1,", "input{dims:[", "1]}"),
  "a field again and again": filled("max_batch_size:1 "),
  comments: filled("#\n"),
  blanks: filled(" "),
  "a number": filled("1", "max_batch_size:"),
  "a word": filled("a"),
  brackets: filled("["),
  "entries of a map": filled('parameters{key:"a" value{string_value:"b"}} '),
};
const JSON_TEXTS: Readonly<Record<string, string>> = {
  "lists in lists": filled("["),
  "objects in objects": filled('{"a":'),
  "empty objects": filled("{},", "[", "{}]"),
  "empty lists": filled("[],", "[", "[]]"),
  members: filled('"":1,', "{", '"":1}'),
  numbers: filled("1,", "[", "1]"),
  "a number": filled("1"),
  "a fraction": filled("1", "0."),
  "an exponent": filled("1", "1e"),
  texts: filled('"",', "[", '""]'),
  "a text that does not end": filled("a", '"'),
  escapes: filled("\\u0041", '"', '"'),
  blanks: filled(" "),
};
const pbtxt = (text: string) => atOnce(pbtxtInPieces(text, "ModelConfig", true));
const json = (text: string) => parseRapidJson(Buffer.from(text));

/** Returns the CPU time for a text, which may be refused, in milliseconds. */
function costOf(parse: (text: string) => unknown, text: string): number {
  const before = process.cpuUsage();
  try {
    parse(text);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    expect(error.name).not.toBe("RangeError");
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const PARSERS = [
  ["pbtxt", pbtxt, PBTXT],
  ["RapidJSON", json, JSON_TEXTS],
] as const;
const CASES = PARSERS.flatMap(([parser, parse, texts]) =>
  Object.entries(texts).map(([name, text]) => [parser, name, parse, text] as const),
);

test.each(CASES)("%s, %s: time grows with the text, by at most 2 µs per byte", (_, __, parse, text) => {
  costOf(parse, text.slice(0, LENGTH / 8));
  expect(costOf(parse, text)).toBeLessThan((2 * LENGTH) / 1000);
});

test.each(PARSERS)("%s: memory of a parsed text is at most 200 times its bytes", (_, parse, texts) => {
  for (const [name, text] of Object.entries(texts)) {
    Bun.gc(true);
    const before = process.memoryUsage().heapUsed;
    let made: unknown = null;
    try {
      made = parse(text);
    } catch {
      // A refused text keeps no memory.
    }
    Bun.gc(true);
    expect((process.memoryUsage().heapUsed - before) / LENGTH, name).toBeLessThan(200);
    expect(made === undefined).toBe(false);
  }
});

test.each(PARSERS)("%s: any text gives a value or an error message", (_, parse, texts) => {
  const pieces = Object.values(texts).map((text) => text.slice(0, 40));
  const text = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 20 })), { maxLength: 8 });
  fc.assert(
    fc.property(text, (parts) => {
      expect(costOf(parse, parts.join(""))).toBeLessThan(1000);
    }),
    { numRuns: times(2000) },
  );
});
