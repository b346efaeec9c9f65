/** Reads a JSON array of any size element by element. Finds each object by its braces and ignores braces in strings. */
import { GrowingBytes } from "../base/growing-bytes.ts";
import { ENDLESS_BYTES, LINE_LIMIT } from "./lines.ts";
import { TraceError } from "./trace.ts";

export interface Element {
  /** Line of the first brace, counted from 1. */
  readonly line: number;
  /**
   * Text of the object. Null if the object does not end, or is longer than LINE_LIMIT. Also null for text that is not an
   * object, up to a comma or the end of the line.
   */
  readonly text: string | null;
}

const NEWLINE = 10;
const COMMA = 44;
const QUOTE = 34;
const BACKSLASH = 92;
const OPEN = 123;
const CLOSE = 125;
/** Space, tab, line ends, comma, brackets of the array, and the three bytes of a byte order mark. */
const BETWEEN = new Set([32, 9, 10, 13, 44, 91, 93, 0xef, 0xbb, 0xbf]);

/** Returns the objects of an array, or of lines with objects. Throws a TraceError at an element that may be endless. */
export function* elements(pieces: Iterable<Buffer>): Generator<Element> {
  let line = 1;
  let startLine = 1;
  let depth = 0;
  let inString = false;
  let escaped = false;
  /** True inside text that is not an object and was already reported. */
  let junk = false;
  const buffer = new GrowingBytes(LINE_LIMIT);
  let isTooLong = false;
  /** Bytes since the last object, or other element, ended. */
  let openBytes = 0;
  for (const piece of pieces) {
    let ended = 0;
    let from = depth > 0 ? 0 : -1;
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at]!;
      if (byte === NEWLINE) line++;
      if (inString) {
        if (escaped) escaped = false;
        else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) inString = false;
      } else if (byte === OPEN) {
        junk = false;
        if (depth++ === 0) {
          from = at;
          startLine = line;
        }
      } else if (depth === 0) {
        if (byte === NEWLINE || byte === COMMA) {
          junk = false;
          openBytes = 0;
          ended = at;
        }
        if (byte === QUOTE) inString = true;
        if (junk || BETWEEN.has(byte)) continue;
        junk = true;
        yield { line, text: null };
      } else if (byte === QUOTE) {
        inString = true;
      } else if (byte === CLOSE && --depth === 0) {
        const isWhole = !isTooLong && buffer.append(piece, from, at + 1);
        yield { line: startLine, text: isWhole ? buffer.bytes().toString() : null };
        buffer.clear();
        isTooLong = false;
        from = -1;
        openBytes = 0;
        ended = at;
      }
    }
    openBytes += piece.length - ended;
    if (openBytes > ENDLESS_BYTES)
      throw new TraceError(`the element that begins in line ${startLine} has more than ${ENDLESS_BYTES} bytes`);
    if (from >= 0 && !isTooLong && !buffer.append(piece, from, piece.length)) {
      isTooLong = true;
      buffer.release();
    }
  }
  if (depth > 0) yield { line: startLine, text: null };
}
