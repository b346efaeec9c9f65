/** Encodes and decodes messages of `inference.GRPCInferenceService` by field numbers, with protobuf's own reader and writer. */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type ByteBudget, GrowingBytes } from "../../../base/growing-bytes.ts";
import { bytesOfTensor, type FilledTensor, inputOf, type TritonInput, type TritonInputs } from "../requests/tensors.ts";

const HEAD_BYTES = 5;

/** Prepends gRPC's message header: a flag byte and the length. */
export function framedMessage(message: Uint8Array): Buffer {
  const all = Buffer.alloc(HEAD_BYTES + message.length);
  all.writeUInt32BE(message.length, 1);
  all.set(message, HEAD_BYTES);
  return all;
}

/** Splits a byte stream into messages. Throws an Error for a compressed message, or one that is too large. */
export class MessageReader {
  /** A message that is not complete yet, with its header. */
  readonly #held: GrowingBytes;
  readonly #most: number;

  /** `most`: maximum number of bytes of a message. `held`: memory budget of all calls. */
  constructor(most: number, held: ByteBudget) {
    this.#most = most;
    this.#held = new GrowingBytes(HEAD_BYTES + most, held);
  }

  push(bytes: Uint8Array, take: (message: Uint8Array) => void): void {
    for (let at = 0; at < bytes.length; ) {
      const needed = this.#wanted();
      const to = Math.min(bytes.length, at + needed - this.#held.length);
      if (!this.#held.append(bytes, at, to)) throw new Error("the answers in progress take too much memory");
      at = to;
      if (this.#held.length < needed || this.#wanted() > this.#held.length) continue;
      take(this.#held.bytes().subarray(HEAD_BYTES));
      this.#held.clear();
    }
  }

  /** Frees the memory. Called when no more data comes. */
  stop(): void {
    this.#held.release();
  }

  /** Returns the size of the message with its header, or the size of the header while it is incomplete. */
  #wanted(): number {
    if (this.#held.length < HEAD_BYTES) return HEAD_BYTES;
    const head = this.#held.bytes();
    const length = head.readUInt32BE(1);
    if (head[0] !== 0) throw new Error("a compressed message, which was not requested");
    if (length > this.#most) throw new Error(`a message of ${length} bytes, more than ${this.#most}`);
    return HEAD_BYTES + length;
  }
}

/** Encodes a `ModelInferRequest`. `endsToo`: asks for a last response even if it has no outputs. */
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

/** Calls `take` for each field. If `take` returns false, the field is skipped. */
function fieldsIn(reader: BinaryReader, length: number, take: (field: number) => unknown): void {
  const end = reader.pos + length;
  while (reader.pos < end) {
    const [field, type] = reader.tag();
    if (take(field) === false) reader.skip(type, field);
  }
}

const within = (reader: BinaryReader, take: (field: number) => unknown) => fieldsIn(reader, reader.uint32(), take);

/** Names of protobuf's `DataType`, by number. */
const TYPES = ["INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"].concat([
  "FP16",
  "FP32",
  "FP64",
  "STRING",
  "BF16",
]);

/** Maximum number of dimensions of an input. */
const DIMS_MOST = 64;

/** Reads the inputs of a model from a `ModelConfigResponse`. Throws an Error if the bytes are not such a message. */
export function modelIn(name: string, message: Uint8Array): TritonInputs {
  const reader = new BinaryReader(message);
  let [batched, decoupled] = [false, false];
  const drafts: { name: string; type: string; dims: number[]; optional: boolean }[] = [];
  const input = () => {
    const draft = { name: "", type: "INVALID", dims: [] as number[], optional: false };
    within(reader, (field) => {
      if (field === 1) draft.name = reader.string();
      else if (field === 2) draft.type = TYPES[reader.int32()] ?? "INVALID";
      else if (field === 4) {
        const end = reader.uint32() + reader.pos;
        while (reader.pos < end) {
          if (draft.dims.length === DIMS_MOST) throw new Error(`an input of more than ${DIMS_MOST} dimensions`);
          draft.dims.push(Number(reader.int64()));
        }
      } else if (field === 8) draft.optional = reader.bool();
      else return false;
    });
    drafts.push(draft);
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
  const inputs = drafts.map(
    (draft): TritonInput => inputOf(draft.name, draft.type, draft.dims, draft.optional, batched),
  );
  return { name, decoupled, inputs };
}

/** Content of a response. `final` is null if the response does not say whether it is the last. */
export interface InferResponse {
  error: string;
  outputs: number;
  final: boolean | null;
  /** The first text of the output `text_output`. */
  text: string;
}

/** Reads a `ModelInferResponse` or, in a stream, a `ModelStreamInferResponse`. Throws an Error for other bytes. */
export function answerIn(message: Uint8Array, streamed: boolean): InferResponse {
  const reader = new BinaryReader(message);
  const response: InferResponse = { error: "", outputs: 0, final: null, text: "" };
  let [texts, raws] = [-1, 0];
  const readField = (field: number) => {
    if (field === 4) parameter(reader, response);
    else if (field === 5) {
      within(reader, (outputField) => {
        if (outputField !== 1) return false;
        if (reader.string() === "text_output") texts = response.outputs;
      });
      response.outputs++;
    } else if (field === 6) {
      const bytes = reader.bytes();
      if (raws++ === texts && bytes.length >= 4) response.text = firstText(bytes);
    } else return false;
  };
  if (!streamed) fieldsIn(reader, message.length, readField);
  else
    fieldsIn(reader, message.length, (field) => {
      if (field === 1) response.error = reader.string();
      else if (field === 2) within(reader, readField);
      else return false;
    });
  return response;
}

function parameter(reader: BinaryReader, response: InferResponse): void {
  let name = "";
  within(reader, (field) => {
    if (field === 1) name = reader.string();
    else if (field === 2)
      within(reader, (kind) => {
        if (kind !== 1) return false;
        const value = reader.bool();
        if (name === "triton_final_response") response.final = value;
      });
    else return false;
  });
}

function firstText(bytes: Uint8Array): string {
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  return Buffer.from(bytes.buffer, bytes.byteOffset + 4, Math.min(length, bytes.length - 4)).toString();
}
