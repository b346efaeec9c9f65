/**
 * Parses HTTP/1.1 responses as their bytes arrive (RFC 9112, sections 6.3 and 7.1). Copies only a head that came in pieces,
 * and allocates nothing per chunk. Fails a response whose head, chunk sizes or trailers are endless.
 */
import { GrowingBytes } from "../../../base/growing-bytes.ts";

const HEAD_LIMIT = 1 << 16;
/** Maximum number of interim responses (status below 200). */
const INTERIM_MOST = 100;
const SIZE_DIGITS_MOST = 8;

export interface ResponseSink {
  /** Receives status and headers. Names are in lower case; equal names are joined with commas. */
  head(status: number, headers: ReadonlyMap<string, string>): void;
  /** Receives body bytes from `from` to below `to`. They are valid only during the call. */
  body(bytes: Uint8Array, from: number, to: number): void;
  end(): void;
  /** Called if the bytes are not HTTP. Nothing more is read. */
  broken(why: string): void;
}

enum State {
  Head,
  Length,
  UntilClose,
  Size,
  Extension,
  Data,
  DataEnd,
  Trailer,
  Over,
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const SEMICOLON = 59;

export class ResponseParser {
  /** True if the connection may carry another request. */
  keepAlive = true;
  #state = State.Head;
  /** A head that is not complete yet. */
  readonly #held: GrowingBytes;
  #begun = false;
  #interims = 0;
  #left = 0;
  #digits = 0;
  /** Number of bytes of the size line, or of the trailers. */
  #bytes = 0;
  /** Number of bytes of the current trailer line. */
  #lineLength = 0;

  /** `limit`: maximum number of bytes of a head, of a chunk's size line with its extensions, and of the trailers. */
  constructor(
    private readonly sink: ResponseSink,
    private readonly limit = HEAD_LIMIT,
  ) {
    this.#held = new GrowingBytes(limit);
  }

  get over(): boolean {
    return this.#state === State.Over;
  }

  /** True if any byte of the response came. */
  get begun(): boolean {
    return this.#begun;
  }

  push(bytes: Uint8Array): void {
    this.#begun ||= bytes.length > 0;
    let at = 0;
    const end = bytes.length;
    while (at < end && this.#state !== State.Over) {
      switch (this.#state) {
        case State.Head:
          at = this.#takeHead(bytes, at);
          break;
        case State.Size:
          at = this.#takeSize(bytes, at);
          break;
        case State.Data:
        case State.Length: {
          const to = Math.min(end, at + this.#left);
          this.#left -= to - at;
          this.sink.body(bytes, at, to);
          at = to;
          if (this.#left > 0 || this.over) break;
          if (this.#state === State.Length) this.#end();
          else this.#state = State.DataEnd;
          break;
        }
        case State.UntilClose:
          this.sink.body(bytes, at, end);
          return;
        case State.DataEnd:
          if (bytes[at] === LF) this.#state = State.Size;
          else if (bytes[at] !== CR || ++this.#bytes > 1) {
            this.#broken("a chunk of the body is longer than its size says");
            return;
          }
          at++;
          break;
        case State.Extension:
          at = this.#takeExtension(bytes, at);
          break;
        case State.Trailer:
          at = this.#takeTrailer(bytes, at);
          break;
      }
    }
    if (at < end) this.keepAlive = false;
  }

  /** Handles the close of the connection. Returns false if the response is incomplete. */
  closed(): boolean {
    if (this.#state === State.UntilClose) this.#end();
    return this.over;
  }

  /** Stops parsing, because the rest of the response is not needed. */
  stop(): void {
    this.#state = State.Over;
    this.keepAlive = false;
  }

  #takeHead(bytes: Uint8Array, at: number): number {
    const held = this.#held;
    const before = held.length;
    const to = Math.min(bytes.length, at + this.limit - before);
    let headEnd: number;
    if (before === 0) {
      headEnd = endOfHead(bytes, at, to);
      if (headEnd >= 0) {
        this.#begin(latin1(bytes, at, headEnd));
        return headEnd;
      }
      held.append(bytes, at, to);
    } else {
      held.append(bytes, at, to);
      // The empty line that ends the head may have begun in the piece before.
      headEnd = endOfHead(held.bytes(), Math.max(0, before - 3), held.length);
      if (headEnd >= 0) {
        const head = latin1(held.bytes(), 0, headEnd);
        held.clear();
        this.#begin(head);
        return at + headEnd - before;
      }
    }
    if (held.length >= this.limit) this.#broken(`the head of the response has more than ${this.limit} bytes`);
    return bytes.length;
  }

  #begin(head: string): void {
    const [first = "", ...lines] = head.split(/\r?\n/);
    const [, minor, code] = /^HTTP\/1\.([01]) (\d{3})/.exec(first) ?? [];
    if (code === undefined) {
      this.#broken(`not HTTP: the response begins with ${JSON.stringify(first.slice(0, 60))}`);
      return;
    }
    const headers = new Map<string, string>();
    for (const line of lines) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      const other = headers.get(name);
      headers.set(name, other === undefined ? value : `${other}, ${value}`);
    }
    const status = Number(code);
    if (status < 200) {
      if (status === 101) this.#broken("HTTP 101: the server changes to a protocol that was not asked for");
      else if (++this.#interims > INTERIM_MOST) this.#broken(`more than ${INTERIM_MOST} interim answers`);
      return;
    }
    const connection = headers.get("connection")?.toLowerCase() ?? "";
    this.keepAlive = minor === "1" ? !connection.includes("close") : connection.includes("keep-alive");
    const length = headers.get("content-length");
    this.#state = State.UntilClose;
    this.#left = 0;
    if (status === 204 || status === 304) this.#state = State.Length;
    else if (headers.get("transfer-encoding")?.toLowerCase().endsWith("chunked")) this.#state = State.Size;
    else if (length !== undefined && /^\d{1,15}$/.test(length)) {
      this.#state = State.Length;
      this.#left = Number(length);
    } else this.keepAlive = false;
    this.sink.head(status, headers);
    if (this.#state === State.Length && this.#left === 0) this.#end();
  }

  #takeSize(bytes: Uint8Array, from: number): number {
    let at = from;
    for (; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (++this.#bytes > this.limit) break;
      const digit = hex(byte);
      if (digit >= 0) {
        this.#left = this.#left * 16 + digit;
        if (++this.#digits > SIZE_DIGITS_MOST) break;
        continue;
      }
      if (this.#digits === 0) break;
      if (byte === LF) {
        this.#sized();
        return at + 1;
      }
      if (byte === CR) continue;
      if (byte !== SEMICOLON && byte !== SPACE) break;
      this.#state = State.Extension;
      return at + 1;
    }
    if (at < bytes.length) this.#broken("the body is to come in chunks, and a chunk has no size");
    return at;
  }

  #takeExtension(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length; at++) {
      if (bytes[at] === LF) {
        this.#sized();
        return at + 1;
      }
      if (++this.#bytes > this.limit) {
        this.#broken(`a chunk's size and its extensions have more than ${this.limit} bytes`);
        return at;
      }
    }
    return bytes.length;
  }

  #sized(): void {
    this.#digits = 0;
    this.#bytes = 0;
    this.#lineLength = 0;
    this.#state = this.#left === 0 ? State.Trailer : State.Data;
  }

  #takeTrailer(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length; at++) {
      if (bytes[at] === LF) {
        if (this.#lineLength === 0) {
          this.#end();
          return at + 1;
        }
        this.#lineLength = 0;
      } else if (bytes[at] !== CR) this.#lineLength++;
      if (++this.#bytes > this.limit) {
        this.#broken(`the trailer of the response has more than ${this.limit} bytes`);
        return bytes.length;
      }
    }
    return bytes.length;
  }

  #end(): void {
    this.#state = State.Over;
    this.sink.end();
  }

  #broken(why: string): void {
    this.stop();
    this.sink.broken(why);
  }
}

/** Returns the offset after the empty line at or after `from`, or -1 if it is not complete before `to`. */
function endOfHead(bytes: Uint8Array, from: number, to: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0 && at < to; at = bytes.indexOf(LF, at + 1)) {
    if (at + 1 < to && bytes[at + 1] === LF) return at + 2;
    if (at + 2 < to && bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  }
  return -1;
}

const latin1 = (bytes: Uint8Array, from: number, to: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1", from, to);

function hex(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
