/**
 * How does an answer look on the wire? `ModelInferResponse` and `ModelStreamInferResponse` by hand, since a stream has one per
 * token: what the library would write, byte for byte.
 */
import { MESSAGE_HEAD_BYTES } from "../../grpc/call.ts";
import type { Tensor } from "../../repository/tensors/datatypes.ts";
import { Real } from "../../repository/tensors/json-nodes.ts";
import type { InferParameters, ParameterValue } from "../server/request.ts";

/** A field's number and the kind of its value, as they stand before it. */
const tag = (number: number, kind: 0 | 1 | 2) => (number << 3) | kind;
const TAG = {
  error: tag(1, 2),
  response: tag(2, 2),
  name: tag(1, 2),
  version: tag(2, 2),
  id: tag(3, 2),
  parameters: tag(4, 2),
  outputs: tag(5, 2),
  raw: tag(6, 2),
  key: tag(1, 2),
  value: tag(2, 2),
  bool: tag(1, 0),
  int64: tag(2, 0),
  string: tag(3, 2),
  double: tag(4, 1),
  tensorName: tag(1, 2),
  datatype: tag(2, 2),
  shape: tag(3, 2),
} as const;

const FIRST_BYTES = 1024;
/** Up to here a loop costs less than a call of native code. */
const SHORT_BYTES = 24;
/** A larger buffer is not kept. */
const KEPT_BYTES = 1_048_576;

export interface ResponseParts {
  /** Model, version and id, as `responseHead` writes them. */
  readonly head: Uint8Array;
  readonly parameters: InferParameters;
  /** Whether it is the last response; null: nothing is said. */
  readonly final: boolean | null;
  readonly outputs: readonly Tensor[];
}

export type DescribedParts = Omit<ResponseParts, "outputs"> & { readonly outputs: readonly Omit<Tensor, "data">[] };

/** Before each text of a tensor. */
const TEXT_LENGTH_BYTES = 4;

/** Fields 1 to 3, which all answers to a request share. */
export function responseHead(model: string, version: string, id: string): Uint8Array {
  heads ??= new MessageBuffer();
  heads.begin();
  if (model !== "") heads.text(TAG.name, model);
  if (version !== "") heads.text(TAG.version, version);
  if (id !== "") heads.text(TAG.id, id);
  return new Uint8Array(heads.buffer.subarray(MESSAGE_HEAD_BYTES, heads.at));
}
/** Made with the first head: the class stands below. */
let heads: MessageBuffer | null = null;

const FINAL: Readonly<Record<"true" | "false", InferParameters>> = {
  true: [["triton_final_response", true]],
  false: [["triton_final_response", false]],
};

/** One message at a time: its bytes are good until the next one is written. */
export class ResponseWriter {
  readonly #into = new MessageBuffer();

  /** Where the message is, behind room for its head; other methods give how many bytes of this are theirs. */
  get bytes(): Buffer {
    return this.#into.buffer;
  }

  response(parts: ResponseParts): number {
    this.#into.begin();
    this.#described(parts);
    this.#data(parts.outputs);
    return this.#into.at;
  }

  /** As `response`, in parts: the data as they are, the first with room for the message's head. All are the receiver's. */
  responseParts(parts: ResponseParts): Buffer[] {
    const into = this.#into;
    into.begin();
    this.#described(parts);
    const made: Buffer[] = [];
    let from = 0;
    for (const { data } of parts.outputs) {
      into.number(TAG.raw, data.length);
      made.push(Buffer.from(into.buffer.subarray(from, into.at)));
      made.push(Buffer.from(data.buffer, data.byteOffset, data.length));
      from = into.at;
    }
    return made;
  }

  /** `error` "": none. */
  streamed(error: string, parts: ResponseParts): number {
    const into = this.#into;
    into.begin();
    if (error !== "") into.text(TAG.error, error);
    const at = into.open(TAG.response);
    this.#described(parts);
    this.#data(parts.outputs);
    into.close(at);
    return into.at;
  }

  /** What stands before the outputs' data. */
  before(parts: DescribedParts): Uint8Array {
    const into = this.#into;
    into.begin();
    this.#described(parts);
    return new Uint8Array(into.buffer.subarray(MESSAGE_HEAD_BYTES, into.at));
  }

  /** As `streamed` without an error, of what gave `before`. */
  streamedBehind(before: Uint8Array, outputs: readonly Tensor[]): number {
    const into = this.#into;
    let bytes = before.length;
    for (const { data } of outputs) bytes += 1 + varintBytes(data.length) + data.length;
    into.begin();
    into.number(TAG.response, bytes);
    into.raw(before);
    this.#data(outputs);
    return into.at;
  }

  /** Likewise, of one output with one text. */
  streamedText(before: Uint8Array, text: Uint8Array): number {
    const into = this.#into;
    const bytes = TEXT_LENGTH_BYTES + text.length;
    into.begin();
    into.number(TAG.response, before.length + 1 + varintBytes(bytes) + bytes);
    into.raw(before);
    into.number(TAG.raw, bytes);
    into.length(text.length);
    into.raw(text);
    return into.at;
  }

  #data(outputs: readonly Tensor[]): void {
    for (const { data } of outputs) this.#into.bytes(TAG.raw, data);
  }

  /** All but the outputs' data. */
  #described({ head, parameters, final, outputs }: DescribedParts): void {
    const into = this.#into;
    into.raw(head);
    for (const parameter of parameters) this.#parameter(parameter);
    if (final !== null) for (const parameter of FINAL[`${final}`]) this.#parameter(parameter);
    for (const { name, datatype, shape } of outputs) {
      const output = into.open(TAG.outputs);
      if (name !== "") into.text(TAG.tensorName, name);
      into.text(TAG.datatype, datatype);
      if (shape.length > 0) {
        const sizes = into.open(TAG.shape);
        for (const size of shape) into.varint(size);
        into.close(sizes);
      }
      into.close(output);
    }
  }

  #parameter([name, value]: readonly [string, ParameterValue]): void {
    const into = this.#into;
    const entry = into.open(TAG.parameters);
    into.bytesText(TAG.key, name);
    const at = into.open(TAG.value);
    if (typeof value === "boolean") into.number(TAG.bool, value ? 1 : 0);
    else if (typeof value === "string") into.bytesText(TAG.string, value);
    else if (value instanceof Real) into.double(TAG.double, value.value);
    else into.number(TAG.int64, value);
    into.close(at);
    into.close(entry);
  }
}

/** How many bytes a length below 2^35 takes. */
const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;

/** Protobuf's wire format, into a buffer that grows. */
class MessageBuffer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  get buffer(): Buffer {
    return this.#buffer;
  }

  get at(): number {
    return this.#at;
  }

  /** Leaves room for a message's head. */
  begin(): void {
    if (this.#buffer.length > KEPT_BYTES) this.#buffer = Buffer.allocUnsafe(FIRST_BYTES);
    this.#at = MESSAGE_HEAD_BYTES;
  }

  /** A message in the message; gives what `close` needs. */
  open(name: number): number {
    this.#room(2);
    this.#buffer[this.#at++] = name;
    // Most have lengths of one byte; `close` makes room for more.
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
    this.#room(1);
    this.#buffer[this.#at++] = name;
    this.varint(value);
  }

  /** 32 bits, as they stand before a text in a tensor. */
  length(value: number): void {
    this.#room(TEXT_LENGTH_BYTES);
    // Bun's `writeUInt32LE` makes a view of each buffer.
    for (let rest = value, at = 0; at < TEXT_LENGTH_BYTES; rest >>>= 8, at++) this.#buffer[this.#at++] = rest;
  }

  double(name: number, value: number): void {
    this.#room(9);
    this.#buffer[this.#at++] = name;
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
  }

  text(name: number, text: string): void {
    this.#string(name, text, Buffer.byteLength(text), "utf8");
  }

  /** A text of bytes, one character each. */
  bytesText(name: number, text: string): void {
    this.#string(name, text, text.length, "latin1");
  }

  #string(name: number, text: string, bytes: number, encoding: "utf8" | "latin1"): void {
    this.number(name, bytes);
    this.#room(bytes);
    this.#at += this.#buffer.write(text, this.#at, bytes, encoding);
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

  /** Whole numbers; below 0 as 64 bits have them. */
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

  #room(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(needed)));
    larger.set(this.#buffer.subarray(0, this.#at));
    this.#buffer = larger;
  }
}
