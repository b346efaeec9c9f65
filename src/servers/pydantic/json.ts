/**
 * Parses JSON like Python's `json.loads`: the same error messages and positions, NaN and infinities, lone surrogates, and
 * ints of any size. FastAPI reads bodies with it. Source: CPython 3.11, `json/decoder.py` and `Modules/_json.c`.
 */

import { atOnce, ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";
import { codePoints, type PythonDict, PythonFloat, type PythonValue, setOwn, toInt } from "./value.ts";

/** Python's `json.JSONDecodeError`. `position`: offset in the text, in code points. */
export class PythonJsonError {
  constructor(
    readonly message: string,
    readonly position: number,
  ) {}
}

/** Returns a place in a text as Python's messages name it. `position`: offset in code points. */
export function placeIn(text: string, position: number): string {
  let [line, column, seen] = [1, 1, 0];
  for (const character of text) {
    if (seen++ === position) break;
    column++;
    if (character === "\n") [line, column] = [line + 1, 1];
  }
  return `line ${line} column ${column} (char ${position})`;
}

/** Any other failure of `json.loads`: nesting above the recursion limit, or an int of more than 4,300 digits. */
export class PythonJsonFailure {}

/**
 * Nested containers before CPython raises RecursionError: its limit of 1,000 frames, less the frames of the server. In the
 * recordings 400 pass and 6,000 do not. The exact number depends on the middleware.
 */
export const MAX_DEPTH = 950;
/** Digits of the longest int: CPython's `sys.int_info.default_max_str_digits`. */
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

/** Parses a whole document in pieces. Throws PythonJsonError or PythonJsonFailure. */
export function pythonPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, false).document();
}

/**
 * Parses a whole document in pieces into the values of `JSON.parse`. Also throws for NaN and infinities, which only Python
 * accepts, and for nesting above `MAX_DEPTH`.
 */
export function plainPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, true).document();
}

const [QUOTE, BRACE, BRACKET] = [0x22, 0x7b, 0x5b];
const [ZERO, NINE, POINT, SMALL_E, LARGE_E] = [0x30, 0x39, 0x2e, 0x65, 0x45];
/** Any int of at most this many digits is a safe integer. */
const SAFE_DIGITS = 15;

/** A list or object that is not closed yet. `key`: the key of the object's next value. */
interface OpenContainer {
  readonly into: PythonValue[] | PythonDict;
  key: string;
}

function add({ into, key }: OpenContainer, value: PythonValue): void {
  if (Array.isArray(into)) into.push(value);
  else if (into instanceof Map) into.set(key, value);
  else setOwn(into, key, value);
}

/** UTF-16 units of one string that are read in a piece, from one escape to the next. */
const TEXT_OF_A_PIECE = 32_768;
/** Escapes of one string that are read in a piece. */
const ESCAPES_OF_A_PIECE = 2048;

class Parser {
  private at = 0;
  private members = 0;
  /** The part of the current string that was read so far. */
  private string = "";
  /** Offset of the opening quote of the current string. */
  private stringStart = 0;

  /** `plain`: true to return objects and numbers like `JSON.parse`, false for the values that Python distinguishes. */
  constructor(
    private readonly text: string,
    private readonly plain: boolean,
  ) {}

  /** Parses the whole text. It does not recurse, because each yield of nested generators passes through all of them. */
  *document(): Pieces<PythonValue> {
    const open: OpenContainer[] = [];
    this.skipBlanks();
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      let value: PythonValue;
      if (unit === QUOTE) {
        for (this.beginString(); !this.readMore(); ) yield;
        value = this.string;
      } else if (unit === BRACE || unit === BRACKET) {
        if (open.length >= MAX_DEPTH) throw new PythonJsonFailure();
        const into = unit === BRACKET ? [] : this.plain ? {} : new Map<string, PythonValue>();
        if (!this.isEmpty(unit)) {
          open.push({ into, key: "" });
          if (unit === BRACKET) continue;
          for (this.beginKey(); !this.readMore(); ) yield;
          open.at(-1)!.key = this.key();
          continue;
        }
        value = into;
      } else value = this.simple();
      for (;;) {
        const parent = open.at(-1);
        if (parent === undefined) return this.whole(value);
        add(parent, value);
        if (++this.members % ITEMS_OF_A_PIECE === 0) yield;
        const isList = Array.isArray(parent.into);
        if (!this.closes(isList ? "]" : "}")) {
          if (isList) break;
          for (this.beginKey(); !this.readMore(); ) yield;
          parent.key = this.key();
          break;
        }
        value = parent.into;
        open.pop();
      }
    }
  }

  private whole(value: PythonValue): PythonValue {
    this.skipBlanks();
    if (this.at !== this.text.length) this.fail("Extra data", this.at);
    return value;
  }

  /** Reads the opening bracket. If the container is empty, also reads the closing bracket and returns true. */
  private isEmpty(unit: number): boolean {
    this.at++;
    this.skipBlanks();
    // In ASCII each closing bracket is 2 above its opening one.
    if (this.text.charCodeAt(this.at) !== unit + 2) return false;
    this.at++;
    return true;
  }

  private beginKey(): void {
    if (this.text.charCodeAt(this.at) !== QUOTE)
      this.fail("Expecting property name enclosed in double quotes", this.at);
    this.beginString();
  }

  /** Returns the key that was just read, and moves to its value. */
  private key(): string {
    const key = this.string;
    this.skipBlanks();
    if (this.text[this.at] !== ":") this.fail("Expecting ':' delimiter", this.at);
    this.at++;
    this.skipBlanks();
    return key;
  }

  private simple(): PythonValue {
    const unit = this.text.charCodeAt(this.at);
    if (unit >= ZERO && unit <= NINE) return this.digits() ?? this.number();
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      if (this.plain && value instanceof PythonFloat) throw new PythonJsonFailure();
      this.at += word.length;
      return value;
    }
    return this.number();
  }

  /**
   * Reads an unsigned int of at most 15 digits without a regular expression, whose match would be a hundred bytes of garbage.
   * Returns null and reads nothing if the number is of another form.
   */
  private digits(): number | null {
    const { text, at } = this;
    let value = 0;
    let end = at;
    let unit = text.charCodeAt(end);
    while (unit >= ZERO && unit <= NINE && end - at < SAFE_DIGITS) {
      value = value * 10 + (unit - ZERO);
      unit = text.charCodeAt(++end);
    }
    const continues = (unit >= ZERO && unit <= NINE) || unit === POINT || unit === SMALL_E || unit === LARGE_E;
    if (continues || (end - at > 1 && text.charCodeAt(at) === ZERO)) return null;
    this.at = end;
    return value;
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

  /** Reads what separates members: returns true after the closing bracket, false after a comma. */
  private closes(bracket: string): boolean {
    this.skipBlanks();
    const character = this.text[this.at];
    if (character !== bracket && character !== ",") this.fail("Expecting ',' delimiter", this.at);
    this.at++;
    if (character === bracket) return true;
    this.skipBlanks();
    return false;
  }

  private beginString(): void {
    this.stringStart = this.at++;
    this.string = "";
  }

  /** Continues to read the current string. Returns true at its end, false at the limit of a piece. */
  private readMore(): boolean {
    // Joined once per piece, because appending half a million parts one by one makes a string that is slow to flatten.
    let parts: string[] | null = null;
    for (let escapes = 0; ; escapes++) {
      const from = this.at;
      const most = from + TEXT_OF_A_PIECE;
      let unit = this.text.charCodeAt(this.at);
      while (unit >= 0x20 && unit !== QUOTE && unit !== 0x5c && this.at < most) unit = this.text.charCodeAt(++this.at);
      const plain = this.text.slice(from, this.at);
      if (Number.isNaN(unit)) this.fail("Unterminated string starting at", this.stringStart);
      if (unit < 0x20) this.fail("Invalid control character at", this.at);
      const ends = unit === QUOTE;
      if (unit !== 0x5c || escapes === ESCAPES_OF_A_PIECE) {
        this.string += parts === null ? plain : parts.join("") + plain;
        if (ends) this.at++;
        return ends;
      }
      this.at++;
      parts ??= [];
      parts.push(plain, this.escape(this.stringStart));
    }
  }

  /** Returns the text of an escape, whose backslash has been read. */
  private escape(begin: number): string {
    const character = this.text[this.at];
    if (character === undefined) this.fail("Unterminated string starting at", begin);
    if (character !== "u") {
      const plain = ESCAPES[character];
      if (plain === undefined) this.fail("Invalid \\escape", this.at - 1);
      this.at++;
      return plain;
    }
    // The C scanner requires one more character after the four digits.
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
