/** Makes gRPC messages that no client would send: with many small fields, long lists, or compressed bytes. */

const varint = (value: number): number[] =>
  value < 128 ? [value] : [(value & 127) | 128, ...varint(Math.floor(value / 128))];

/** Encodes a field of bytes. */
export const field = (number: number, bytes: Uint8Array | string): Buffer => {
  const value = Buffer.from(bytes as string);
  return Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(value.length)]), value]);
};
/** Repeats bytes up to a length. */
export const filled = (unit: readonly number[], length: number): Buffer =>
  Buffer.alloc(length - (length % unit.length), Buffer.from(unit));

/** Encodes a request for a model with one input `x` and these contents. */
export const withContents = (model: string, datatype: string, count: number, contents: Uint8Array): Buffer => {
  const shape = field(3, Buffer.from(varint(count)));
  return Buffer.concat([
    field(1, model),
    field(5, Buffer.concat([field(1, "x"), field(2, datatype), shape, field(5, contents)])),
  ]);
};
export const withRaw = (model: string, datatype: string, count: number, raw: Uint8Array): Buffer => {
  const shape = field(3, Buffer.from(varint(count)));
  const input = field(5, Buffer.concat([field(1, "x"), field(2, datatype), shape]));
  return Buffer.concat([field(1, model), input, field(7, raw)]);
};
/** Encodes entries of a map, each with a key and the value `true`. */
export const entries = (number: number, count: number): Buffer =>
  Buffer.concat(
    Array.from({ length: count }, (_, at) =>
      field(number, Buffer.concat([field(1, `k${at}`), field(2, Buffer.from([8, 1]))])),
    ),
  );

/** Returns a name of three letters, different for each number below 46,656. */
const nameOf = (at: number): string => at.toString(36).padStart(3, "0");
const entry = (number: number, key: string, value: Uint8Array): Buffer =>
  field(number, Buffer.concat([field(1, key), field(2, value)]));
const TRUE = Buffer.from([8, 1]);
const shape = field(3, Buffer.from([1]));
const input = (...fields: readonly Uint8Array[]): Buffer => field(5, Buffer.concat(fields));
const CONTENTS = [1, 2, 3, 4, 5].map((list) => field(list, Buffer.from([1])));

/** The smallest fields of a `ModelInferRequest` of each kind, made from a running number. */
export const SMALL_FIELDS: Readonly<Record<string, (at: number) => Buffer>> = {
  "empty inputs": () => input(),
  "inputs with an empty name": () => input(field(1, "")),
  "inputs with a name": (at) => input(field(1, nameOf(at))),
  "inputs with an unknown field": () => input(Buffer.from([0x78, 1])),
  "inputs with a shape": () => input(shape),
  "inputs with an empty shape": () => input(field(3, "")),
  "inputs with empty contents": () => input(field(5, "")),
  "inputs with contents": (at) => input(field(1, nameOf(at)), field(2, "INT32"), shape, field(5, CONTENTS[1]!)),
  "inputs with five lists": () => input(field(5, Buffer.concat(CONTENTS))),
  "inputs with a parameter": (at) => input(entry(4, nameOf(at), TRUE)),
  "inputs with raw contents": (at) =>
    Buffer.concat([input(field(1, nameOf(at)), field(2, "BOOL"), shape), field(7, Buffer.from([1]))]),
  "inputs as a client sends them": (at) =>
    Buffer.concat([input(field(1, `feature_${at}`), field(2, "FP32"), shape), field(7, Buffer.alloc(4))]),
  "empty outputs": () => field(6, ""),
  "outputs with a name": (at) => field(6, field(1, nameOf(at))),
  "outputs with classes": (at) =>
    field(6, Buffer.concat([field(1, nameOf(at)), entry(2, "classification", Buffer.from([16, 1]))])),
  "empty raw contents": () => field(7, ""),
  "raw contents of a byte": () => field(7, Buffer.from([1])),
  "empty parameters": () => field(4, ""),
  "parameters without a value": (at) => field(4, field(1, nameOf(at))),
  "boolean parameters": (at) => entry(4, nameOf(at), TRUE),
  "whole numbers as parameters": (at) => entry(4, nameOf(at), Buffer.from([16, 1])),
  "doubles as parameters": (at) => entry(4, nameOf(at), Buffer.from([33, 0, 0, 0, 0, 0, 0, 0, 64])),
  "texts as parameters": (at) => entry(4, nameOf(at), field(3, nameOf(at))),
  "all in turn": (at) => [input(), field(6, ""), field(7, ""), entry(4, nameOf(at), TRUE)][at % 4]!,
};

/** Encodes a message of as many such fields as fit into `bytes`. */
export function manyOf(unit: (at: number) => Buffer, bytes: number): Buffer {
  const parts: Buffer[] = [];
  let length = 0;
  for (let next = unit(0); length + next.length <= bytes; next = unit(parts.length)) {
    parts.push(next);
    length += next.length;
  }
  return Buffer.concat(parts);
}

const MIB = 2 ** 20;

export interface Attack {
  readonly method: string;
  readonly body: () => Buffer;
  /** True if the message is within the limits. */
  readonly isRead: boolean;
}
const infer = (body: () => Buffer, isRead = false): Attack => ({ method: "ModelInfer", body, isRead });

/** Messages by name, each of some megabytes. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  "empty inputs": infer(() => filled([0x2a, 0], 16 * MIB)),
  "empty outputs": infer(() => filled([0x32, 0], 16 * MIB)),
  "empty raw contents": infer(() => filled([0x3a, 0], 16 * MIB)),
  "empty parameters": infer(() => filled([0x22, 0], 16 * MIB)),
  parameters: infer(() => entries(4, 300_000)),
  "numbers of 64 bits in a byte each": infer(() =>
    withContents("INT64", "INT64", 8 * MIB, field(3, filled([1], 8 * MIB))),
  ),
  "numbers of 32 bits in a byte each": infer(
    () => withContents("INT32", "INT32", 8 * MIB, field(2, filled([1], 8 * MIB))),
    true,
  ),
  "numbers as a field each": infer(() => withContents("INT32", "INT32", 4 * MIB, filled([0x10, 1], 8 * MIB)), true),
  "two lists in turn, a field each": infer(() =>
    withContents("INT64", "INT64", 1, filled([0x18, 1, 0x28, 1], 16 * MIB)),
  ),
  "empty texts of a tensor": infer(() => withContents("STRING", "BYTES", 4 * MIB, filled([0x42, 0], 8 * MIB)), true),
  floats: infer(() => withContents("FP32", "FP32", 4 * MIB, field(6, filled([0], 16 * MIB))), true),
  sizes: infer(() => Buffer.concat([field(1, "INT32"), field(5, field(3, filled([1], 8 * MIB)))])),
  "unknown fields": infer(() => filled([0xf8, 1, 0], 16 * MIB), true),
  "a name": infer(() => field(1, filled([97], 32 * MIB))),
  "a name beyond ASCII": infer(() => field(1, filled([0xc3, 0xa9], 32 * MIB))),
  "groups in groups": infer(() => Buffer.concat([filled([0xbb, 3], 8 * MIB), filled([0xbc, 3], 8 * MIB)])),
  "settings of a trace": {
    method: "TraceSetting",
    body: () => filled([...field(1, field(2, Buffer.from([10, 0])))], 8 * MIB),
    isRead: false,
  },
  "values of one setting": {
    method: "TraceSetting",
    body: () => field(1, Buffer.concat([field(1, "trace_level"), field(2, filled([10, 0], 8 * MIB))])),
    isRead: false,
  },
  "fields that ServerLive does not have": { method: "ServerLive", body: () => filled([10, 0], 16 * MIB), isRead: true },
  "fields that Check does not have": {
    method: "/grpc.health.v1.Health/Check",
    body: () => filled([0x12, 0], 16 * MIB),
    isRead: true,
  },
  "parameters of a load": { method: "RepositoryModelLoad", body: () => entries(3, 300_000), isRead: false },
};
