/**
 * Decodes a long JSON string into its own bytes. The result is never longer than the JSON, so that this needs no other memory;
 * decoding megabytes into new strings would leave several times their size as garbage.
 *
 * The escapes are those of RapidJSON. This reader stops at any error. The parser then reads the place again and reports the
 * error.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { Code } from "./json-codes.ts";

/** Bytes decoded between two yields. */
const PIECE_BYTES = 65_536;
const FIRST_PLAIN = 32;

/** Byte that an escape letter stands for, or 0 if the letter is not an escape. */
const SHORT_ESCAPES = new Uint8Array(256);
for (const [letter, byte] of [...'""\\\\//b\bf\fn\nr\rt\t'.matchAll(/../gs)].map(([pair]) => [...pair!]))
  SHORT_ESCAPES[letter!.charCodeAt(0)] = byte!.charCodeAt(0);

const [LETTER_U, DIGITS] = [117, 4];
/** Length of an escape for one code, and for a surrogate pair. */
const [CODE_BYTES, PAIR_BYTES] = [6, 12];

export class TextInPlace {
  readonly #bytes: Buffer;
  readonly #from: number;
  /** Offset at which the next byte is written. */
  #to: number;
  /** Offset at which the next byte is read. After `read`, the offset after the closing quotation mark. */
  at: number;

  /** Continues a string at `at`. `before`: the part that is already decoded. */
  constructor(bytes: Buffer, at: number, before: string) {
    this.#bytes = bytes;
    this.#from = at - before.length;
    this.#to = at;
    this.at = at;
    bytes.write(before, this.#from, "latin1");
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(this.#from, this.#to);
  }

  /** Reads to the end of the string. Returns false if the bytes at `at` are invalid. */
  *read(): Pieces<boolean> {
    for (;;) {
      const stop = this.#plain(Math.min(this.#bytes.length, this.at + PIECE_BYTES));
      if (stop === Code.Quote) {
        this.at++;
        return true;
      }
      if (stop !== null) return false;
      yield;
    }
  }

  /** Reads up to `end` and returns null, or stops before and returns the character code there. NaN: the bytes end. */
  #plain(end: number): number | null {
    const bytes = this.#bytes;
    let at = this.at;
    let to = this.#to;
    let stop: number | null = null;
    while (at < end) {
      const code = bytes[at]!;
      if (code !== Code.Backslash && code !== Code.Quote && code >= FIRST_PLAIN) {
        bytes[to++] = code;
        at++;
        continue;
      }
      const short = code === Code.Backslash ? SHORT_ESCAPES[bytes[at + 1] ?? 0]! : 0;
      if (short !== 0) {
        bytes[to++] = short;
        at += 2;
        continue;
      }
      const length = code === Code.Backslash ? this.#code(at) : 0;
      if (length === 0) {
        stop = code;
        break;
      }
      to += this.#write(this.#point, to);
      at += length;
    }
    this.at = at;
    this.#to = to;
    return stop === null && at >= bytes.length ? Number.NaN : stop;
  }

  /** Code point of the last escape. */
  #point = 0;

  /** Stores the code point of the escape at `at` and returns the escape's length, or 0 if it is invalid. */
  #code(at: number): number {
    const first = this.#digits(at);
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff)) return 0;
    this.#point = first;
    if (first < 0xd800 || first > 0xdfff) return CODE_BYTES;
    const second = this.#digits(at + CODE_BYTES);
    if (second < 0xdc00 || second > 0xdfff) return 0;
    this.#point = 0x10000 + ((first - 0xd800) << 10) + second - 0xdc00;
    return PAIR_BYTES;
  }

  /** Returns the number of a `\u` escape with four hexadecimal digits, or -1 if there is none. */
  #digits(at: number): number {
    const bytes = this.#bytes;
    if (bytes[at] !== Code.Backslash || bytes[at + 1] !== LETTER_U) return -1;
    let value = 0;
    for (let i = at + 2; i < at + 2 + DIGITS; i++) {
      const digit = Number.parseInt(String.fromCharCode(bytes[i] ?? 0), 16);
      if (!(digit >= 0)) return -1;
      value = value * 16 + digit;
    }
    return value;
  }

  /** Writes a code point as UTF-8 and returns how many bytes it has. */
  #write(point: number, to: number): number {
    const bytes = this.#bytes;
    if (point < 0x80) {
      bytes[to] = point;
      return 1;
    }
    if (point < 0x800) {
      bytes[to] = 0xc0 | (point >> 6);
      bytes[to + 1] = 0x80 | (point & 63);
      return 2;
    }
    if (point < 0x10000) {
      bytes[to] = 0xe0 | (point >> 12);
      bytes[to + 1] = 0x80 | ((point >> 6) & 63);
      bytes[to + 2] = 0x80 | (point & 63);
      return 3;
    }
    bytes[to] = 0xf0 | (point >> 18);
    bytes[to + 1] = 0x80 | ((point >> 12) & 63);
    bytes[to + 2] = 0x80 | ((point >> 6) & 63);
    bytes[to + 3] = 0x80 | (point & 63);
    return 4;
  }
}
