/**
 * Decodes a long JSON string into its own bytes. The result is never longer than the JSON, so that this needs no other memory;
 * decoding megabytes into new strings would leave several times their size as garbage.
 *
 * The escapes are those of RapidJSON. This reader stops at any error. The parser then reads the place again and reports the
 * error.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { Code, SHORT_ESCAPES } from "./json-codes.ts";

/** Bytes decoded between two yields. */
const PIECE_BYTES = 32_768;
const FIRST_PLAIN = 32;

const HEX = /^[\da-f]{4}$/i;
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
      to += bytes.write(String.fromCodePoint(this.#point), to);
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
    if (bytes[at] !== Code.Backslash || bytes[at + 1] !== Code.U) return -1;
    const digits = bytes.toString("latin1", at + 2, at + CODE_BYTES);
    return HEX.test(digits) ? Number.parseInt(digits, 16) : -1;
  }
}
