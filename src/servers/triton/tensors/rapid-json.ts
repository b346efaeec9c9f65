/**
 * What does a body of JSON say to Triton? Parsed as RapidJSON does it there (`kParseNanAndInfFlag`): its errors with the byte
 * where each was seen, whole numbers apart from others, members as often as they stand there, NaN and Inf. Texts are texts of
 * bytes, one character each: what is no UTF-8 comes through.
 */

import { Code } from "./json-codes.ts";
import { JsonMembers, type JsonNode, Real } from "./json-nodes.ts";
import { rapidDouble, realEnd } from "./rapid-double.ts";

/** "MESSAGE at BYTE", as Triton words it. */
export class RapidJsonError extends Error {
  override readonly name = "RapidJsonError";
}

/** Deeper ones would end the real parser's stack. */
const DEPTH_MOST = 1000;
const SMALLEST = -(2n ** 63n);
const LARGEST = 2n ** 64n - 1n;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d*)?([eE][+-]?\d*)?/y;
const SPECIAL = /-?(?:NaN|Inf(?:inity)?)/y;
/** With a sign; as many are safe in a double. */
const SHORT_DIGITS = 15;
/** No quote, no backslash, no control character; the end is none either. */
const isPlain = (code: number) => code >= 32 && code !== 34 && code !== 92;
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

/** Numbers of a list before it is made: then it is made at once, and no longer than it is. */
export const HELD: number[] = new Array(256).fill(0);
const SMALL_DIGITS = 9;

const KNOWN_MOST = 24;
const KNOWN_MASK = 255;
const KNOWN: string[] = new Array(KNOWN_MASK + 1).fill("");

/** As `startsWith`, which costs more than so few characters. */
function standsAt(text: string, from: number, known: string): boolean {
  for (let at = 0; at < known.length; at++) if (text.charCodeAt(from + at) !== known.charCodeAt(at)) return false;
  return true;
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Most of what an escape takes: two halves of a character. */
const ESCAPE_MOST = 12;

export class RapidJsonParser {
  readonly #text: string;
  /** Where the text stands in the body. */
  readonly #base: number;
  #at = 0;
  /** What there is of a text that is being read. */
  #made = "";

  constructor(text: string, base = 0) {
    this.#text = text;
    this.#base = base;
  }

  get at(): number {
    return this.#at;
  }

  /** Characters that are still to be read. */
  get left(): number {
    return this.#text.length - this.#at;
  }

  /** The code that was read last. */
  before(): number {
    return this.#text.charCodeAt(this.#at - 1);
  }

  /** Over the character that was looked at. */
  skip(): void {
    this.#at++;
  }

  /** Over a byte order mark, or what there is of one. */
  skipMark(): void {
    for (const code of BYTE_ORDER_MARK) if (this.#text.charCodeAt(this.#at) === code) this.#at++;
  }

  document(): JsonNode {
    this.skipMark();
    const first = this.space();
    if (this.#at >= this.#text.length) this.fail("The document is empty.");
    const value = this.#value(first, 0);
    this.space();
    if (this.#at < this.#text.length) this.fail("The document root must not be followed by other values.");
    return value;
  }

  /** `first` is the code that it begins with. */
  #value(first: number, depth: number): JsonNode {
    this.deep(depth);
    if (first === Code.OpenBrace) return this.#object(depth);
    return first === Code.OpenBracket ? this.#array(depth) : this.scalar(first);
  }

  deep(depth: number): void {
    if (depth > DEPTH_MOST) this.fail("Terminate parsing due to Handler error.");
  }

  /** No list, no object. */
  scalar(first: number): JsonNode {
    switch (first) {
      case Code.Quote:
        return this.string();
      case Code.T:
        return this.#word("true", true);
      case Code.F:
        return this.#word("false", false);
      case Code.N:
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #object(depth: number): JsonMembers {
    const made = new JsonMembers();
    this.#at++;
    let next = this.space();
    if (next === Code.CloseBrace) {
      this.#at++;
      return made;
    }
    for (;;) {
      if (next !== Code.Quote) this.fail("Missing a name for object member.");
      const name = this.string();
      if (this.space() !== Code.Colon) this.fail("Missing a colon after a name of object member.");
      this.#at++;
      made.add(name, this.#value(this.space(), depth + 1));
      next = this.space();
      if (next !== Code.CloseBrace && next !== Code.Comma) this.fail("Missing a comma or '}' after an object member.");
      this.#at++;
      if (next === Code.CloseBrace) return made;
      next = this.space();
    }
  }

  #array(depth: number): JsonNode[] {
    this.#at++;
    let next = this.space();
    if (next === Code.CloseBracket) {
      this.#at++;
      return [];
    }
    const numbers = depth < DEPTH_MOST ? this.smallNumbers() : 0;
    const made: JsonNode[] = HELD.slice(0, numbers);
    if (numbers > 0) {
      if (this.#text.charCodeAt(this.#at - 1) === Code.CloseBracket) return made;
      next = this.space();
    }
    for (;;) {
      made.push(this.#value(next, depth + 1));
      next = this.space();
      if (next !== Code.CloseBracket && next !== Code.Comma)
        this.fail("Missing a comma or ']' after an array element.");
      this.#at++;
      if (next === Code.CloseBracket) return made;
      next = this.space();
    }
  }

  /** So many whole numbers come one after the other, each with the comma behind it, or the last with the bracket, and are held. */
  smallNumbers(): number {
    const text = this.#text;
    let count = 0;
    let at = this.#at;
    while (count < HELD.length) {
      let digit = text.charCodeAt(at) - Code.Zero;
      if (!(digit >= 0 && digit <= 9)) break;
      let value = digit;
      let end = at + 1;
      digit = text.charCodeAt(end) - Code.Zero;
      if (value > 0)
        for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++end) - Code.Zero) value = value * 10 + digit;
      const next = digit + Code.Zero;
      if (end - at > SMALL_DIGITS || (next !== Code.Comma && next !== Code.CloseBracket)) break;
      HELD[count++] = value;
      at = end + 1;
      if (next === Code.CloseBracket) break;
      if (text.charCodeAt(at) === 32) at++;
    }
    this.#at = at;
    return count;
  }

  string(): string {
    return this.#known() ?? this.#other();
  }

  /** Names and such come again with each request: one that has come before is not made anew. */
  #known(): string | null {
    const text = this.#text;
    const from = this.#at + 1;
    const most = from + KNOWN_MOST;
    let sum = 0;
    let end = from;
    for (let code = text.charCodeAt(end); isPlain(code) && code < 128; code = text.charCodeAt(++end)) {
      if (end === most) return null;
      sum = (sum * 31 + code) & KNOWN_MASK;
    }
    if (text.charCodeAt(end) !== Code.Quote) return null;
    this.#at = end + 1;
    const known = KNOWN[sum]!;
    if (known.length === end - from && standsAt(text, from, known)) return known;
    // A copy: what is cut out of a text holds all of it.
    const made = Buffer.from(text.slice(from, end), "latin1").toString("latin1");
    KNOWN[sum] = made;
    return made;
  }

  #other(): string {
    this.beginText();
    this.textOn(true);
    return this.#made;
  }

  /** A text begins here; `textOn` reads it. */
  beginText(): void {
    this.#at++;
    this.#made = "";
  }

  /** The text that `textOn` has read, or the part of it that this parser has. */
  get made(): string {
    return this.#made;
  }

  /** False: what is here ends before the text does. `last`: nothing comes behind it. */
  textOn(last: boolean): boolean {
    for (;;) {
      const from = this.#at;
      while (isPlain(this.#text.charCodeAt(this.#at))) this.#at++;
      this.#made += this.#text.slice(from, this.#at);
      const stop = this.#text[this.#at];
      if (stop === '"') {
        this.#at++;
        return true;
      }
      if (!last && this.left < ESCAPE_MOST) return false;
      if (stop === undefined || stop === "\0") this.fail("Missing a closing quotation mark in string.");
      // A control character; so says the release that Triton is built with (1.1.0), later ones say that it is the encoding.
      if (stop !== "\\") this.fail("Invalid escape character in string.");
      this.#made += this.#escape();
    }
  }

  #escape(): string {
    const from = this.#at;
    const letter = this.#text[from + 1] ?? "";
    this.#at += 2;
    if (letter !== "u") return ESCAPES[letter] ?? this.fail("Invalid escape character in string.", from);
    let point = this.#hex(from);
    if (point >= 0xdc00 && point <= 0xdfff) this.fail("The surrogate pair in string is invalid.", from);
    if (point >= 0xd800 && point <= 0xdbff) {
      if (!this.#text.startsWith("\\u", this.#at)) this.fail("The surrogate pair in string is invalid.", from);
      this.#at += 2;
      const low = this.#hex(from);
      if (low < 0xdc00 || low > 0xdfff) this.fail("The surrogate pair in string is invalid.", from);
      point = ((point - 0xd800) << 10) + (low - 0xdc00) + 0x10000;
    }
    return point < 0x80 ? String.fromCharCode(point) : Buffer.from(String.fromCodePoint(point)).toString("latin1");
  }

  #hex(from: number): number {
    const digits = this.#text.slice(this.#at, this.#at + 4);
    if (!/^[\da-fA-F]{4}$/.test(digits)) this.fail("Incorrect hex digit after \\u escape in string.", from);
    this.#at += 4;
    return Number.parseInt(digits, 16);
  }

  #word<T extends JsonNode>(word: string, value: T): T {
    let same = 1;
    while (same < word.length && this.#text[this.#at + same] === word[same]) same++;
    this.#at += same;
    return same === word.length ? value : this.fail("Invalid value.");
  }

  /** Most numbers are whole and short; the rest is looked at more closely. */
  #number(): JsonNode {
    const text = this.#text;
    const from = this.#at;
    const negative = text.charCodeAt(from) === Code.Minus;
    let at = negative ? from + 1 : from;
    let digit = text.charCodeAt(at) - Code.Zero;
    // Nothing stands behind a zero, and a zero below nothing is none of the whole numbers.
    if (!(digit >= (negative ? 1 : 0) && digit <= 9)) return this.#rareNumber();
    let value = digit;
    digit = text.charCodeAt(++at) - Code.Zero;
    if (value > 0)
      for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++at) - Code.Zero) value = value * 10 + digit;
    const next = digit + Code.Zero;
    if (at - from > SHORT_DIGITS || next === Code.Point || next === Code.SmallE || next === Code.LargeE)
      return this.#rareNumber();
    this.#at = at;
    return negative ? -value : value;
  }

  /** One with a fraction or an exponent that is well formed; null: it is not, or is none of these. */
  #real(): Real | null {
    const text = this.#text;
    const from = this.#at;
    const end = realEnd(text, from);
    const value = end < 0 ? null : rapidDouble(text.slice(from, end));
    if (value === null) return null;
    this.#at = end;
    return new Real(value);
  }

  /** What neither is short nor well formed, with what is wrong with it. */
  #rareNumber(): JsonNode {
    const real = this.#real();
    if (real !== null) return real;
    const from = this.#at;
    SPECIAL.lastIndex = from;
    const word = SPECIAL.exec(this.#text)?.[0];
    if (word !== undefined) {
      this.#at += word.length;
      return new Real(word.endsWith("N") ? Number.NaN : word.startsWith("-") ? -Infinity : Infinity);
    }
    NUMBER.lastIndex = from;
    const [text = "", fraction, exponent] = NUMBER.exec(this.#text) ?? [];
    this.#at += text.length;
    if (text === "") {
      this.#take("-");
      this.fail("Invalid value.");
    }
    if (fraction === ".") this.fail("Miss fraction part in number.", from + text.length - (exponent ?? "").length);
    if (exponent !== undefined && !/\d$/.test(exponent)) this.fail("Miss exponent in number.");
    const value = rapidDouble(text);
    if (value === null) this.fail("Number too big to be stored in double.", from);
    if (fraction !== undefined || exponent !== undefined) return new Real(value);
    // No whole number has a sign before nothing.
    if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
    const whole = BigInt(text);
    return whole < SMALLEST || whole > LARGEST ? new Real(value) : whole;
  }

  #take(sign: string): boolean {
    if (this.#text[this.#at] !== sign) return false;
    this.#at++;
    return true;
  }

  /** Gives the code of what comes then; NaN at the end. */
  space(): number {
    const text = this.#text;
    let at = this.#at;
    let code = text.charCodeAt(at);
    if (code > 32) return code;
    while (code === 32 || code === 10 || code === 13 || code === 9) code = text.charCodeAt(++at);
    this.#at = at;
    return code;
  }

  fail(why: string, at = this.#at): never {
    throw new RapidJsonError(`${why} at ${this.#base + at}`);
  }
}

/** Throws a `RapidJsonError`. */
export function parseRapidJson(body: Uint8Array): JsonNode {
  // What comes from a socket is a Buffer, whose memory costs much to be looked at otherwise.
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.length);
  return new RapidJsonParser(bytes.toString("latin1")).document();
}
