/**
 * Reads a `ModelInferRequest`: raw or listed tensors, and typed parameters. Source: `infer_handler.cc` (2026), with its
 * messages and its order.
 */

import type { Pieces } from "../../../base/pieces.ts";
import type { MessageRoom } from "../../../wire/protobuf/message-room.ts";
import type { NumberArray, NumberList } from "../../../wire/protobuf/number-list.ts";
import {
  type InferInput,
  type InferParameters,
  noSettings,
  type RequestFields,
  type RequestSettings,
} from "../inference/request.ts";
import { invalidArg, TritonError } from "../model-config/status.ts";
import { type Datatype, exactShape, isDatatype, type Numbers, newNumbers, toBytesText } from "../tensors/datatypes.ts";
import { Real } from "../tensors/json-nodes.ts";
import type { MemoryReader, SharedMemory } from "../tensors/shared-memory.ts";
import type { ParameterValue } from "../tensors/tensor-json.ts";
import { readMessage } from "./reading.ts";

type Choice =
  | { readonly case: "bool_param"; readonly value: boolean }
  | { readonly case: "int64_param" | "uint64_param"; readonly value: bigint }
  | { readonly case: "string_param"; readonly value: string }
  | { readonly case: "double_param"; readonly value: number };
type Parameters = Pick<ReadonlyMap<string, { readonly parameter_choice?: Choice }>, "get" | "has" | "size"> &
  Iterable<readonly [string, { readonly parameter_choice?: Choice }]>;
/** An array, or a `LateList`. */
type RepeatedField<T> = Iterable<T> & Pick<readonly T[], "length" | "at">;

/** A request as `readMessage` returns it. Absent fields are undefined. */
export interface InferMessage {
  readonly model_name?: string;
  readonly model_version?: string;
  readonly id?: string;
  readonly parameters?: Parameters;
  readonly inputs?: RepeatedField<{
    readonly name?: string;
    readonly datatype?: string;
    readonly shape?: NumberList;
    readonly parameters?: Parameters;
    readonly contents?: Contents;
  }>;
  readonly outputs?: RepeatedField<{ readonly name?: string; readonly parameters?: Parameters }>;
  readonly raw_input_contents?: RepeatedField<Uint8Array>;
}

type ContentsField = (typeof LISTS)[number][0];
type Contents = Readonly<Partial<Record<ContentsField, NumberList>>>;

/** A requested output of an inference: as classes or as a tensor, in the response or in shared memory. */
export interface GrpcOutput {
  /** Number of top classes to send. 0: sends the tensor itself. */
  readonly classes: number;
  /** Writes the output to shared memory. Null: the output is part of the answer. */
  readonly put: ((data: Uint8Array) => void) | null;
}

export interface GrpcWish {
  readonly fields: RequestFields;
  /** Outputs that need a conversion, by name. */
  readonly outputs: ReadonlyMap<string, GrpcOutput>;
  /** True if the final flag must be sent even in an empty response. */
  readonly emptyFinal: boolean;
}

/** Parses the message. Throws like `readMessage`. */
export const readInfer = (bytes: Uint8Array, room: MessageRoom) =>
  readMessage("ModelInferRequest", bytes, room) as Pieces<InferMessage>;

const NO_PARAMETERS: Parameters = new Map();
const NONE: readonly never[] = [];
const NO_SIZES = new BigInt64Array();
const NO_OUTPUTS: GrpcWish["outputs"] = new Map();

const EMPTY_FINAL = "triton_enable_empty_final_response";

/** Tensors read between two yields. */
const TENSORS_OF_A_PIECE = 32;

/**
 * Reads what the message asks for. `forwarded`: parameters from the call's metadata. Reads each element of a `LateList` once,
 * because a second read takes as long as the message. Throws a `TritonError`.
 */
export function* wishOf(
  message: InferMessage,
  memory: SharedMemory,
  forwarded: InferParameters = [],
): Pieces<GrpcWish> {
  const { id = "", inputs: { length: inputCount } = NONE, outputs: { length: outputCount } = NONE } = message;
  const given = message.parameters ?? NO_PARAMETERS;
  const { parameters: own, priority, timeoutUs, sequence, emptyFinal } = readParameters(given);
  // One generator for all, because each one takes as long as reading a short tensor.
  const inputs = new InputsReading(message, memory.reader());
  for (let at = 0; at < inputCount; at++) {
    inputs.read(at);
    if ((at + 1) % TENSORS_OF_A_PIECE === 0) yield;
  }
  const readInputs = inputs.all();
  const outputs = new OutputsReading(message, memory);
  for (let at = 0; at < outputCount; at++) {
    outputs.read(at);
    if ((at + 1) % TENSORS_OF_A_PIECE === 0) yield;
  }
  const parameters = forwarded.length === 0 ? own : [...own, ...forwarded];
  return {
    fields: { id, inputs: readInputs, outputs: outputs.names, parameters, priority, timeoutUs, sequence },
    outputs: outputs.made,
    emptyFinal,
  };
}

function readParameters(given: Parameters): RequestSettings {
  const read = noSettings();
  for (const [name, { parameter_choice: choice }] of given) {
    const wrong = (expected: string) => invalidArg(`invalid value type for '${name}' parameter, expected ${expected}.`);
    if (name === "sequence_id") {
      if (choice?.case !== "int64_param" && choice?.case !== "string_param") throw wrong("int64_param or string_param");
      const id = typeof choice.value === "string" ? toBytesText(choice.value) : BigInt.asUintN(64, choice.value);
      read.sequence = { ...read.sequence, id };
    } else if (name === "sequence_start" || name === "sequence_end") {
      if (choice?.case !== "bool_param") throw wrong("bool_param");
      read.sequence = { ...read.sequence, [name === "sequence_start" ? "start" : "end"]: choice.value };
    } else if (name === "priority") {
      if (choice?.case !== "int64_param" && choice?.case !== "uint64_param") throw wrong("int64_param or uint64_param");
      if (choice.value < 0n) throw invalidArg("invalid value for 'priority', expected value >= 0.");
      read.priority = Number(choice.value);
    } else if (name === "timeout") {
      if (choice?.case !== "int64_param") throw wrong("int64_param");
      read.timeoutUs = Number(BigInt.asUintN(64, choice.value));
    } else if (name === EMPTY_FINAL) {
      if (choice?.case !== "bool_param") throw wrong("bool_param");
      read.emptyFinal = choice.value;
    } else if (name.startsWith("triton_"))
      throw invalidArg(
        `parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: ${EMPTY_FINAL}`,
      );
    else if (choice === undefined || choice.case === "uint64_param")
      throw wrong("int64_param, bool_param, or string_param");
    else read.parameters.push([toBytesText(name), parameterValue(choice)]);
  }
  return read;
}

function parameterValue(choice: Choice): ParameterValue {
  if (choice?.case === "bool_param") return choice.value;
  if (choice?.case === "string_param") return toBytesText(choice.value);
  if (choice?.case === "double_param") return new Real(choice.value);
  const number = Number(choice.value);
  return Number.isSafeInteger(number) ? number : choice.value;
}

type InputMessage = NonNullable<InferMessage["inputs"]> extends Iterable<infer T> ? T : never;

/** Reads the inputs of a message in order. Reports a duplicate input before any other error in inputs. */
class InputsReading {
  readonly #model: string;
  readonly #raw: RepeatedField<Uint8Array>;
  /** Number of raw contents that inputs have used. */
  #taken = 0;
  /** Names so far. Null: there is only one input. */
  readonly #seen: Set<string> | null;
  readonly #read: InferInput[] = [];
  #failed: TritonError | null = null;

  constructor(
    private readonly message: InferMessage,
    private readonly copy: MemoryReader,
  ) {
    this.#model = message.model_name ?? "";
    this.#raw = message.raw_input_contents ?? NONE;
    this.#seen = (message.inputs?.length ?? 0) > 1 ? new Set() : null;
  }

  /** Reads an input by its index, because an iterator needs as much memory per element as a short input. */
  read(at: number): void {
    const input: InputMessage = this.message.inputs!.at(at)!;
    const { name = "" } = input;
    if (this.#seen?.has(name))
      throw invalidArg(`[request id: ${this.message.id || "<id_unknown>"}] input '${name}' already exists in request`);
    this.#seen?.add(name);
    try {
      if (this.#failed === null) this.#read.push(this.#input(input));
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      this.#failed = error;
    }
  }

  /** Returns the inputs. Throws the first error in them. */
  all(): readonly InferInput[] {
    if (this.#failed !== null) throw this.#failed;
    return this.#read;
  }

  #input({ name = "", datatype = "", shape: sizes, parameters = NO_PARAMETERS, contents }: InputMessage): InferInput {
    const type = (isDatatype(datatype) ? datatype : "<invalid>") as Datatype;
    const dims = sizes === undefined ? NO_SIZES : (sizes.numbers as BigInt64Array);
    const shape: number[] = [];
    let isExact = true;
    for (let at = 0; at < dims.length; at++) {
      const size = Number(dims[at]!);
      shape.push(size);
      isExact &&= Number.isSafeInteger(size);
    }
    const data = this.#data(name, type, parameters, contents);
    if (isExact) return { name, datatype: type, shape, data };
    return { name, datatype: type, shape, data, exactShape: exactShape(Array.from(dims))! };
  }

  #data(name: string, type: Datatype, parameters: Parameters, contents: Contents | undefined): Uint8Array {
    const model = this.#model;
    const region = regionOf(parameters, name);
    if (region !== null) {
      if (contents)
        throw invalidArg(
          `unexpected 'content' provided when using shared memory for input tensor '${name}' for model '${model}'`,
        );
      return this.copy(region);
    }
    if (contents && this.#raw.length > 0)
      throw invalidArg(
        `contents field must not be specified when using raw_input_contents for '${name}' for model '${model}'`,
      );
    if (contents) return contentBytes(contents, type, name, model);
    const data = this.#raw.at(this.#taken++);
    if (data === undefined)
      throw invalidArg(`unable to find data for input tensor '${name}' for model '${model}' in request.`);
    return data;
  }
}

/** List fields with the types that they contain. Error messages name the first type. */
const LISTS = [
  ["bool_contents", ["BOOL"]],
  ["int_contents", ["INT32", "INT8", "INT16"]],
  ["int64_contents", ["INT64"]],
  ["uint_contents", ["UINT32", "UINT8", "UINT16"]],
  ["uint64_contents", ["UINT64"]],
  ["fp32_contents", ["FP32"]],
  ["fp64_contents", ["FP64"]],
  ["bytes_contents", ["BYTES"]],
] as const satisfies readonly (readonly [string, readonly Datatype[]])[];

/** Encodes list elements as tensor data. Throws a `TritonError` if they have the wrong type or are in two lists. */
export function contentBytes(contents: Contents, datatype: Datatype, name: string, model: string): Uint8Array {
  let made: Uint8Array = new Uint8Array();
  for (const [field, types] of LISTS) {
    const numbers = contents[field]?.numbers;
    if (numbers === undefined || numbers.length === 0) continue;
    const unexpected = `unexpected explicit tensor data for input tensor '${name}' for model '${model}'`;
    if (made.length > 0) throw invalidArg(`${unexpected}, binary data was already supplied.`);
    if (!(types as readonly Datatype[]).includes(datatype))
      throw invalidArg(`${unexpected} of type '${types[0]}', expected datatype '${datatype}'`);
    made = datatype === types[0] ? inBytes(numbers) : inBytes(newNumbers(datatype as "INT8", numbers.length), numbers);
  }
  return made;
}

/** Returns the bytes of numbers. `from`: numbers to convert into the array first; they are cut to its element size. */
function inBytes(numbers: NumberArray | Numbers, from?: NumberArray): Uint8Array {
  if (from !== undefined) (numbers as Int8Array).set(from as Int32Array);
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

/** Reads the requested outputs of a message. */
class OutputsReading {
  readonly names: string[] = [];
  /** Outputs that need a conversion, by name. */
  made: GrpcWish["outputs"] = NO_OUTPUTS;

  constructor(
    private readonly message: InferMessage,
    private readonly memory: SharedMemory,
  ) {}

  read(at: number): void {
    const { name = "", parameters = NO_PARAMETERS } = this.message.outputs!.at(at)!;
    this.names.push(name);
    const region = regionOf(parameters, name);
    const classes = classesOf(parameters);
    if (region !== null && classes > 0)
      throw invalidArg("output can't set both 'shared_memory_region' and 'classification'");
    if (region !== null) {
      this.memory.check(region.name, region.offset, region.bytes);
      this.#add(name, { classes: 0, put: (data) => this.memory.write(region, name, data) });
    } else if (classes > 0) this.#add(name, { classes, put: null });
  }

  #add(name: string, output: GrpcOutput): void {
    if (this.made === NO_OUTPUTS) this.made = new Map();
    (this.made as Map<string, GrpcOutput>).set(name, output);
  }
}

function classesOf(parameters: Parameters): number {
  const choice = parameters.get("classification")?.parameter_choice;
  if (choice === undefined) return 0;
  if (choice?.case !== "int64_param")
    throw invalidArg("invalid value type for 'classification' parameter, expected int64_param");
  if (choice.value <= 0n) throw invalidArg("invalid value for 'classification' parameter, expected >= 0");
  return Number(choice.value);
}

/** Returns the shared memory place that a tensor's parameters name, or null. Throws a `TritonError`. */
function regionOf(parameters: Parameters, tensor: string) {
  if (parameters === NO_PARAMETERS) return null;
  const choice = (name: string) => parameters.get(name)?.parameter_choice;
  const wrong = (name: string, expected: string) =>
    invalidArg(`invalid value type for '${name}' parameter for tensor '${tensor}', expected ${expected}.`);
  const region = choice("shared_memory_region");
  if (region !== undefined && region.case !== "string_param") throw wrong("shared_memory_region", "string_param");
  const number = (name: string): number | undefined => {
    const given = choice(name);
    if (given === undefined) return undefined;
    if (region === undefined)
      throw invalidArg(
        `'${name}' can not be specified without 'shared_memory_region' parameter for tensor '${tensor}'`,
      );
    if (given.case !== "int64_param") throw wrong(name, "int64_param");
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
