/** `repr` and `json.dumps` write any character like Python, and megabytes of text quickly. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { dumpsString } from "../../../src/servers/pydantic/dumps.ts";
import { reprString } from "../../../src/servers/pydantic/repr.ts";
import { cpuUs } from "../../cpu.ts";
import { times } from "../../size.ts";

/** Returns a character as CPython 3.11 writes it between single quotes. */
function escaped(character: string): string {
  const short = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  if (short !== undefined) return short;
  if (character === " " || !/[\p{C}\p{Z}]/u.test(character)) return character;
  const code = character.codePointAt(0)!;
  const [letter, digits] = code <= 0xff ? ["x", 2] : code <= 0xffff ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(digits as number, "0")}`;
}

const texts = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "'",
        '"',
        "\\",
        "\n",
        "\t",
        "\u0000",
        "\u00a0",
        "\u2028",
        " ",
        "é",
        "👩",
        "\u{e0001}",
        "u",
        "ud800",
      ),
      fc.constantFrom("\ud83d", "\udc69"),
    ),
    { maxLength: 12 },
  )
  .map((all) => all.join(""));

test("a text is the sum of its escaped characters, also at the borders of the parts of a long text", () => {
  fc.assert(
    fc.property(texts, fc.boolean(), (text, long) => {
      const whole = long ? "x".repeat(65_536 - 3) + text : text;
      const quote = whole.includes("'") && !whole.includes('"') ? '"' : "'";
      const inner = [...whole].map((character) => (character === quote ? `\\${quote}` : escaped(character))).join("");
      expect(reprString(whole) === quote + inner + quote).toBe(true);
    }),
    { numRuns: times(500) },
  );
});

test("dumps keeps lone surrogates, and escapes like JSON.stringify", () => {
  fc.assert(
    fc.property(texts, (text) => {
      const inner = [...text].map((unit) => (unit.isWellFormed() ? JSON.stringify(unit).slice(1, -1) : unit)).join("");
      expect(dumpsString(text) === `"${inner}"`).toBe(true);
    }),
    { numRuns: times(500) },
  );
});

test("escaping megabytes of text costs as much as a few passes over it", () => {
  for (const text of ["x".repeat(2 ** 21), `${"é".repeat(2 ** 20)}\ud800`]) {
    const pass = cpuUs(() => {
      let sum = 0;
      for (let at = 0; at < text.length; at++) sum += text.charCodeAt(at);
      expect(sum).toBeGreaterThan(0);
    });
    for (const write of [reprString, dumpsString]) {
      const took = cpuUs(() => {
        expect(write(text).charCodeAt(9)).toBeGreaterThan(0);
      });
      expect(took / pass).toBeLessThan(20);
    }
  }
});
