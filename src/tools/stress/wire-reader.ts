/** Reads the bytes of an HTTP/1 answer as a correct client does: framing by RFC 9112, content codings by RFC 9110. */
import { brotliDecompressSync, constants, gunzipSync } from "node:zlib";
import { GrowingBytes } from "../../base/growing-bytes.ts";
import { EventsReader } from "./events-reader.ts";

/** Maximum number of bytes of a head, of a line between chunks, and of the trailers. */
const HEAD_MOST = 2 ** 20;
/** Maximum number of bytes of a body, both compressed and decompressed. */
const BODY_MOST = 2 ** 26;
const LF = 10;
const HEAD_END = "\r\n\r\n";
const NOTHING = Buffer.alloc(0);
const INTERIM_MOST = 100;
/** Matches the beginning of an event stream. It must be within the first 40 bytes. */
const STREAM = /^\ufeff?(data|event|id|retry|:|x-|nothing)/;
const BEGIN_BYTES = 40;
/** A compressed body of up to this size is decompressed again with each part, a larger one only after it grew by an eighth. */
const UNPACKED_EACH_TIME = 1 << 16;
const UNPACKED_AGAIN = 1.125;

export class WireReader {
  readonly events = new EventsReader();
  status = 0;
  headers: ReadonlyMap<string, string> = new Map();
  /** True if the answer has ended. */
  complete = false;
  error: string | null = null;
  /** True if any byte of an answer came. */
  any = false;
  /** Bytes of a head or a line that is not complete. */
  readonly #pending = new GrowingBytes(HEAD_MOST);
  /** Bytes that are not parsed yet. */
  #rest: Buffer = NOTHING;
  #framing: "head" | "size" | "chunk" | "line" | "trailers" | "length" | "close" = "head";
  #left = 0;
  #body: Buffer[] = [];
  #bodyBytes = 0;
  #trailerBytes = 0;
  #interims = 0;
  /** The decoded body so far, the number of compressed bytes it came from, and the number of its bytes that were passed on. */
  #unpacked: Buffer = Buffer.alloc(0);
  #unpackedBytes = 0;
  #passedOn = 0;
  #streams = false;
  /** True if the body did not begin like an event stream. */
  #isWhole = false;

  push(bytes: Uint8Array): void {
    if (this.complete || this.error !== null) return;
    this.any = true;
    if (!this.#mayStep(bytes)) {
      this.#wait(bytes);
      return;
    }
    this.#rest = Buffer.concat([this.#pending.bytes(), bytes]);
    this.#pending.clear();
    while (this.#step());
    this.#wait(this.#rest);
    this.#rest = NOTHING;
    if (this.events.done || this.events.error !== null) this.complete = true;
  }

  /** Records that the connection ended. */
  ended(how: "fin" | "rst"): void {
    if (this.complete || this.error !== null) return;
    if (how === "fin" && this.#framing === "close") this.#end();
    else this.error = how === "rst" ? "the connection was reset" : "the connection was closed inside the answer";
  }

  /** The first error. Null if there is none. */
  get failure(): string | null {
    if (this.status >= 300) return `the server answered with status ${this.status}`;
    return this.events.done && this.events.error === null ? null : (this.error ?? this.events.error);
  }

  /**
   * Returns false while the end of a head or a line is missing. Parsing it from its start each time would take quadratic time.
   */
  #mayStep(bytes: Uint8Array): boolean {
    const isLine = this.#framing === "size" || this.#framing === "trailers";
    if (isLine) return bytes.includes(LF);
    if (this.#framing !== "head") return true;
    const end = Buffer.concat([this.#pending.bytes().subarray(-3), bytes]);
    return end.includes(HEAD_END);
  }

  #wait(bytes: Uint8Array): void {
    if (this.complete || this.error !== null || this.#pending.append(bytes, 0, bytes.length)) return;
    this.error = this.#framing === "head" ? "the head has no end within 1 MiB" : "a line has no end within 1 MiB";
  }

  #step(): boolean {
    if (this.complete || this.error !== null) return false;
    switch (this.#framing) {
      case "head":
        return this.#head();
      case "size":
        return this.#size();
      case "chunk":
      case "length":
      case "close":
        return this.#take();
      case "line": {
        if (this.#rest.length < 2) return false;
        if (this.#rest[0] !== 13 || this.#rest[1] !== 10) this.error = "a chunk has no line end";
        this.#rest = this.#rest.subarray(2);
        this.#framing = "size";
        return true;
      }
      case "trailers": {
        const line = this.#nextLine();
        if (line !== null) this.#trailerBytes += line.length + 2;
        if (this.#trailerBytes > HEAD_MOST) this.error = "the trailers have no end within 1 MiB";
        if (line === "") this.#end();
        return line !== null && line !== "";
      }
    }
  }

  #head(): boolean {
    const end = this.#rest.indexOf(HEAD_END);
    if (end === -1) return false;
    const [line = "", ...fields] = this.#rest.toString("latin1", 0, end).split("\r\n");
    this.#rest = this.#rest.subarray(end + 4);
    this.status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0);
    if (this.status === 0) this.error = "the answer is not HTTP/1";
    if (this.status < 200) {
      if (++this.#interims > INTERIM_MOST) this.error = "interim answers have no end";
      return this.error === null;
    }
    const pairs = fields.map(
      (field) =>
        [field.slice(0, field.indexOf(":")).toLowerCase(), field.slice(field.indexOf(":") + 1).trim()] as const,
    );
    this.headers = new Map(pairs);
    const length = this.headers.get("content-length");
    if (this.headers.get("transfer-encoding") === "chunked") this.#framing = "size";
    else if (length !== undefined) {
      this.#framing = "length";
      this.#left = Number(length);
      if (this.#left === 0) this.#end();
    } else this.#framing = "close";
    return true;
  }

  #size(): boolean {
    const line = this.#nextLine();
    if (line === null) return false;
    const digits = /^([0-9a-fA-F]{1,8})(?:[ \t]*;.*)?$/.exec(line)?.[1];
    if (digits === undefined) this.error = "a chunk size is not a number";
    else if (Number.parseInt(digits, 16) === 0) this.#framing = "trailers";
    else {
      this.#left = Number.parseInt(digits, 16);
      this.#framing = "chunk";
    }
    return true;
  }

  #take(): boolean {
    const most = this.#framing === "close" ? this.#rest.length : Math.min(this.#left, this.#rest.length);
    if (most === 0) return false;
    this.#bodyBytes += most;
    if (this.#bodyBytes > BODY_MOST) {
      this.error = `more than ${BODY_MOST} bytes`;
      this.#body = [];
      return false;
    }
    this.#body.push(this.#rest.subarray(0, most));
    this.#rest = this.#rest.subarray(most);
    this.#left -= most;
    this.#passOn(false);
    if (this.#framing === "close" || this.#left > 0) return false;
    if (this.#framing === "chunk") this.#framing = "line";
    else this.#end();
    return true;
  }

  #nextLine(): string | null {
    const end = this.#rest.indexOf("\r\n");
    if (end === -1) return null;
    const line = this.#rest.toString("latin1", 0, end);
    this.#rest = this.#rest.subarray(end + 2);
    return line;
  }

  #end(): void {
    this.#passOn(true);
    this.complete = true;
    if (this.error !== null) return;
    if (this.#streams) this.events.end();
    else
      this.events.whole((this.headers.has("content-encoding") ? this.#unpacked : Buffer.concat(this.#body)).toString());
  }

  /** Passes on the new part of an event stream. An answer that is one body waits for its end. */
  #passOn(last: boolean): void {
    const coding = this.headers.get("content-encoding");
    if (coding !== undefined) {
      this.#passOnDecoded(coding, last);
      return;
    }
    // A server may declare one type and send another, so the first characters decide.
    if (!this.#streams && !this.#isWhole) {
      const begin = Buffer.concat(this.#body);
      this.#body = [begin];
      this.#streams = STREAM.test(begin.toString("utf8", 0, BEGIN_BYTES));
      this.#isWhole = !this.#streams && begin.length >= BEGIN_BYTES;
    }
    if (!this.#streams) return;
    for (const part of this.#body) this.events.push(part);
    this.#body = [];
  }

  /**
   * Passes on the new part of a compressed stream. The runtime decompresses a body from its start each time, so a long one is
   * only decompressed again after it grew by an eighth.
   */
  #passOnDecoded(coding: string, last: boolean): void {
    if (!last && this.#bodyBytes > UNPACKED_EACH_TIME && this.#bodyBytes < this.#unpackedBytes * UNPACKED_AGAIN) return;
    this.#unpackedBytes = this.#bodyBytes;
    this.#unpacked = this.#unpack(coding, last);
    this.#streams ||= STREAM.test(this.#unpacked.toString("utf8", 0, BEGIN_BYTES));
    if (!this.#streams || this.#unpacked.length <= this.#passedOn) return;
    this.events.push(this.#unpacked.subarray(this.#passedOn));
    this.#passedOn = this.#unpacked.length;
  }

  #unpack(coding: string, last: boolean): Buffer {
    const body = Buffer.concat(this.#body);
    this.#body = [body];
    if (body.length === 0) return body;
    const limit = { maxOutputLength: BODY_MOST };
    try {
      if (coding === "br")
        return brotliDecompressSync(body, {
          ...limit,
          ...(last ? {} : { finishFlush: constants.BROTLI_OPERATION_FLUSH }),
        });
      return gunzipSync(body, { ...limit, ...(last ? {} : { finishFlush: constants.Z_SYNC_FLUSH }) });
    } catch {
      if (last) this.error = `the ${coding} stream is cut off`;
      return Buffer.alloc(0);
    }
  }
}
