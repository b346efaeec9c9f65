/**
 * What does Python's `json.loads(bytes)` make of a body, and where does it fail? CPython 3.11, `json/decoder.py` and
 * `Modules/_json.c`: messages, positions (in code points), NaN and Infinity, lone surrogates, ints of any size.
 */

import { codePoints, PythonFloat, type PythonValue, toInt } from "./python-value.ts";

/** `json.JSONDecodeError`; `position` counts code points. */
export class PythonJsonError {
  constructor(
    readonly message: string,
    readonly position: number,
  ) {}
}

/** Any other failure of `json.loads`: bytes that are no text, nesting that is too deep, an int of more than 4,300 digits. */
export class PythonJsonFailure {}

/**
 * Containers inside containers before CPython raises RecursionError: its limit of 1,000 less the frames of the server
 * around the call. The recordings say 400 pass and 6,000 do not; the exact figure depends on the middleware.
 */
export const MAX_DEPTH = 950;
/** CPython's `sys.int_info.default_max_str_digits`. */
const MAX_INT_DIGITS = 4300;

const WORDS: ReadonlyArray<readonly [string, PythonValue]> = [
  ["null", null],
  ["true", true],
  ["false", false],
  ["NaN", new PythonFloat(Number.NaN)],
  ["Infinity", new PythonFloat(Number.POSITIVE_INFINITY)],
  ["-Infinity", new PythonFloat(Number.NEGATIVE_INFINITY)],
];
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** Parses a whole document. Throws PythonJsonError or PythonJsonFailure. */
export function parsePython(text: string): PythonValue {
  return new Parser(text).document();
}

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  document(): PythonValue {
    this.skipBlanks();
    const value = this.value();
    this.skipBlanks();
    if (this.at !== this.text.length) this.fail("Extra data", this.at);
    return value;
  }

  private value(): PythonValue {
    const character = this.text[this.at];
    if (character === '"') return this.string();
    if (character === "{" || character === "[") {
      if (++this.depth > MAX_DEPTH) throw new PythonJsonFailure();
      const value = character === "{" ? this.dict() : this.list();
      this.depth--;
      return value;
    }
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return value;
    }
    return this.number();
  }

  private number(): PythonValue {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) this.fail("Expecting value", this.at);
    const digits = match[0];
    this.at += digits.length;
    if (match[1] !== undefined || match[2] !== undefined) return new PythonFloat(Number(digits));
    const small = Number(digits);
    if (Number.isSafeInteger(small)) return small === 0 ? 0 : small;
    if (digits.replace("-", "").length > MAX_INT_DIGITS) throw new PythonJsonFailure();
    return toInt(BigInt(digits));
  }

  private dict(): PythonValue {
    const dict = new Map<string, PythonValue>();
    this.at++;
    this.skipBlanks();
    if (this.text[this.at] === "}") {
      this.at++;
      return dict;
    }
    for (;;) {
      if (this.text[this.at] !== '"') this.fail("Expecting property name enclosed in double quotes", this.at);
      const key = this.string();
      this.skipBlanks();
      if (this.text[this.at] !== ":") this.fail("Expecting ':' delimiter", this.at);
      this.at++;
      this.skipBlanks();
      dict.set(key, this.value());
      if (this.closes("}")) return dict;
    }
  }

  private list(): PythonValue {
    const list: PythonValue[] = [];
    this.at++;
    this.skipBlanks();
    if (this.text[this.at] === "]") {
      this.at++;
      return list;
    }
    for (;;) {
      list.push(this.value());
      if (this.closes("]")) return list;
    }
  }

  /** After a member: true at the closing bracket, false after a comma. */
  private closes(bracket: string): boolean {
    this.skipBlanks();
    const character = this.text[this.at];
    if (character !== bracket && character !== ",") this.fail("Expecting ',' delimiter", this.at);
    this.at++;
    if (character === bracket) return true;
    this.skipBlanks();
    return false;
  }

  private string(): string {
    const begin = this.at++;
    let value = "";
    for (;;) {
      const from = this.at;
      let unit = this.text.charCodeAt(this.at);
      while (unit >= 0x20 && unit !== 0x22 && unit !== 0x5c) unit = this.text.charCodeAt(++this.at);
      value += this.text.slice(from, this.at);
      if (Number.isNaN(unit)) this.fail("Unterminated string starting at", begin);
      if (unit < 0x20) this.fail("Invalid control character at", this.at);
      this.at++;
      if (unit === 0x22) return value;
      value += this.escape(begin);
    }
  }

  /** The text of an escape; `at` stands behind the backslash. */
  private escape(begin: number): string {
    const character = this.text[this.at];
    if (character === undefined) this.fail("Unterminated string starting at", begin);
    if (character !== "u") {
      const plain = ESCAPES[character];
      if (plain === undefined) this.fail("Invalid \\escape", this.at - 1);
      this.at++;
      return plain;
    }
    // The C scanner wants one more character behind the four digits.
    if (this.at + 5 >= this.text.length) this.fail("Invalid \\uXXXX escape", this.at);
    const unit = this.hex(this.at + 1);
    if (unit === undefined) this.fail("Invalid \\uXXXX escape", this.at);
    this.at += 5;
    const pairs = unit >= 0xd800 && unit <= 0xdbff && this.at + 6 < this.text.length;
    if (!pairs || !this.text.startsWith("\\u", this.at)) return String.fromCharCode(unit);
    const second = this.hex(this.at + 2);
    if (second === undefined) this.fail("Invalid \\uXXXX escape", this.at + 1);
    if (second < 0xdc00 || second > 0xdfff) return String.fromCharCode(unit);
    this.at += 6;
    return String.fromCharCode(unit, second);
  }

  private hex(at: number): number | undefined {
    const digits = this.text.slice(at, at + 4);
    return /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : undefined;
  }

  private skipBlanks(): void {
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.at++;
    }
  }

  private fail(message: string, at: number): never {
    throw new PythonJsonError(message, codePoints(this.text.slice(0, at)));
  }
}

/** True when containers nest deeper than Python follows. Cheap where a body has few brackets. */
export function tooDeep(text: string): boolean {
  if (text.length <= MAX_DEPTH) return false;
  let brackets = 0;
  for (const bracket of ["[", "{"])
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1))
      if (++brackets > MAX_DEPTH) return measure(text);
  return false;
}

function measure(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > MAX_DEPTH) return true;
    } else if (unit === 0x5d || unit === 0x7d) depth--;
  }
  return false;
}
