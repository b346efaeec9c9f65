/**
 * What does Python's `json.loads(bytes)` make of a body, and where does it fail? CPython 3.11, `json/decoder.py` and
 * `Modules/_json.c`: messages, positions (in code points), NaN and Infinity, lone surrogates, ints of any size.
 */

import { atOnce, ITEMS_OF_A_PIECE, type Pieces } from "./pieces.ts";
import { codePoints, type PythonDict, PythonFloat, type PythonValue, set, toInt } from "./python-value.ts";

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
  return atOnce(pythonPieces(text));
}

/** The same in pieces. */
export function pythonPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, false).document();
}

/** In pieces what `JSON.parse` gives. Throws as well where Python alone takes it, or nests deeper than Python follows. */
export function plainPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, true).document();
}

/** Characters or escapes of one text between two pieces. */
const TEXT_OF_A_PIECE = 32_768;

class Parser {
  private at = 0;
  private depth = 0;
  private members = 0;
  /** The text that is being read, as far as it is, and where it began. */
  private said = "";
  private begun = 0;

  /** `plain`: objects and numbers as `JSON.parse` makes them. */
  constructor(
    private readonly text: string,
    private readonly plain: boolean,
  ) {}

  *document(): Pieces<PythonValue> {
    this.skipBlanks();
    const value = this.isSimple() ? this.simple() : yield* this.value();
    this.skipBlanks();
    if (this.at !== this.text.length) this.fail("Extra data", this.at);
    return value;
  }

  /** No text and no container: read in one go. */
  private isSimple(): boolean {
    const unit = this.text.charCodeAt(this.at);
    return unit !== 0x22 && unit !== 0x7b && unit !== 0x5b;
  }

  private *value(): Pieces<PythonValue> {
    const unit = this.text.charCodeAt(this.at);
    if (unit === 0x22) {
      for (this.open(); !this.more(); ) yield;
      return this.said;
    }
    if (++this.depth > MAX_DEPTH) throw new PythonJsonFailure();
    const value = unit === 0x7b ? yield* this.dict() : yield* this.list();
    this.depth--;
    return value;
  }

  private simple(): PythonValue {
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      if (this.plain && value instanceof PythonFloat) throw new PythonJsonFailure();
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
    if (this.plain) return Number(digits);
    if (match[1] !== undefined || match[2] !== undefined) return new PythonFloat(Number(digits));
    const small = Number(digits);
    if (Number.isSafeInteger(small)) return small === 0 ? 0 : small;
    if (digits.replace("-", "").length > MAX_INT_DIGITS) throw new PythonJsonFailure();
    return toInt(BigInt(digits));
  }

  private *dict(): Pieces<PythonValue> {
    const dict: PythonDict = this.plain ? {} : new Map<string, PythonValue>();
    this.at++;
    this.skipBlanks();
    if (this.text[this.at] === "}") {
      this.at++;
      return dict;
    }
    for (;;) {
      if (this.text[this.at] !== '"') this.fail("Expecting property name enclosed in double quotes", this.at);
      for (this.open(); !this.more(); ) yield;
      const key = this.said;
      this.skipBlanks();
      if (this.text[this.at] !== ":") this.fail("Expecting ':' delimiter", this.at);
      this.at++;
      this.skipBlanks();
      const value = this.isSimple() ? this.simple() : yield* this.value();
      if (key !== "__proto__" || dict instanceof Map) set(dict, key, value);
      else Object.defineProperty(dict, key, { value, enumerable: true, configurable: true, writable: true });
      if (++this.members % ITEMS_OF_A_PIECE === 0) yield;
      if (this.closes("}")) return dict;
    }
  }

  private *list(): Pieces<PythonValue> {
    const list: PythonValue[] = [];
    this.at++;
    this.skipBlanks();
    if (this.text[this.at] === "]") {
      this.at++;
      return list;
    }
    for (;;) {
      list.push(this.isSimple() ? this.simple() : yield* this.value());
      if (++this.members % ITEMS_OF_A_PIECE === 0) yield;
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

  private open(): void {
    this.begun = this.at++;
    this.said = "";
  }

  /** Reads on in the text that is open: true at its end, false where there is more than one piece of it. */
  private more(): boolean {
    for (let escapes = 0; escapes < TEXT_OF_A_PIECE; escapes++) {
      const from = this.at;
      const most = from + TEXT_OF_A_PIECE;
      let unit = this.text.charCodeAt(this.at);
      while (unit >= 0x20 && unit !== 0x22 && unit !== 0x5c && this.at < most) unit = this.text.charCodeAt(++this.at);
      this.said += this.text.slice(from, this.at);
      if (Number.isNaN(unit)) this.fail("Unterminated string starting at", this.begun);
      if (unit < 0x20) this.fail("Invalid control character at", this.at);
      if (unit !== 0x22 && unit !== 0x5c) return false;
      this.at++;
      if (unit === 0x22) return true;
      this.said += this.escape(this.begun);
    }
    return false;
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
