/** Tests that text from outside is escaped so that a terminal only displays it, and that JSON keeps its value. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { PRINTED_LINE_MOST, printable, printableJson, printableLines } from "../../src/base/printable.ts";
import { TerminalLine } from "../../src/cli/terminal-line.ts";
import { times } from "../size.ts";

const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 50 }).map((codes) => String.fromCharCode(...codes)),
);

test.each([
  ["\u001b[31mred\u0007", "\\x1b[31mred\\x07"],
  ["\u009b2J\u007f\u0000", "\\x9b2J\\x7f\\x00"],
  ["a\u202eb\u2066c\u200fd", "a\\u202eb\\u2066c\\u200fd"],
  ["tag \u{e0041} and half \ud83d", "tag \\u{e0041} and half \\ud83d"],
  ["two\nlines\r\tof \u2028 text", "two\\x0alines\\x0d\\x09of \\u2028 text"],
  ["grüße 🦔 → ok \\x1b", "grüße 🦔 → ok \\x1b"],
])("%j is shown as %s", (text, shown) => {
  expect(printable(text)).toBe(shown);
});

test("any text: no terminal code is left, and the number of lines stays", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(printable(text)).not.toMatch(UNSAFE);
      expect(printableLines(text).replace(/[\n\t]/g, "")).not.toMatch(UNSAFE);
      expect(printableLines(text).split("\n")).toHaveLength(text.split("\n").length);
      if (!UNSAFE.test(text)) expect(printable(text)).toBe(text);
    }),
    { numRuns: times(2000) },
  );
});

test("any JSON: the value stays, and no terminal code is left", () => {
  fc.assert(
    fc.property(
      fc.anything({ key: anyText, values: [anyText, fc.double()] }),
      fc.constantFrom(undefined, 2),
      (value, indent) => {
        fc.pre(JSON.stringify(value) !== undefined);
        const text = printableJson(value, indent);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(text.replaceAll("\n", "")).not.toMatch(UNSAFE);
      },
    ),
    { numRuns: times(1000) },
  );
});

test("a line of more than 4,096 characters is cut, and says by how much", () => {
  const shown = printableLines(`short\n${"y".repeat(PRINTED_LINE_MOST + 5)}`);
  expect(shown).toBe(`short\n${"y".repeat(PRINTED_LINE_MOST)}… (5 more characters)`);
});

test("a line that replaces itself keeps its own terminal codes, and escapes those in its text", () => {
  let written = "";
  new TerminalLine(true, (text) => {
    written += text;
  }).show("at \u001b[2J");
  expect(written).toBe("\r\u001b[Kat \\x1b[2J");
});

test("commands print only through print.ts and terminal-line.ts, except for the server's log", () => {
  const root = new URL("../../src/cli/", import.meta.url).pathname;
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  expect(files.length).toBeGreaterThan(40);
  const printing = files.filter((name) =>
    /console\.(log|error|warn|info)\(|process\.std(out|err)\.write\(/.test(readFileSync(join(root, name), "utf8")),
  );
  expect(printing.sort()).toEqual(["print.ts", "serve/serve.ts", "terminal-line.ts"]);
});
