/** What does a correct client make of the bytes of an answer? RFC 9112 with its framing, RFC 9110 with its codings. */
import { brotliDecompressSync, constants, gunzipSync } from "node:zlib";
import { EventsReader } from "./events-reader.ts";

const HEAD_MOST = 2 ** 20;

export class WireReader {
  readonly events = new EventsReader();
  status = 0;
  headers: ReadonlyMap<string, string> = new Map();
  /** Nothing more is to be read. */
  complete = false;
  error: string | null = null;
  /** Any byte of an answer came. */
  any = false;
  #rest: Buffer = Buffer.alloc(0);
  #framing: "head" | "size" | "chunk" | "line" | "trailers" | "length" | "close" = "head";
  #left = 0;
  #body: Buffer[] = [];
  /** Bytes of the decoded body that were handed on. */
  #told = 0;
  #streams = false;

  push(bytes: Uint8Array): void {
    if (this.complete || this.error !== null) return;
    this.any = true;
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#step());
    if (this.events.done || this.events.error !== null) this.complete = true;
  }

  /** The connection ended. */
  ended(how: "fin" | "rst"): void {
    if (this.complete || this.error !== null) return;
    if (how === "fin" && this.#framing === "close") this.#end();
    else this.error = how === "rst" ? "the connection was reset" : "the connection was closed inside the answer";
  }

  /** The first error; null: none. */
  get failure(): string | null {
    if (this.status >= 300) return `status ${this.status}`;
    return this.events.done && this.events.error === null ? null : (this.error ?? this.events.error);
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
        if (this.#rest[0] !== 13 || this.#rest[1] !== 10) this.error = "a chunk without its end";
        this.#rest = this.#rest.subarray(2);
        this.#framing = "size";
        return true;
      }
      case "trailers": {
        const line = this.#nextLine();
        if (line === "") this.#end();
        return line !== null && line !== "";
      }
    }
  }

  #head(): boolean {
    const end = this.#rest.indexOf("\r\n\r\n");
    if (end === -1) {
      if (this.#rest.length > HEAD_MOST) this.error = "a head without an end";
      return false;
    }
    const [line = "", ...fields] = this.#rest.toString("latin1", 0, end).split("\r\n");
    this.#rest = this.#rest.subarray(end + 4);
    this.status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0);
    if (this.status === 0) this.error = "no HTTP";
    if (this.status < 200) return this.error === null;
    const pairs = fields.map(
      (one) => [one.slice(0, one.indexOf(":")).toLowerCase(), one.slice(one.indexOf(":") + 1).trim()] as const,
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
    if (digits === undefined) this.error = "a chunk size that is none";
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
    this.#body.push(this.#rest.subarray(0, most));
    this.#rest = this.#rest.subarray(most);
    this.#left -= most;
    this.#tell(false);
    if (this.#framing === "close" || this.#left > 0) return false;
    if (this.#framing === "chunk") this.#framing = "line";
    else this.#end();
    return true;
  }

  #nextLine(): string | null {
    const end = this.#rest.indexOf("\r\n");
    if (end === -1) {
      if (this.#rest.length > HEAD_MOST) this.error = "a line without an end";
      return null;
    }
    const line = this.#rest.toString("latin1", 0, end);
    this.#rest = this.#rest.subarray(end + 2);
    return line;
  }

  #end(): void {
    this.#tell(true);
    this.complete = true;
    if (this.error !== null) return;
    if (this.#streams) this.events.end();
    else this.events.whole(this.#decoded(true).toString());
  }

  #tell(last: boolean): void {
    const body = this.#decoded(last);
    // A server may say one type and send the other: the first character decides.
    this.#streams ||= /^\ufeff?(data|event|id|retry|:|x-|nothing)/.test(body.toString("utf8", 0, 40));
    if (!this.#streams || body.length <= this.#told) return;
    this.events.push(body.subarray(this.#told));
    this.#told = body.length;
  }

  #decoded(last: boolean): Buffer {
    if (this.#body.length > 1) this.#body = [Buffer.concat(this.#body)];
    const body = this.#body[0] ?? Buffer.alloc(0);
    const coding = this.headers.get("content-encoding");
    if (coding === undefined || body.length === 0) return body;
    try {
      if (coding === "br")
        return brotliDecompressSync(body, last ? {} : { finishFlush: constants.BROTLI_OPERATION_FLUSH });
      return gunzipSync(body, last ? {} : { finishFlush: constants.Z_SYNC_FLUSH });
    } catch {
      if (last) this.error = `${coding} that breaks off`;
      return Buffer.alloc(0);
    }
  }
}
