/** Reads the bytes of an HTTP/1 answer as a correct client does: framing by RFC 9112, content codings by RFC 9110. */
import { brotliDecompressSync, constants, gunzipSync } from "node:zlib";
import { ResponseParser, type ResponseSink } from "../load/clients/http-response.ts";
import { EventsReader } from "./events-reader.ts";

/** Maximum number of bytes of a head, of a line between chunks, and of the trailers. */
const HEAD_MOST = 2 ** 20;
/** Maximum number of bytes of a body, both compressed and decompressed. */
const BODY_MOST = 2 ** 26;
/** Matches the beginning of an event stream. It must be within the first 40 bytes. */
const STREAM = /^\ufeff?(data|event|id|retry|:|x-|nothing)/;
const BEGIN_BYTES = 40;
/** A compressed body of up to this size is decompressed again with each part, a larger one only after it grew by an eighth. */
const UNPACKED_EACH_TIME = 1 << 16;
const UNPACKED_AGAIN = 1.125;

export class WireReader implements ResponseSink {
  readonly events = new EventsReader();
  status = 0;
  headers: ReadonlyMap<string, string> = new Map();
  /** True if the answer has ended. */
  complete = false;
  error: string | null = null;
  /** True if any byte of an answer came. */
  any = false;
  readonly #parser = new ResponseParser(this, HEAD_MOST);
  #body: Buffer[] = [];
  #bodyBytes = 0;
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
    this.#parser.push(bytes);
    if (this.events.done || this.events.error !== null) this.complete = true;
  }

  /** Records that the connection ended. */
  ended(how: "fin" | "rst"): void {
    if (this.complete || this.error !== null) return;
    if (how === "fin" && this.#parser.closed()) return;
    this.error = how === "rst" ? "the connection was reset" : "the connection was closed inside the answer";
  }

  /** The first error. Null if there is none. */
  get failure(): string | null {
    if (this.status >= 300) return `the server answered with status ${this.status}`;
    return this.events.done && this.events.error === null ? null : (this.error ?? this.events.error);
  }

  head(status: number, headers: ReadonlyMap<string, string>): void {
    this.status = status;
    this.headers = headers;
  }

  body(bytes: Uint8Array, from: number, to: number): void {
    this.#bodyBytes += to - from;
    if (this.#bodyBytes > BODY_MOST) {
      this.broken(`more than ${BODY_MOST} bytes`);
      this.#body = [];
      this.#parser.stop();
      return;
    }
    this.#body.push(Buffer.from(bytes.subarray(from, to)));
    this.#passOn(false);
  }

  end(): void {
    this.#passOn(true);
    this.complete = true;
    if (this.error !== null) return;
    if (this.#streams) this.events.end();
    else
      this.events.whole((this.headers.has("content-encoding") ? this.#unpacked : Buffer.concat(this.#body)).toString());
  }

  broken(why: string): void {
    this.error = why;
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
