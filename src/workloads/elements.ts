/** Reads a JSON array of any size element by element. Objects are cut out by their braces; braces in strings do not count. */
import { GrowingBytes } from "../base/growing-bytes.ts";
import { ENDLESS_BYTES, LINE_LIMIT } from "./lines.ts";
import { TraceError } from "./trace.ts";

export interface Element {
  /** Line of its first brace, from 1. */
  readonly line: number;
  /** Null: it does not end, is longer than LINE_LIMIT, or something else stands in its place, up to a comma or the line's end. */
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

/** The objects of an array, or of lines of objects. Throws a TraceError at one that may be endless. */
export function* elements(pieces: Iterable<Buffer>): Generator<Element> {
  let line = 1;
  let startLine = 1;
  let depth = 0;
  let inString = false;
  let escaped = false;
  /** Inside something that is no object and was told. */
  let junk = false;
  const held = new GrowingBytes(LINE_LIMIT);
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
        const isWhole = !isTooLong && held.append(piece, from, at + 1);
        yield { line: startLine, text: isWhole ? held.bytes().toString() : null };
        held.clear();
        isTooLong = false;
        from = -1;
        openBytes = 0;
        ended = at;
      }
    }
    openBytes += piece.length - ended;
    if (openBytes > ENDLESS_BYTES)
      throw new TraceError(`the element that begins in line ${startLine} has more than ${ENDLESS_BYTES} bytes`);
    if (from >= 0 && !isTooLong && !held.append(piece, from, piece.length)) {
      isTooLong = true;
      held.release();
    }
  }
  if (depth > 0) yield { line: startLine, text: null };
}
