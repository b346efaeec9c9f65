/** Writes values like Python's `repr` and `str`, because error texts of vLLM quote the request so. Source: CPython 3.11. */

import { ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";
import { get, isList, keysOf, PythonFloat, type PythonValue } from "./value.ts";

/**
 * Characters that `repr` writes as an escape: quotes, the backslash, and the characters that `str.isprintable` refuses. The
 * space is the only separator that prints. Bun 1.4.5 needs 22 ms to compile the same set as `[\p{C}\p{Z}]--[ ]` with flag `v`.
 */
const ESCAPED = /[\\'"]|(?! )[\p{C}\p{Z}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
/** UTF-16 units of a long text that are escaped at once, so that millions of escapes do not wait in memory. */
const PART_UNITS = 65_536;

function escapeCharacter(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) as number;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** Returns `repr(text)`: in double quotes if the text has single quotes only, else in single quotes. */
export function reprString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escapeOne = (character: string) => {
    if (character === quote) return `\\${quote}`;
    return character === "'" || character === '"' ? character : escapeCharacter(character);
  };
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at + PART_UNITS;
    // Do not split a surrogate pair.
    if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(end) & 0xfc00) === 0xdc00) end++;
    parts.push(text.slice(at, end).replace(ESCAPED, escapeOne));
    at = end;
  }
  return quote + parts.join("") + quote;
}

/** Returns `repr(float)`: the shortest digits that read back equal, with an exponent if below 1e-4 or at least 1e16. */
export function reprFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-4 && size < 1e16)) {
    // JavaScript writes these numbers like Python, except whole ones.
    const text = String(value);
    return text.includes(".") ? text : `${text}.0`;
  }
  const [mantissa, power] = value.toExponential().split("e") as [string, string];
  const exponent = Number(power);
  const digits = String(Math.abs(exponent)).padStart(2, "0");
  return `${mantissa}e${exponent < 0 ? "-" : "+"}${digits}`;
}

/** Returns `repr(value)`. A plain number with a whole value is an int. */
export function repr(value: PythonValue): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return reprString(value);
  if (value instanceof PythonFloat) return reprFloat(value.value);
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : reprFloat(value);
  if (typeof value === "bigint") return String(value);
  if (isList(value)) return `[${value.map(repr).join(", ")}]`;
  return `{${keysOf(value)
    .map((key) => `${reprString(key)}: ${repr(get(value, key) as PythonValue)}`)
    .join(", ")}}`;
}

/** Returns `repr(list)`, in pieces. */
export function* reprPieces(list: readonly PythonValue[]): Pieces<string> {
  const parts: string[] = [];
  for (let at = 0; at < list.length; at += ITEMS_OF_A_PIECE) {
    const piece = list.slice(at, at + ITEMS_OF_A_PIECE);
    parts.push(piece.map(repr).join(", "));
    yield;
  }
  return `[${parts.join(", ")}]`;
}

/** Returns `str(value)`: a string unchanged, or the `repr` of any other value. */
export function str(value: PythonValue): string {
  return typeof value === "string" ? value : repr(value);
}
