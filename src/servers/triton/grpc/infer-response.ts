/**
 * Writes `ModelInferResponse` and `ModelStreamInferResponse` without a library, because a stream has one message per token. The
 * bytes equal those of protobuf's library.
 */

import { overwriteEachTurn } from "../../../base/overwritten-buffers.ts";
import { MESSAGE_HEAD_BYTES } from "../../../wire/grpc/incoming.ts";
import type { InferParameters } from "../inference/request.ts";
import { LENGTH_BYTES, type Tensor } from "../tensors/datatypes.ts";
import { Real } from "../tensors/json-nodes.ts";
import type { ParameterValue } from "../tensors/tensor-json.ts";
import { MessageBuffer, tag, varintBytes } from "./message-buffer.ts";

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

export interface ResponseParts {
  /** Model, version and id, encoded by `responseHead`. */
  readonly head: Uint8Array;
  readonly parameters: InferParameters;
  /** True for the last response. Null: the response has no final flag. */
  readonly final: boolean | null;
  readonly outputs: readonly Tensor[];
}

export type DescribedParts = Omit<ResponseParts, "outputs"> & { readonly outputs: readonly Omit<Tensor, "data">[] };

/** Encodes fields 1 to 3, which all responses to a request share. */
export function responseHead(model: string, version: string, id: string): Uint8Array {
  if (id === "" && last?.model === model && last.version === version) return last.head;
  heads ??= new MessageBuffer();
  heads.begin();
  if (model !== "") heads.text(TAG.name, model);
  if (version !== "") heads.text(TAG.version, version);
  if (id !== "") heads.text(TAG.id, id);
  const head = new Uint8Array(heads.buffer.subarray(MESSAGE_HEAD_BYTES, heads.at));
  if (id === "") last = { model, version, head };
  return head;
}
/** The last head without an id. Heads with an id are not kept, because they differ, and a client's id may be long. */
let last: Readonly<Record<"model" | "version", string> & { head: Uint8Array }> | null = null;
/** Created with the first head, because the class is declared below. */
let heads: MessageBuffer | null = null;

const FINAL: Readonly<Record<"true" | "false", InferParameters>> = {
  true: [["triton_final_response", true]],
  false: [["triton_final_response", false]],
};

/** Writes one message at a time. Its bytes are valid until the next message, and no longer than this turn of the event loop. */
export class ResponseWriter {
  readonly #into = new MessageBuffer();

  constructor() {
    overwriteEachTurn(() => this.#into.buffer);
  }

  /** The buffer with the message, after room for its head. Other methods return the length of the message. */
  get bytes(): Buffer {
    return this.#into.buffer;
  }

  response(parts: ResponseParts): number {
    this.#into.begin();
    this.#described(parts);
    this.#data(parts.outputs);
    return this.#into.at;
  }

  /**
   * Writes a response in parts without copying the data. The first part has room for the message's head. The caller owns all
   * parts.
   */
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

  /** Writes a streamed response. `error` "": no error. */
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

  /** Encodes the part before the data of the outputs. */
  before(parts: DescribedParts): Uint8Array {
    const into = this.#into;
    into.begin();
    this.#described(parts);
    return new Uint8Array(into.buffer.subarray(MESSAGE_HEAD_BYTES, into.at));
  }

  /** Writes a streamed response after an encoded `before`, without an error. */
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

  /** Writes a streamed response with one output that contains one string, after an encoded `before`. */
  streamedText(before: Uint8Array, text: Uint8Array): number {
    const into = this.#into;
    const bytes = LENGTH_BYTES + text.length;
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

  /** Writes everything except the data of the outputs. */
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
    else if (value instanceof Real) {
      into.tag(TAG.double);
      into.doubleValue(value.value);
    } else into.number(TAG.int64, value);
    into.close(at);
    into.close(entry);
  }
}
