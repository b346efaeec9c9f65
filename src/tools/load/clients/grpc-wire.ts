/** Writes and reads messages of `inference.GRPCInferenceService` by the numbers of their fields, with protobuf's own reader. */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type ByteBudget, GrowingBytes } from "../../../base/growing-bytes.ts";
import { bytesOfTensor, type FilledTensor, inputOf, type TritonInput, type TritonInputs } from "../requests/tensors.ts";

const HEAD_BYTES = 5;

/** Behind a byte and its length, as gRPC has messages. */
export function framedMessage(message: Uint8Array): Buffer {
  const all = Buffer.alloc(HEAD_BYTES + message.length);
  all.writeUInt32BE(message.length, 1);
  all.set(message, HEAD_BYTES);
  return all;
}

/** Takes bytes as they come and hands out whole messages. Throws an Error for a packed or too large message. */
export class MessageReader {
  /** The head and the beginning of a message whose end has not come. */
  readonly #held: GrowingBytes;
  readonly #most: number;

  /** `most`: bytes of a message; `held`: counts what all calls hold. */
  constructor(most: number, held: ByteBudget) {
    this.#most = most;
    this.#held = new GrowingBytes(HEAD_BYTES + most, held);
  }

  push(bytes: Uint8Array, take: (message: Uint8Array) => void): void {
    for (let at = 0; at < bytes.length; ) {
      const wanted = this.#wanted();
      const to = Math.min(bytes.length, at + wanted - this.#held.length);
      if (!this.#held.append(bytes, at, to)) throw new Error("all answers under way hold too much");
      at = to;
      if (this.#held.length < wanted || this.#wanted() > this.#held.length) continue;
      take(this.#held.bytes().subarray(HEAD_BYTES));
      this.#held.clear();
    }
  }

  /** Nothing more comes: nothing is held. */
  stop(): void {
    this.#held.release();
  }

  /** Bytes of the message with its head; as many as the head has while that is not complete. */
  #wanted(): number {
    if (this.#held.length < HEAD_BYTES) return HEAD_BYTES;
    const head = this.#held.bytes();
    const length = head.readUInt32BE(1);
    if (head[0] !== 0) throw new Error("a message that is packed, which was not asked for");
    if (length > this.#most) throw new Error(`a message of ${length} bytes, more than ${this.#most}`);
    return HEAD_BYTES + length;
  }
}

/** `ModelInferRequest`; `endsToo`: an end without outputs is told, too. */
export function inferRequest(
  model: string,
  id: string,
  tensors: readonly FilledTensor[],
  endsToo: boolean,
): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, WireType.LengthDelimited).string(model);
  writer.tag(3, WireType.LengthDelimited).string(id);
  if (endsToo) {
    writer.tag(4, WireType.LengthDelimited).fork();
    writer.tag(1, WireType.LengthDelimited).string("triton_enable_empty_final_response");
    writer.tag(2, WireType.LengthDelimited).fork().tag(1, WireType.Varint).bool(true).join();
    writer.join();
  }
  for (const { name, datatype, shape } of tensors) {
    writer.tag(5, WireType.LengthDelimited).fork();
    writer.tag(1, WireType.LengthDelimited).string(name);
    writer.tag(2, WireType.LengthDelimited).string(datatype);
    writer.tag(3, WireType.LengthDelimited).fork();
    for (const size of shape) writer.int64(size);
    writer.join().join();
  }
  for (const tensor of tensors) writer.tag(7, WireType.LengthDelimited).bytes(bytesOfTensor(tensor));
  return writer.finish();
}

export function modelConfigRequest(model: string): Uint8Array {
  return new BinaryWriter().tag(1, WireType.LengthDelimited).string(model).finish();
}

/** Calls `take` with each field; it gives false where it did not read it. */
function fieldsIn(reader: BinaryReader, length: number, take: (field: number) => unknown): void {
  const end = reader.pos + length;
  while (reader.pos < end) {
    const [field, type] = reader.tag();
    if (take(field) === false) reader.skip(type, field);
  }
}

const within = (reader: BinaryReader, take: (field: number) => unknown) => fieldsIn(reader, reader.uint32(), take);

/** The type's name at the number of protobuf's `DataType`. */
const TYPES = ["INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"].concat([
  "FP16",
  "FP32",
  "FP64",
  "STRING",
  "BF16",
]);

/** Most dimensions of an input. */
const DIMS_MOST = 64;

/** Reads what a `ModelConfigResponse` says of a model. Throws an Error for bytes that are no such message. */
export function modelIn(name: string, message: Uint8Array): TritonInputs {
  const reader = new BinaryReader(message);
  let [batched, decoupled] = [false, false];
  const found: { name: string; type: string; dims: number[]; optional: boolean }[] = [];
  const input = () => {
    const one = { name: "", type: "INVALID", dims: [] as number[], optional: false };
    within(reader, (field) => {
      if (field === 1) one.name = reader.string();
      else if (field === 2) one.type = TYPES[reader.int32()] ?? "INVALID";
      else if (field === 4) {
        const end = reader.uint32() + reader.pos;
        while (reader.pos < end) {
          if (one.dims.length === DIMS_MOST) throw new Error(`an input of more than ${DIMS_MOST} dimensions`);
          one.dims.push(Number(reader.int64()));
        }
      } else if (field === 8) one.optional = reader.bool();
      else return false;
    });
    found.push(one);
  };
  fieldsIn(reader, message.length, (outer) => {
    if (outer !== 1) return false;
    within(reader, (field) => {
      if (field === 4) batched = reader.int32() > 0;
      else if (field === 5) input();
      else if (field === 19)
        within(reader, (policy) => {
          if (policy !== 1) return false;
          decoupled = reader.bool();
        });
      else return false;
    });
  });
  const inputs = found.map((one): TritonInput => inputOf(one.name, one.type, one.dims, one.optional, batched));
  return { name, decoupled, inputs };
}

/** What an answer says; `final` null: it does not say whether it is the last. */
export interface InferAnswered {
  error: string;
  outputs: number;
  final: boolean | null;
  /** The first text of `text_output`. */
  text: string;
}

/** Reads a `ModelInferResponse` or, in a stream, a `ModelStreamInferResponse`. Throws an Error for other bytes. */
export function answerIn(message: Uint8Array, streamed: boolean): InferAnswered {
  const reader = new BinaryReader(message);
  const found: InferAnswered = { error: "", outputs: 0, final: null, text: "" };
  let [texts, raws] = [-1, 0];
  const response = (field: number) => {
    if (field === 4) parameter(reader, found);
    else if (field === 5) {
      within(reader, (own) => {
        if (own !== 1) return false;
        if (reader.string() === "text_output") texts = found.outputs;
      });
      found.outputs++;
    } else if (field === 6) {
      const bytes = reader.bytes();
      if (raws++ === texts && bytes.length >= 4) found.text = firstText(bytes);
    } else return false;
  };
  if (!streamed) fieldsIn(reader, message.length, response);
  else
    fieldsIn(reader, message.length, (field) => {
      if (field === 1) found.error = reader.string();
      else if (field === 2) within(reader, response);
      else return false;
    });
  return found;
}

function parameter(reader: BinaryReader, found: InferAnswered): void {
  let name = "";
  within(reader, (field) => {
    if (field === 1) name = reader.string();
    else if (field === 2)
      within(reader, (kind) => {
        if (kind !== 1) return false;
        const value = reader.bool();
        if (name === "triton_final_response") found.final = value;
      });
    else return false;
  });
}

function firstText(bytes: Uint8Array): string {
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  return Buffer.from(bytes.buffer, bytes.byteOffset + 4, Math.min(length, bytes.length - 4)).toString();
}
