/** Encodes protobuf messages into a growing buffer. */
import { MESSAGE_HEAD_BYTES } from "../../../wire/grpc/incoming.ts";
import { isAscii, LENGTH_BYTES } from "../tensors/datatypes.ts";

/** Returns the tag of a field: its number and its wire type. */
export const tag = (number: number, kind: 0 | 1 | 2 | 5): number => (number << 3) | kind;

const FIRST_BYTES = 1024;
/** For strings up to this length, a loop is faster than a call of native code. */
const SHORT_BYTES = 24;
/** A larger buffer is replaced before the next message. */
const KEPT_BYTES = 1_048_576;

/** Returns the number of bytes of a varint below 2^35. */
export const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;

/** A field's `name` is its tag, which has at most two bytes. */
export class MessageBuffer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  get buffer(): Buffer {
    return this.#buffer;
  }

  get at(): number {
    return this.#at;
  }

  /** Starts a message after room for its head. */
  begin(): void {
    if (this.#buffer.length > KEPT_BYTES) this.#buffer = Buffer.allocUnsafe(FIRST_BYTES);
    this.#at = MESSAGE_HEAD_BYTES;
  }

  /** Returns a copy of the written bytes. The next write starts at the beginning, without room for a head. */
  take(): Buffer {
    const taken = Buffer.from(this.#buffer.subarray(0, this.#at));
    this.#at = 0;
    return taken;
  }

  /** Starts a nested message. Returns the position that `close` needs. */
  open(name: number): number {
    this.tag(name, 1);
    // Most messages have a length of one byte; `close` makes room for more.
    return ++this.#at;
  }

  close(from: number): void {
    const length = this.#at - from;
    if (length < 0x80) {
      this.#buffer[from - 1] = length;
      return;
    }
    let more = 0;
    for (let rest = length; rest >= 0x80; rest = Math.floor(rest / 0x80)) more++;
    this.#room(more);
    this.#buffer.copyWithin(from + more, from, this.#at);
    this.#at = from - 1;
    this.varint(length);
    this.#at += length;
  }

  number(name: number, value: number | bigint): void {
    this.tag(name);
    this.varint(value);
  }

  /** Writes 32 bits, as before a string in a tensor. */
  length(value: number): void {
    this.#room(LENGTH_BYTES);
    // Bun's `writeUInt32LE` creates a view for every buffer.
    for (let rest = value, at = 0; at < LENGTH_BYTES; rest >>>= 8, at++) this.#buffer[this.#at++] = rest;
  }

  doubleValue(value: number): void {
    this.#room(8);
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
  }

  floatValue(value: number): void {
    this.#room(4);
    this.#at = this.#buffer.writeFloatLE(value, this.#at);
  }

  text(name: number, text: string): void {
    if (isAscii(text)) this.bytesText(name, text);
    else this.#string(name, text, Buffer.byteLength(text), "utf8");
  }

  /** Writes a string with one character per byte. */
  bytesText(name: number, text: string): void {
    this.#string(name, text, text.length, "latin1");
  }

  #string(name: number, text: string, bytes: number, encoding: "utf8" | "latin1"): void {
    this.number(name, bytes);
    this.#room(bytes);
    if (encoding === "latin1" && bytes <= SHORT_BYTES)
      for (let at = 0; at < bytes; at++) this.#buffer[this.#at++] = text.charCodeAt(at);
    else this.#at += this.#buffer.write(text, this.#at, bytes, encoding);
  }

  bytes(name: number, bytes: Uint8Array): void {
    this.number(name, bytes.length);
    this.raw(bytes);
  }

  raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    if (bytes.length > SHORT_BYTES) this.#buffer.set(bytes, this.#at);
    else for (let at = 0; at < bytes.length; at++) this.#buffer[this.#at + at] = bytes[at]!;
    this.#at += bytes.length;
  }

  /** Writes an integer. Negative integers take 64 bits. */
  varint(value: number | bigint): void {
    this.#room(10);
    if (typeof value === "bigint" || value < 0) {
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest >= 0x80n; rest >>= 7n) this.#buffer[this.#at++] = Number(rest & 0x7fn) | 0x80;
      this.#buffer[this.#at++] = Number(rest);
      return;
    }
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#buffer[this.#at++] = (rest % 0x80) | 0x80;
    this.#buffer[this.#at++] = rest;
  }

  /** Writes a tag, and reserves `more` bytes after it. */
  tag(name: number, more = 0): void {
    this.#room(2 + more);
    if (name < 0x80) this.#buffer[this.#at++] = name;
    else {
      this.#buffer[this.#at++] = (name & 0x7f) | 0x80;
      this.#buffer[this.#at++] = name >> 7;
    }
  }

  #room(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(needed)));
    larger.set(this.#buffer.subarray(0, this.#at));
    this.#buffer = larger;
  }
}
