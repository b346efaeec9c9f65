/**
 * Finds the body of an HTTP/1.1 response and its end. A push parser over the bytes as they come: it copies a head that came
 * in pieces and nothing else, allocates nothing per chunk, and ends a response whose head, chunk sizes or trailer do not
 * end. RFC 9112: sections 6.3 and 7.1.
 */
import { GrowingBytes } from "../../../base/growing-bytes.ts";

/** Most bytes of a head, of the line of a chunk's size with its extensions, and of a trailer. */
const HEAD_LIMIT = 1 << 16;
/** Most answers with a status below 200 before the response. */
const INTERIM_MOST = 100;
const SIZE_DIGITS_MOST = 8;

export interface ResponseSink {
  /** Names in lower case; several of one name are joined with commas. */
  head(status: number, headers: ReadonlyMap<string, string>): void;
  /** Bytes `from` to below `to` belong to the body; they are the caller's again afterwards. */
  body(bytes: Uint8Array, from: number, to: number): void;
  end(): void;
  /** This is no HTTP: nothing more is read. */
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
  /** May the connection carry another request? */
  keepAlive = true;
  readonly #sink: ResponseSink;
  #state = State.Head;
  /** A head that has not ended. */
  readonly #held = new GrowingBytes(HEAD_LIMIT);
  #begun = false;
  #interims = 0;
  #left = 0;
  #digits = 0;
  /** Bytes of the size's line, or of the trailer. */
  #bytes = 0;
  /** Bytes of the trailer's line. */
  #lineLength = 0;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  get over(): boolean {
    return this.#state === State.Over;
  }

  /** Whether any byte of the response has come. */
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
          this.#sink.body(bytes, at, to);
          at = to;
          if (this.#left > 0 || this.over) break;
          if (this.#state === State.Length) this.#end();
          else this.#state = State.DataEnd;
          break;
        }
        case State.UntilClose:
          this.#sink.body(bytes, at, end);
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

  /** The other side has closed. False: in the middle of a response. */
  closed(): boolean {
    if (this.#state === State.UntilClose) this.#end();
    return this.over;
  }

  /** Nobody wants the rest. */
  stop(): void {
    this.#state = State.Over;
    this.keepAlive = false;
  }

  #takeHead(bytes: Uint8Array, at: number): number {
    const held = this.#held;
    const before = held.length;
    const to = Math.min(bytes.length, at + HEAD_LIMIT - before);
    let found: number;
    if (before === 0) {
      found = endOfHead(bytes, at, to);
      if (found >= 0) {
        this.#begin(latin1(bytes, at, found));
        return found;
      }
      held.append(bytes, at, to);
    } else {
      held.append(bytes, at, to);
      // The empty line may have begun in the piece before.
      found = endOfHead(held.bytes(), Math.max(0, before - 3), held.length);
      if (found >= 0) {
        const head = latin1(held.bytes(), 0, found);
        held.clear();
        this.#begin(head);
        return at + found - before;
      }
    }
    if (held.length >= HEAD_LIMIT) this.#broken(`the head of the response has more than ${HEAD_LIMIT} bytes`);
    return bytes.length;
  }

  #begin(head: string): void {
    const [first = "", ...lines] = head.split(/\r?\n/);
    const [, minor, code] = /^HTTP\/1\.([01]) (\d{3})/.exec(first) ?? [];
    if (code === undefined) {
      this.#broken(`no HTTP: the response begins ${JSON.stringify(first.slice(0, 60))}`);
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
    this.#sink.head(status, headers);
    if (this.#state === State.Length && this.#left === 0) this.#end();
  }

  #takeSize(bytes: Uint8Array, from: number): number {
    let at = from;
    for (; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (++this.#bytes > HEAD_LIMIT) break;
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
      if (++this.#bytes > HEAD_LIMIT) {
        this.#broken(`a chunk's size and its extensions have more than ${HEAD_LIMIT} bytes`);
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
      if (++this.#bytes > HEAD_LIMIT) {
        this.#broken(`the trailer of the response has more than ${HEAD_LIMIT} bytes`);
        return bytes.length;
      }
    }
    return bytes.length;
  }

  #end(): void {
    this.#state = State.Over;
    this.#sink.end();
  }

  #broken(why: string): void {
    this.stop();
    this.#sink.broken(why);
  }
}

/** Returns the end of the empty line at or after `from`, or -1 if it has not come before `to`. */
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
