/**
 * Parses JSON like the RapidJSON in Triton, with `kParseNanAndInfFlag`. Same errors with the byte offset; integers stay
 * distinct from other numbers; repeated members are kept; NaN and Inf are accepted. Strings have one character per byte, so
 * that invalid UTF-8 passes through.
 */

import { Code, SHORT_ESCAPES } from "./json-codes.ts";
import { JsonMembers, type JsonNode, Real } from "./json-nodes.ts";
import { rapidDouble, realEnd } from "./rapid-double.ts";

/** A parse error with the message "MESSAGE at BYTE", in Triton's words. */
export class RapidJsonError extends Error {
  override readonly name = "RapidJsonError";
}

/** Deeper nesting would overflow the stack of the real parser. */
const DEPTH_MOST = 1000;
const SMALLEST = -(2n ** 63n);
const LARGEST = 2n ** 64n - 1n;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d*)?([eE][+-]?\d*)?/y;
const SPECIAL = /-?(?:NaN|Inf(?:inity)?)/y;
/** Integers of at most this many characters, with the sign, are exact in a double. */
const SHORT_DIGITS = 15;
/**
 * True for characters that stand for themselves in a string: no quote, backslash or control character, and not the end of the
 * text (NaN).
 */
const isPlain = (code: number) => code >= 32 && code !== 34 && code !== 92;
/** Integers of a list before the list is created, so that the list gets its exact size at once. */
export const numberBuffer: number[] = new Array(256).fill(0);
const SMALL_DIGITS = 9;

const KNOWN_MOST = 24;
const KNOWN_MASK = 255;
const KNOWN: string[] = new Array(KNOWN_MASK + 1).fill("");

/** Does the same as `startsWith`, but is faster for a few characters. */
function standsAt(text: string, from: number, known: string): boolean {
  for (let at = 0; at < known.length; at++) if (text.charCodeAt(from + at) !== known.charCodeAt(at)) return false;
  return true;
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Length of the longest escape, a surrogate pair. */
const ESCAPE_MOST = 12;

export class RapidJsonParser {
  readonly #text: string;
  /** Byte offset of the text in the body. */
  readonly #base: number;
  /** Position of the next character. */
  at = 0;
  /** The part of a string that `textOn` has decoded so far. */
  made = "";

  constructor(text: string, base = 0) {
    this.#text = text;
    this.#base = base;
  }

  /** Number of characters that are not read yet. */
  get left(): number {
    return this.#text.length - this.at;
  }

  /** Returns the character code before the current position. */
  before(): number {
    return this.#text.charCodeAt(this.at - 1);
  }

  /** Skips a byte order mark, also an incomplete one. */
  skipMark(): void {
    for (const code of BYTE_ORDER_MARK) if (this.#text.charCodeAt(this.at) === code) this.at++;
  }

  document(): JsonNode {
    this.skipMark();
    const first = this.space();
    if (this.at >= this.#text.length) this.fail("The document is empty.");
    const value = this.#value(first, 0);
    this.space();
    if (this.at < this.#text.length) this.fail("The document root must not be followed by other values.");
    return value;
  }

  /** Reads a value. `first` is its first character code. */
  #value(first: number, depth: number): JsonNode {
    this.deep(depth);
    if (first === Code.OpenBrace) return this.#object(depth);
    return first === Code.OpenBracket ? this.#array(depth) : this.scalar(first);
  }

  deep(depth: number): void {
    if (depth > DEPTH_MOST) this.fail("Terminate parsing due to Handler error.");
  }

  /** Reads a value that is neither a list nor an object. */
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
    this.at++;
    let next = this.space();
    if (next === Code.CloseBrace) {
      this.at++;
      return made;
    }
    for (;;) {
      if (next !== Code.Quote) this.fail("Missing a name for object member.");
      const name = this.string();
      if (this.space() !== Code.Colon) this.fail("Missing a colon after a name of object member.");
      this.at++;
      made.add(name, this.#value(this.space(), depth + 1));
      next = this.space();
      if (next !== Code.CloseBrace && next !== Code.Comma) this.fail("Missing a comma or '}' after an object member.");
      this.at++;
      if (next === Code.CloseBrace) return made;
      next = this.space();
    }
  }

  #array(depth: number): JsonNode[] {
    this.at++;
    let next = this.space();
    if (next === Code.CloseBracket) {
      this.at++;
      return [];
    }
    const numbers = depth < DEPTH_MOST ? this.smallNumbers() : 0;
    const made: JsonNode[] = numberBuffer.slice(0, numbers);
    if (numbers > 0) {
      if (this.#text.charCodeAt(this.at - 1) === Code.CloseBracket) return made;
      next = this.space();
    }
    for (;;) {
      made.push(this.#value(next, depth + 1));
      next = this.space();
      if (next !== Code.CloseBracket && next !== Code.Comma)
        this.fail("Missing a comma or ']' after an array element.");
      this.at++;
      if (next === Code.CloseBracket) return made;
      next = this.space();
    }
  }

  /**
   * Reads a run of small non-negative integers, each with the comma after it, or the last with the closing bracket. Stores them
   * in `numberBuffer` and returns their number.
   */
  smallNumbers(): number {
    const text = this.#text;
    let count = 0;
    let at = this.at;
    while (count < numberBuffer.length) {
      let digit = text.charCodeAt(at) - Code.Zero;
      if (!(digit >= 0 && digit <= 9)) break;
      let value = digit;
      let end = at + 1;
      digit = text.charCodeAt(end) - Code.Zero;
      if (value > 0)
        for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++end) - Code.Zero) value = value * 10 + digit;
      const next = digit + Code.Zero;
      if (end - at > SMALL_DIGITS || (next !== Code.Comma && next !== Code.CloseBracket)) break;
      numberBuffer[count++] = value;
      at = end + 1;
      if (next === Code.CloseBracket) break;
      if (text.charCodeAt(at) === 32) at++;
    }
    this.at = at;
    return count;
  }

  string(): string {
    const known = this.#known();
    if (known !== null) return known;
    this.beginText();
    this.textOn(true);
    return this.made;
  }

  /**
   * Returns a cached string if the same one was read before, because names recur in every request. Returns null for strings
   * that are not cached.
   */
  #known(): string | null {
    const text = this.#text;
    const from = this.at + 1;
    const most = from + KNOWN_MOST;
    let sum = 0;
    let end = from;
    for (let code = text.charCodeAt(end); isPlain(code) && code < 128; code = text.charCodeAt(++end)) {
      if (end === most) return null;
      sum = (sum * 31 + code) & KNOWN_MASK;
    }
    if (text.charCodeAt(end) !== Code.Quote) return null;
    this.at = end + 1;
    const known = KNOWN[sum]!;
    if (known.length === end - from && standsAt(text, from, known)) return known;
    // Copy, because a slice would keep the whole body in memory.
    const made = Buffer.from(text.slice(from, end), "latin1").toString("latin1");
    KNOWN[sum] = made;
    return made;
  }

  /** Starts to read a string; `textOn` reads the rest. */
  beginText(): void {
    this.at++;
    this.made = "";
  }

  /** Reads the string. Returns false if this text ends before the string. `last`: no more text follows. */
  textOn(last: boolean): boolean {
    for (;;) {
      const from = this.at;
      while (isPlain(this.#text.charCodeAt(this.at))) this.at++;
      this.made += this.#text.slice(from, this.at);
      const stop = this.#text[this.at];
      if (stop === '"') {
        this.at++;
        return true;
      }
      if (!last && this.left < ESCAPE_MOST) return false;
      if (stop === undefined || stop === "\0") this.fail("Missing a closing quotation mark in string.");
      // A control character. RapidJSON 1.1.0, which Triton uses, reports it as an escape error; later releases report an
      // encoding error.
      if (stop !== "\\") this.fail("Invalid escape character in string.");
      this.made += this.#escape();
    }
  }

  #escape(): string {
    const from = this.at;
    const letter = this.#text.charCodeAt(from + 1);
    this.at += 2;
    if (letter !== Code.U)
      return String.fromCharCode(SHORT_ESCAPES[letter] || this.fail("Invalid escape character in string.", from));
    let point = this.#hex(from);
    if (point >= 0xdc00 && point <= 0xdfff) this.fail("The surrogate pair in string is invalid.", from);
    if (point >= 0xd800 && point <= 0xdbff) {
      if (!this.#text.startsWith("\\u", this.at)) this.fail("The surrogate pair in string is invalid.", from);
      this.at += 2;
      const low = this.#hex(from);
      if (low < 0xdc00 || low > 0xdfff) this.fail("The surrogate pair in string is invalid.", from);
      point = ((point - 0xd800) << 10) + (low - 0xdc00) + 0x10000;
    }
    return point < 0x80 ? String.fromCharCode(point) : Buffer.from(String.fromCodePoint(point)).toString("latin1");
  }

  #hex(from: number): number {
    const digits = this.#text.slice(this.at, this.at + 4);
    if (!/^[\da-fA-F]{4}$/.test(digits)) this.fail("Incorrect hex digit after \\u escape in string.", from);
    this.at += 4;
    return Number.parseInt(digits, 16);
  }

  #word<T extends JsonNode>(word: string, value: T): T {
    let same = 1;
    while (same < word.length && this.#text[this.at + same] === word[same]) same++;
    this.at += same;
    return same === word.length ? value : this.fail("Invalid value.");
  }

  /** Reads a number. Handles short integers itself and leaves the rest to `#rareNumber`. */
  #number(): JsonNode {
    const text = this.#text;
    const from = this.at;
    const negative = text.charCodeAt(from) === Code.Minus;
    let at = negative ? from + 1 : from;
    let digit = text.charCodeAt(at) - Code.Zero;
    // A leading zero ends the number, and `-0` is not an integer in RapidJSON.
    if (!(digit >= (negative ? 1 : 0) && digit <= 9)) return this.#rareNumber();
    let value = digit;
    digit = text.charCodeAt(++at) - Code.Zero;
    if (value > 0)
      for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++at) - Code.Zero) value = value * 10 + digit;
    const next = digit + Code.Zero;
    if (at - from > SHORT_DIGITS || next === Code.Point || next === Code.SmallE || next === Code.LargeE)
      return this.#rareNumber();
    this.at = at;
    return negative ? -value : value;
  }

  /** Reads long integers, real numbers, NaN and Inf, and reports malformed numbers. */
  #rareNumber(): JsonNode {
    const from = this.at;
    const end = realEnd(this.#text, from);
    const real = end < 0 ? null : rapidDouble(this.#text.slice(from, end));
    if (real !== null) {
      this.at = end;
      return new Real(real);
    }
    SPECIAL.lastIndex = from;
    const word = SPECIAL.exec(this.#text)?.[0];
    if (word !== undefined) {
      this.at += word.length;
      return new Real(word.endsWith("N") ? Number.NaN : word.startsWith("-") ? -Infinity : Infinity);
    }
    NUMBER.lastIndex = from;
    const [text = "", fraction, exponent] = NUMBER.exec(this.#text) ?? [];
    this.at += text.length;
    if (text === "") {
      if (this.#text[from] === "-") this.at++;
      this.fail("Invalid value.");
    }
    if (fraction === ".") this.fail("Miss fraction part in number.", from + text.length - (exponent ?? "").length);
    if (exponent !== undefined && !/\d$/.test(exponent)) this.fail("Miss exponent in number.");
    const value = rapidDouble(text);
    if (value === null) this.fail("Number too big to be stored in double.", from);
    if (fraction !== undefined || exponent !== undefined) return new Real(value);
    // `-0` becomes 0, because integers have no negative zero.
    if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
    const whole = BigInt(text);
    return whole < SMALLEST || whole > LARGEST ? new Real(value) : whole;
  }

  /** Skips whitespace. Returns the next character code, or NaN at the end. */
  space(): number {
    const text = this.#text;
    let at = this.at;
    // A single read behind the end, as at the end of every document, makes the engine compile all reads as calls.
    let code = at < text.length ? text.charCodeAt(at) : Number.NaN;
    if (code > 32) return code;
    while (code === 32 || code === 10 || code === 13 || code === 9)
      code = ++at < text.length ? text.charCodeAt(at) : Number.NaN;
    this.at = at;
    return code;
  }

  fail(why: string, at = this.at): never {
    throw new RapidJsonError(`${why} at ${this.#base + at}`);
  }
}

/** Parses a whole body. Throws a `RapidJsonError`. */
export function parseRapidJson(body: Uint8Array): JsonNode {
  // Keep a Buffer from a socket as it is: reading its `buffer` property is expensive.
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.length);
  return new RapidJsonParser(bytes.toString("latin1")).document();
}
