/** Writes values like Python's `json.dumps(value, ensure_ascii=False)`. Source: CPython 3.11, `json/encoder.py`. */
import { reprFloat } from "./repr.ts";
import { get, isList, keysOf, type PythonDict, PythonFloat, type PythonValue } from "./value.ts";

/** Returns the JSON of the value, with a space after each comma and colon, and numbers as Python writes them. */
export function pythonDumps(value: PythonValue): string {
  if (value === null) return "null";
  if (typeof value === "string") return dumpsString(value);
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  // Only the fast JSON parser returns fractions as plain numbers.
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : floatText(value);
  if (value instanceof PythonFloat) return floatText(value.value);
  if (isList(value)) return `[${value.map(pythonDumps).join(", ")}]`;
  const dict = value as PythonDict;
  const members = keysOf(dict).map((key) => `${dumpsString(key)}: ${pythonDumps(get(dict, key) as PythonValue)}`);
  return `{${members.join(", ")}}`;
}

/** Quotes a text like `JSON.stringify`, but writes lone surrogates unescaped. */
export function dumpsString(text: string): string {
  if (text.isWellFormed()) return JSON.stringify(text);
  // `JSON.stringify` writes the escapes d800 to dfff only for lone surrogates.
  return JSON.stringify(text).replace(/\\(?:u(d[89a-f][0-9a-f]{2})|.)/g, (escaped, code?: string) =>
    code === undefined ? escaped : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return reprFloat(value);
}
