/**
 * What does Python's `json.loads(bytes)` make of a body, and where does it fail? CPython 3.11, `json/decoder.py` and
 * `Modules/_json.c`: messages, positions (in code points), NaN and Infinity, lone surrogates, ints of any size.
 */

import { atOnce, ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";
import { codePoints, type PythonDict, PythonFloat, type PythonValue, setOwn, toInt } from "./value.ts";

/** `json.JSONDecodeError`; `position` counts code points. */
export class PythonJsonError {
  constructor(
    readonly message: string,
    readonly position: number,
  ) {}
}

/** Where in a text, as Python's messages say it; `position` counts code points. */
export function placeIn(text: string, position: number): string {
  let [line, column, seen] = [1, 1, 0];
  for (const character of text) {
    if (seen++ === position) break;
    column++;
    if (character === "\n") [line, column] = [line + 1, 1];
  }
  return `line ${line} column ${column} (char ${position})`;
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

/** Parses a whole document in pieces. Throws as `parsePython` does. */
export function pythonPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, false).document();
}

/** In pieces what `JSON.parse` gives. Throws as well where Python alone takes it, or nests deeper than Python follows. */
export function plainPieces(text: string): Pieces<PythonValue> {
  return new Parser(text, true).document();
}

const [QUOTE, BRACE, BRACKET] = [0x22, 0x7b, 0x5b];
const [ZERO, NINE, POINT, SMALL_E, LARGE_E] = [0x30, 0x39, 0x2e, 0x65, 0x45];
/** Ints of so many digits are safe. */
const PLAIN_DIGITS = 15;

/** A container that is being read; `key` is that of the next value. */
interface Open {
  readonly into: PythonValue[] | PythonDict;
  key: string;
}

function add({ into, key }: Open, value: PythonValue): void {
  if (Array.isArray(into)) into.push(value);
  else if (into instanceof Map) into.set(key, value);
  else setOwn(into, key, value);
}

/** Characters, and escapes, of one text between two pieces. */
const TEXT_OF_A_PIECE = 32_768;
const ESCAPES_OF_A_PIECE = 2048;

class Parser {
  private at = 0;
  private members = 0;
  /** The text that is being read, as far as it is, and where it began. */
  private said = "";
  private begun = 0;

  /** `plain`: objects and numbers as `JSON.parse` makes them. */
  constructor(
    private readonly text: string,
    private readonly plain: boolean,
  ) {}

  /** Without recursion: a generator in a generator for each level takes long to leave. */
  *document(): Pieces<PythonValue> {
    const open: Open[] = [];
    this.skipBlanks();
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      let value: PythonValue;
      if (unit === QUOTE) {
        for (this.begin(); !this.more(); ) yield;
        value = this.said;
      } else if (unit === BRACE || unit === BRACKET) {
        if (open.length >= MAX_DEPTH) throw new PythonJsonFailure();
        const into = unit === BRACKET ? [] : this.plain ? {} : new Map<string, PythonValue>();
        if (!this.isEmpty(unit)) {
          open.push({ into, key: "" });
          if (unit === BRACKET) continue;
          for (this.beginKey(); !this.more(); ) yield;
          open.at(-1)!.key = this.key();
          continue;
        }
        value = into;
      } else value = this.simple();
      for (;;) {
        const around = open.at(-1);
        if (around === undefined) return this.whole(value);
        add(around, value);
        if (++this.members % ITEMS_OF_A_PIECE === 0) yield;
        const isList = Array.isArray(around.into);
        if (!this.closes(isList ? "]" : "}")) {
          if (isList) break;
          for (this.beginKey(); !this.more(); ) yield;
          around.key = this.key();
          break;
        }
        value = around.into;
        open.pop();
      }
    }
  }

  private whole(value: PythonValue): PythonValue {
    this.skipBlanks();
    if (this.at !== this.text.length) this.fail("Extra data", this.at);
    return value;
  }

  /** Goes into a container; true: and out again, as nothing is in it. */
  private isEmpty(unit: number): boolean {
    this.at++;
    this.skipBlanks();
    if (this.text.charCodeAt(this.at) !== unit + 2) return false; // the codes of the brackets
    this.at++;
    return true;
  }

  private beginKey(): void {
    if (this.text.charCodeAt(this.at) !== QUOTE)
      this.fail("Expecting property name enclosed in double quotes", this.at);
    this.begin();
  }

  /** The key that was read; goes on to its value. */
  private key(): string {
    const key = this.said;
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

  /** An int of a few digits, as most are: a match of an expression is garbage of a hundred bytes. Null: any other number. */
  private digits(): number | null {
    const { text, at } = this;
    let value = 0;
    let end = at;
    let unit = text.charCodeAt(end);
    while (unit >= ZERO && unit <= NINE && end - at < PLAIN_DIGITS) {
      value = value * 10 + (unit - ZERO);
      unit = text.charCodeAt(++end);
    }
    const goesOn = (unit >= ZERO && unit <= NINE) || unit === POINT || unit === SMALL_E || unit === LARGE_E;
    if (goesOn || (end - at > 1 && text.charCodeAt(at) === ZERO)) return null;
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

  private begin(): void {
    this.begun = this.at++;
    this.said = "";
  }

  /** Reads on in the text that is open: true at its end, false where there is more than one piece of it. */
  private more(): boolean {
    // Joined at the end of each piece: half a million bits added one to the other take long to become one text.
    let parts: string[] | null = null;
    for (let escapes = 0; ; escapes++) {
      const from = this.at;
      const most = from + TEXT_OF_A_PIECE;
      let unit = this.text.charCodeAt(this.at);
      while (unit >= 0x20 && unit !== QUOTE && unit !== 0x5c && this.at < most) unit = this.text.charCodeAt(++this.at);
      const plain = this.text.slice(from, this.at);
      if (Number.isNaN(unit)) this.fail("Unterminated string starting at", this.begun);
      if (unit < 0x20) this.fail("Invalid control character at", this.at);
      const ends = unit === QUOTE;
      if (unit !== 0x5c || escapes === ESCAPES_OF_A_PIECE) {
        this.said += parts === null ? plain : parts.join("") + plain;
        if (ends) this.at++;
        return ends;
      }
      this.at++;
      parts ??= [];
      parts.push(plain, this.escape(this.begun));
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
