/** How does Python's `json.dumps(value, ensure_ascii=False)` write a value? CPython 3.11, `json/encoder.py`. */
import { reprFloat } from "./repr.ts";
import { get, isList, keysOf, type PythonDict, PythonFloat, type PythonValue } from "./value.ts";

/** With a blank after commas and colons; numbers as Python spells them. */
export function pythonDumps(value: PythonValue): string {
  if (value === null) return "null";
  if (typeof value === "string") return dumpsString(value);
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  // What the fast JSON parser gives for a float that is no integer.
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : floatText(value);
  if (value instanceof PythonFloat) return floatText(value.value);
  if (isList(value)) return `[${value.map(pythonDumps).join(", ")}]`;
  const dict = value as PythonDict;
  const members = keysOf(dict).map((key) => `${dumpsString(key)}: ${pythonDumps(get(dict, key) as PythonValue)}`);
  return `{${members.join(", ")}}`;
}

/** Lone surrogates stay as they are; all else as `JSON.stringify` writes it. */
export function dumpsString(text: string): string {
  if (text.isWellFormed()) return JSON.stringify(text);
  // `JSON.stringify` escapes lone surrogates alone by these codes.
  return JSON.stringify(text).replace(/\\(?:u(d[89a-f][0-9a-f]{2})|.)/g, (found, code?: string) =>
    code === undefined ? found : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return reprFloat(value);
}
