/**
 * What does the body of `/infer` ask for? JSON, then tensors as they stand in memory; every mix of both: `http_server.cc`,
 * `ParseJsonTritonIO` and `ParseJsonTritonParams` (2026), in its words and its order.
 */
import { invalidArg } from "../config/status.ts";
import {
  type InferInput,
  type InferParameters,
  NO_SEQUENCE,
  type RequestFields,
  type SequenceFields,
} from "../server/request.ts";
import type { SharedMemory } from "../server/shared-memory.ts";
import {
  asArray,
  asBoolean,
  asBytesText,
  asString,
  asUnsigned,
  documentOf,
  find,
  isJsonNumber,
  isSigned,
  member,
  membersOf,
  within,
} from "../tensors/access.ts";
import { type Datatype, ELEMENT_BYTES, elementCount, fromBytesText, isDatatype } from "../tensors/datatypes.ts";
import { type JsonNode, Real } from "../tensors/rapid-json.ts";
import { readElements } from "../tensors/tensor-json.ts";

/** How an output is to be sent. */
export interface OutputWish {
  readonly kind: "json" | "binary" | "memory";
  /** So many classes, the best ones; 0: the tensor itself. */
  readonly classes: number;
  /** Where it is put, with `memory`. */
  readonly put: ((data: Uint8Array) => void) | null;
}

export interface InferWish {
  readonly fields: RequestFields;
  /** By name; all others as `otherwise` says. */
  readonly outputs: ReadonlyMap<string, OutputWish>;
  readonly otherwise: OutputWish;
}

const JSON_OUTPUT: OutputWish = { kind: "json", classes: 0, put: null };
const BINARY_OUTPUT: OutputWish = { kind: "binary", classes: 0, put: null };

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Limits {
  readonly model: string;
  readonly memory: SharedMemory;
  readonly maxInputBytes: number;
}

/** A body that is the one input, without JSON. */
export function rawWish(body: Uint8Array): InferWish {
  const fields = { id: "", inputs: [], outputs: [], parameters: [], priority: 0, timeoutUs: 0, raw: body };
  return { fields, outputs: new Map(), otherwise: BINARY_OUTPUT };
}

/** `head`: how many bytes are JSON. Throws a `TritonError`. */
export function inferWish(body: Uint8Array, head: number, limits: Limits): InferWish {
  const document = documentOf(body.subarray(0, head));
  const id = find(document, "id");
  const own = id === undefined ? "" : within("Unable to parse 'id'", () => asString(id));
  const asked = readParameters(find(document, "parameters"));
  const rest = { data: body.subarray(head) };
  const seen = new Set<string>();
  const list = within("Unable to parse 'inputs'", () => asArray(member(document, "inputs")));
  const inputs = list.map((one) => {
    const input = readInput(one, rest, limits, (name) => {
      if (seen.has(name))
        throw invalidArg(`[request id: ${own || "<id_unknown>"}] input '${name}' already exists in request`);
      seen.add(name);
    });
    return input;
  });
  if (rest.data.length > 0) throw invalidArg(`unexpected additional input data for model '${limits.model}'`);
  const outputs = readOutputs(find(document, "outputs"), limits.memory);
  const { binary, ...more } = asked;
  const fields = { id: own, inputs, outputs: [...outputs.keys()], ...more };
  return { fields, outputs, otherwise: binary ? BINARY_OUTPUT : JSON_OUTPUT };
}

function readParameters(value: JsonNode | undefined) {
  const read = {
    parameters: [] as (readonly [string, InferParameters[number][1]])[],
    priority: 0,
    timeoutUs: 0,
    sequence: { ...NO_SEQUENCE } as Mutable<SequenceFields>,
    binary: false,
  };
  if (value === undefined) return read;
  for (const [name, one] of within("failed to get request params.", () => membersOf(value))) {
    const unsigned = () => Number(within(`Unable to parse '${name}'`, () => asUnsigned(one)));
    const boolean = () => within(`Unable to parse '${name}'`, () => asBoolean(one));
    if (name === "sequence_id") {
      const isText = !isJsonNumber(one) || one instanceof Real || one < 0;
      read.sequence.id = isText
        ? within("Unable to parse 'sequence_id'", () => asBytesText(one))
        : BigInt(one as number | bigint);
    } else if (name === "sequence_start") read.sequence.start = boolean();
    else if (name === "sequence_end") read.sequence.end = boolean();
    else if (name === "priority") read.priority = unsigned();
    else if (name === "timeout") read.timeoutUs = unsigned();
    else if (name === "binary_data_output") read.binary = boolean();
    else if (name.startsWith("triton_"))
      throw invalidArg(
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
      );
    else read.parameters.push([name, parameterIn(name, one)]);
  }
  return read;
}

/** Texts, whole and other numbers, booleans; throws a `TritonError` for anything else. */
export function parameterIn(name: string, value: JsonNode): InferParameters[number][1] {
  if (typeof value === "string" || typeof value === "boolean" || isSigned(value)) return value;
  if (typeof value === "bigint") return new Real(Number(value));
  if (value instanceof Real) return value;
  throw invalidArg(
    `parameter '${fromBytesText(name)}' has invalid type. It should be either 'int', 'bool', or 'string'.`,
  );
}

function readInput(
  value: JsonNode,
  rest: { data: Uint8Array },
  limits: Limits,
  add: (name: string) => void,
): InferInput {
  oneSource(value);
  const parameters = find(value, "parameters");
  const name = within("Unable to parse 'name'", () => asString(member(value, "name")));
  const type = within("Unable to parse 'datatype'", () => asString(member(value, "datatype")));
  const sizes = within("Unable to parse 'shape'", () => asArray(member(value, "shape")));
  const shape = sizes.map((size) => Number(within("Unable to parse 'shape'", () => asUnsigned(size))));
  add(name);
  const datatype = (isDatatype(type) ? type : "<invalid>") as Datatype;
  return { name, datatype, shape, data: inputData(value, parameters, { name, type, shape }, rest, limits) };
}

/** Exactly one of three ways to send a tensor. */
function oneSource(value: JsonNode): void {
  const parameters = find(value, "parameters") ?? null;
  const set = [
    ["'data'", find(value, "data")],
    ["'binary_data_size'", find(parameters, "binary_data_size")],
    ["'shared_memory_region'", find(parameters, "shared_memory_region")],
  ].flatMap(([name, found]) => (found === undefined ? [] : [name]));
  if (set.length === 1) return;
  const said = set.length === 0 ? " no field is set" : ` set ${set.join(" ")}`;
  throw invalidArg(
    `Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But${said}`,
  );
}

function inputData(
  value: JsonNode,
  parameters: JsonNode | undefined,
  { name, type, shape }: { readonly name: string; readonly type: string; readonly shape: readonly number[] },
  rest: { data: Uint8Array },
  { model, memory, maxInputBytes }: Limits,
): Uint8Array {
  const binary = find(parameters ?? null, "binary_data_size");
  if (binary !== undefined) {
    const bytes = Number(within("Unable to parse 'binary_data_size'", () => asUnsigned(binary)));
    const missing = bytes - rest.data.length;
    if (missing > 0)
      throw invalidArg(
        `unexpected size for input '${name}', expecting ${missing} additional bytes for model '${model}'`,
      );
    const data = rest.data.subarray(0, bytes);
    rest.data = rest.data.subarray(bytes);
    return data;
  }
  const region = memoryOf(parameters);
  if (region !== null) return memory.read(region.name, region.offset, region.bytes);
  const count = elementCount(shape);
  if (count === 0) return new Uint8Array();
  const tensor = within("Unable to parse 'data'", () => asArray(member(value, "data")));
  const datatype = isDatatype(type) ? type : null;
  const bytes = datatype === null ? 0 : count * ELEMENT_BYTES[datatype];
  if (bytes > maxInputBytes || !Number.isSafeInteger(count))
    throw invalidArg(
      `JSON input '${name}' has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
    );
  return readElements(name, tensor, datatype, count);
}

function memoryOf(parameters: JsonNode | undefined) {
  const region = find(parameters ?? null, "shared_memory_region");
  if (region === undefined) return null;
  const number = (name: string) => {
    const value = find(parameters ?? null, name);
    return value === undefined ? 0 : Number(within(`Unable to parse '${name}'`, () => asUnsigned(value)));
  };
  return {
    name: within("Unable to parse 'shared_memory_region'", () => asString(region)),
    offset: number("shared_memory_offset"),
    bytes: number("shared_memory_byte_size"),
  };
}

function readOutputs(value: JsonNode | undefined, memory: SharedMemory): Map<string, OutputWish> {
  const made = new Map<string, OutputWish>();
  if (value === undefined) return made;
  for (const one of within("Unable to parse 'outputs'", () => asArray(value))) {
    const parameters = find(one, "parameters");
    const of = (name: string) => find(parameters ?? null, name);
    const [binary, classes] = [of("binary_data"), of("classification")];
    if (of("shared_memory_region") !== undefined) {
      if (classes !== undefined) throw invalidArg("Output can't set both 'shared_memory_region' and 'classification'");
      if (binary !== undefined && within("Unable to set 'binary_data'", () => asBoolean(binary)))
        throw invalidArg("Output can't set both 'shared_memory_region' and 'binary_data'");
    }
    const name = within("Unable to parse 'name'", () => asString(member(one, "name")));
    const count =
      classes === undefined ? 0 : Number(within("Unable to set 'classification'", () => asUnsigned(classes)));
    const region = memoryOf(parameters);
    if (region !== null) {
      memory.check(region.name, region.offset, region.bytes);
      const put = (data: Uint8Array) => memory.write(region.name, region.offset, region.bytes, data);
      made.set(name, { kind: "memory", classes: 0, put });
      continue;
    }
    const isBinary = binary !== undefined && within("Unable to parse 'binary_data'", () => asBoolean(binary));
    made.set(name, { kind: isBinary ? "binary" : "json", classes: count, put: null });
  }
  return made;
}
