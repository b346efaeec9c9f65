/**
 * What does a `ModelInferRequest` ask for? Tensors raw or as lists, parameters of a kind each: `infer_handler.cc` (2026), in its
 * words and its order.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { invalidArg } from "../../repository/config/status.ts";
import {
  bytesOf,
  type Datatype,
  isDatatype,
  type Numbers,
  newNumbers,
  toBytesText,
} from "../../repository/tensors/datatypes.ts";
import { Real } from "../../repository/tensors/json-nodes.ts";
import {
  type InferInput,
  type InferParameters,
  NO_SEQUENCE,
  type ParameterValue,
  type RequestFields,
} from "../server/request.ts";
import type { SharedMemory } from "../server/shared-memory.ts";
import { messageNamed } from "./descriptor.ts";

type Choice =
  | { readonly case: "boolParam"; readonly value: boolean }
  | { readonly case: "int64Param" | "uint64Param"; readonly value: bigint }
  | { readonly case: "stringParam"; readonly value: string }
  | { readonly case: "doubleParam"; readonly value: number }
  | { readonly case: undefined; readonly value?: undefined };
type Parameters = Readonly<Record<string, { readonly parameterChoice: Choice }>>;

/** As the library reads it, by the table of fields. */
export interface InferMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: Parameters;
  readonly inputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly bigint[];
    readonly parameters: Parameters;
    readonly contents?: Contents;
  }[];
  readonly outputs: readonly { readonly name: string; readonly parameters: Parameters }[];
  readonly rawInputContents: readonly Uint8Array[];
}

interface Contents {
  readonly boolContents: readonly boolean[];
  readonly intContents: readonly number[];
  readonly int64Contents: readonly bigint[];
  readonly uintContents: readonly number[];
  readonly uint64Contents: readonly bigint[];
  readonly fp32Contents: readonly number[];
  readonly fp64Contents: readonly number[];
  readonly bytesContents: readonly Uint8Array[];
}

/** How an output is to be sent. */
export interface GrpcOutput {
  /** So many classes, the best ones; 0: the tensor itself. */
  readonly classes: number;
  /** Where it is put; null: into the answer. */
  readonly put: ((data: Uint8Array) => void) | null;
}

export interface GrpcWish {
  readonly fields: RequestFields;
  /** Those that are not sent as they are, by name. */
  readonly outputs: ReadonlyMap<string, GrpcOutput>;
  /** The end is to be told where it comes alone. */
  readonly emptyFinal: boolean;
}

const REQUEST = messageNamed("ModelInferRequest");

/** Throws where the bytes are no message. */
export const readInfer = (bytes: Uint8Array): InferMessage => fromBinary(REQUEST, bytes) as unknown as InferMessage;

const EMPTY_FINAL = "triton_enable_empty_final_response";

/** Throws a `TritonError`. */
export function wishOf(message: InferMessage, memory: SharedMemory, forwarded: InferParameters = []): GrpcWish {
  const { id } = message;
  const asked = readParameters(message.parameters);
  const seen = new Set<string>();
  for (const { name } of message.inputs) {
    if (seen.has(name))
      throw invalidArg(`[request id: ${id || "<id_unknown>"}] input '${name}' already exists in request`);
    seen.add(name);
  }
  const names = message.outputs.map(({ name }) => name);
  const inputs = readInputs(message, memory);
  const outputs = readOutputs(message, memory);
  const { emptyFinal, ...more } = asked;
  const parameters = [...more.parameters, ...forwarded];
  return { fields: { id, inputs, outputs: names, ...more, parameters }, outputs, emptyFinal };
}

function readParameters(given: Parameters) {
  const read = {
    parameters: [] as [string, ParameterValue][],
    priority: 0,
    timeoutUs: 0,
    sequence: NO_SEQUENCE,
    emptyFinal: false,
  };
  for (const [name, { parameterChoice: choice }] of Object.entries(given)) {
    const wrong = (expected: string) => invalidArg(`invalid value type for '${name}' parameter, expected ${expected}.`);
    if (name === "sequence_id") {
      if (choice.case !== "int64Param" && choice.case !== "stringParam") throw wrong("int64_param or string_param");
      const id = typeof choice.value === "string" ? toBytesText(choice.value) : BigInt.asUintN(64, choice.value);
      read.sequence = { ...read.sequence, id };
    } else if (name === "sequence_start" || name === "sequence_end") {
      if (choice.case !== "boolParam") throw wrong("bool_param");
      read.sequence = { ...read.sequence, [name === "sequence_start" ? "start" : "end"]: choice.value };
    } else if (name === "priority") {
      if (choice.case !== "int64Param" && choice.case !== "uint64Param") throw wrong("int64_param or uint64_param");
      if (choice.value < 0n) throw invalidArg("invalid value for 'priority', expected value >= 0.");
      read.priority = Number(choice.value);
    } else if (name === "timeout") {
      if (choice.case !== "int64Param") throw wrong("int64_param");
      read.timeoutUs = Number(BigInt.asUintN(64, choice.value));
    } else if (name === EMPTY_FINAL) {
      if (choice.case !== "boolParam") throw wrong("bool_param");
      read.emptyFinal = choice.value;
    } else if (name.startsWith("triton_"))
      throw invalidArg(
        `parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: ${EMPTY_FINAL}`,
      );
    else if (choice.case === undefined || choice.case === "uint64Param")
      throw wrong("int64_param, bool_param, or string_param");
    else read.parameters.push([toBytesText(name), parameterValue(choice)]);
  }
  return read;
}

function parameterValue(choice: Exclude<Choice, { case: undefined }>): ParameterValue {
  if (choice.case === "boolParam") return choice.value;
  if (choice.case === "stringParam") return toBytesText(choice.value);
  if (choice.case === "doubleParam") return new Real(choice.value);
  const number = Number(choice.value);
  return Number.isSafeInteger(number) ? number : choice.value;
}

function readInputs({ inputs, rawInputContents: raw, modelName: model }: InferMessage, memory: SharedMemory) {
  let next = 0;
  return inputs.map(({ name, datatype, shape: sizes, parameters, contents }): InferInput => {
    const type = (isDatatype(datatype) ? datatype : "<invalid>") as Datatype;
    const shape = sizes.map(Number);
    const of = (data: Uint8Array) => ({ name, datatype: type, shape, data });
    const region = regionOf(parameters, name);
    if (region !== null) {
      if (contents)
        throw invalidArg(
          `unexpected 'content' provided when using shared memory for input tensor '${name}' for model '${model}'`,
        );
      return of(memory.read(region.name, region.offset, region.bytes));
    }
    if (contents && raw.length > 0)
      throw invalidArg(
        `contents field must not be specified when using raw_input_contents for '${name}' for model '${model}'`,
      );
    if (contents) return of(contentBytes(contents, type, name, model));
    const data = raw[next++];
    if (data === undefined)
      throw invalidArg(`unable to find data for input tensor '${name}' for model '${model}' in request.`);
    return of(data);
  });
}

/** Which field of lists holds which types; the first is what messages call it. */
const LISTS: readonly (readonly [keyof Contents, readonly Datatype[]])[] = [
  ["boolContents", ["BOOL"]],
  ["intContents", ["INT32", "INT8", "INT16"]],
  ["int64Contents", ["INT64"]],
  ["uintContents", ["UINT32", "UINT8", "UINT16"]],
  ["uint64Contents", ["UINT64"]],
  ["fp32Contents", ["FP32"]],
  ["fp64Contents", ["FP64"]],
  ["bytesContents", ["BYTES"]],
];

/** Elements of lists as a tensor holds them. Throws a `TritonError` where they are not of the type, or stand in two lists. */
export function contentBytes(contents: Contents, datatype: Datatype, name: string, model: string): Uint8Array {
  let made: Uint8Array = new Uint8Array();
  for (const [field, types] of LISTS) {
    const values = contents[field];
    if (values.length === 0) continue;
    const unexpected = `unexpected explicit tensor data for input tensor '${name}' for model '${model}'`;
    if (made.length > 0) throw invalidArg(`${unexpected}, binary data was already supplied.`);
    if (!types.includes(datatype))
      throw invalidArg(`${unexpected} of type '${types[0]}', expected datatype '${datatype}'`);
    if (datatype === "BYTES") {
      made = packBytes(values as readonly Uint8Array[]);
      continue;
    }
    const into = newNumbers(datatype, values.length) as unknown as (number | bigint)[];
    for (let at = 0; at < values.length; at++) into[at] = values[at] as number | bigint;
    made = bytesOf(into as unknown as Numbers);
  }
  return made;
}

function packBytes(elements: readonly Uint8Array[]): Uint8Array {
  const made = Buffer.allocUnsafe(elements.reduce((all, { length }) => all + 4 + length, 0));
  let at = 0;
  for (const element of elements) {
    at = made.writeUInt32LE(element.length, at);
    made.set(element, at);
    at += element.length;
  }
  return made;
}

function readOutputs({ outputs }: InferMessage, memory: SharedMemory): Map<string, GrpcOutput> {
  const made = new Map<string, GrpcOutput>();
  for (const { name, parameters } of outputs) {
    const region = regionOf(parameters, name);
    const classes = classesOf(parameters);
    if (region !== null && classes > 0)
      throw invalidArg("output can't set both 'shared_memory_region' and 'classification'");
    if (region === null) {
      if (classes > 0) made.set(name, { classes, put: null });
      continue;
    }
    memory.check(region.name, region.offset, region.bytes);
    const put = (data: Uint8Array) => memory.write(region, name, data);
    made.set(name, { classes: 0, put });
  }
  return made;
}

function classesOf(parameters: Parameters): number {
  const choice = parameters.classification?.parameterChoice;
  if (choice === undefined) return 0;
  if (choice.case !== "int64Param")
    throw invalidArg("invalid value type for 'classification' parameter, expected int64_param");
  if (choice.value <= 0n) throw invalidArg("invalid value for 'classification' parameter, expected >= 0");
  return Number(choice.value);
}

/** null: it is in none. */
function regionOf(parameters: Parameters, tensor: string) {
  const choice = (name: string) => parameters[name]?.parameterChoice;
  const wrong = (name: string, expected: string) =>
    invalidArg(`invalid value type for '${name}' parameter for tensor '${tensor}', expected ${expected}.`);
  const region = choice("shared_memory_region");
  if (region !== undefined && region.case !== "stringParam") throw wrong("shared_memory_region", "string_param");
  const number = (name: string): number | undefined => {
    const given = choice(name);
    if (given === undefined) return undefined;
    if (region === undefined)
      throw invalidArg(
        `'${name}' can not be specified without 'shared_memory_region' parameter for tensor '${tensor}'`,
      );
    if (given.case !== "int64Param") throw wrong(name, "int64_param");
    return Number(BigInt.asUintN(64, given.value));
  };
  const offset = number("shared_memory_offset") ?? 0;
  const bytes = number("shared_memory_byte_size");
  if (region === undefined) return null;
  if (bytes === undefined)
    throw invalidArg(
      `'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '${tensor}'`,
    );
  return { name: region.value, offset, bytes };
}
