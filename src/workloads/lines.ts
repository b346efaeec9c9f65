/**
 * Reads a file of any size line by line, in pieces of a fixed size, so that memory holds one piece and one line. A gzip
 * file is unpacked as a whole, up to a limit.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { GrowingBytes } from "../base/growing-bytes.ts";
import { TraceError } from "./trace.ts";

const PIECE = 1 << 18;
/** Longest line of a trace, in bytes. */
export const LINE_LIMIT = 1 << 24;
/** A line or an element of more bytes is an error, because it may never end. */
export const ENDLESS_BYTES = 1 << 26;

/** Largest size of an unpacked gzip file, in bytes. */
const UNPACKED_MOST = 1 << 29;
const GZIP_MAGIC = [0x1f, 0x8b] as const;

export interface Line {
  /** Counted from 1. */
  readonly number: number;
  /** Null if the line is longer than LINE_LIMIT. */
  readonly text: string | null;
}

export class TraceFile {
  /** Size of the file in bytes; for a gzip file, unpacked. 0 for a pipe. */
  readonly bytes: number;
  readonly #fd: number;
  /** Unread rest of an unpacked gzip file. Null if the file is not gzip. */
  #unpacked: Buffer | null = null;
  readonly #piece = Buffer.allocUnsafe(PIECE);
  /** Length of the first piece if only `head` has read it. */
  #ahead = 0;
  #read = 0;

  /** `-` is standard input. Throws a TraceError if the file cannot be read, or unpacks to more than `unpackedMost` bytes. */
  constructor(
    readonly path: string,
    unpackedMost = UNPACKED_MOST,
  ) {
    try {
      this.#fd = openSync(path === "-" ? "/dev/stdin" : path, "r");
      const stat = fstatSync(this.#fd);
      if (stat.isDirectory()) throw Object.assign(new Error("it is a folder"), { code: "EISDIR" });
      this.bytes = stat.size;
    } catch (failure) {
      throw unreadable(path, failure);
    }
    this.#ahead = this.#fill();
    if (GZIP_MAGIC.some((byte, at) => at >= this.#ahead || this.#piece[at] !== byte)) return;
    try {
      this.#unpacked = this.#unpack(unpackedMost);
    } catch (failure) {
      this.close();
      throw failure;
    }
    this.bytes = this.#unpacked.length;
    this.#ahead = 0;
  }

  get bytesRead(): number {
    return this.#read;
  }

  /** Returns at most `bytes` of the first bytes as text, or fewer if a pipe brings fewer at first. Does not move the reading position. */
  head(bytes: number): string {
    this.#ahead ||= this.#fill();
    return this.#piece.toString("utf8", 0, Math.min(bytes, this.#ahead)).replace(/^\uFEFF/, "");
  }

  /** Returns one piece after the other, all in the same buffer. */
  *pieces(): Generator<Buffer> {
    for (;;) {
      const count = this.#ahead || this.#fill();
      this.#ahead = 0;
      if (count === 0) return;
      this.#read += count;
      yield this.#piece.subarray(0, count);
    }
  }

  /** Returns lines without their ends (LF or CRLF), and without blank lines. Throws a TraceError at a line that may be endless. */
  *lines(): Generator<Line> {
    const buffer = new GrowingBytes(LINE_LIMIT);
    let isTooLong = false;
    let openBytes = 0;
    let number = 0;
    const take = (last: Buffer): Line => {
      number++;
      const isWhole = !isTooLong && (buffer.length === 0 || buffer.append(last, 0, last.length));
      const text =
        isWhole && last.length <= LINE_LIMIT ? textOf(buffer.length === 0 ? last : buffer.bytes(), number) : null;
      buffer.clear();
      isTooLong = false;
      return { number, text };
    };
    for (const piece of this.pieces()) {
      let from = 0;
      for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, from)) {
        const line = take(piece.subarray(from, end));
        from = end + 1;
        openBytes = 0;
        if (line.text !== "") yield line;
      }
      openBytes += piece.length - from;
      if (openBytes > ENDLESS_BYTES)
        throw new TraceError(`"${this.path}": line ${number + 1} has more than ${ENDLESS_BYTES} bytes`);
      if (!isTooLong && !buffer.append(piece, from, piece.length)) {
        isTooLong = true;
        buffer.release();
      }
    }
    if (isTooLong || buffer.length > 0) {
      const line = take(Buffer.alloc(0));
      if (line.text !== "") yield line;
    }
  }

  close(): void {
    closeSync(this.#fd);
  }

  #unpack(most: number): Buffer {
    const pieces: Buffer[] = [];
    let packed = 0;
    for (let count = this.#ahead; count > 0; count = this.#fill()) {
      packed += count;
      if (packed > most) throw this.#tooLarge(most);
      pieces.push(Buffer.from(this.#piece.subarray(0, count)));
    }
    try {
      return gunzipSync(Buffer.concat(pieces), { maxOutputLength: most });
    } catch (failure) {
      const { code } = failure as { code?: string };
      if (code === "ERR_BUFFER_TOO_LARGE") throw this.#tooLarge(most);
      throw new TraceError(`cannot unpack "${this.path}": it is not whole gzip data (${code ?? String(failure)})`);
    }
  }

  #tooLarge(most: number): TraceError {
    return new TraceError(`"${this.path}" unpacks to more than ${most} bytes: unpack it first (gzip -d)`);
  }

  #fill(): number {
    if (this.#unpacked !== null) {
      const count = this.#unpacked.copy(this.#piece);
      this.#unpacked = this.#unpacked.subarray(count);
      return count;
    }
    try {
      return readSync(this.#fd, this.#piece, 0, PIECE, null);
    } catch (failure) {
      throw unreadable(this.path, failure);
    }
  }
}

function textOf(bytes: Buffer, number: number): string {
  let end = bytes.length;
  if (end > 0 && bytes[end - 1] === 13) end--;
  const text = bytes.toString("utf8", 0, end);
  return (number === 1 ? text.replace(/^\uFEFF/, "") : text).trim();
}

function unreadable(path: string, failure: unknown): TraceError {
  const { code } = failure as { code?: string };
  return new TraceError(`cannot read "${path}" (${code ?? String(failure)})`);
}
