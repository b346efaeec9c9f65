/**
 * Parses the body of `/infer`: JSON, then binary tensors, in any mix. Source: `ParseJsonTritonIO` and `ParseJsonTritonParams`
 * in `http_server.cc` (2026), with their messages and their order.
 */
import { ITEMS_OF_A_PIECE, isLarge, type Pieces } from "../../../base/pieces.ts";
import type { ServerAround } from "../inference/around.ts";
import {
  type InferInput,
  type InferParameters,
  noSettings,
  type RequestFields,
  type RequestSettings,
} from "../inference/request.ts";
import { invalidArg } from "../model-config/status.ts";
import {
  arrayIn,
  asArray,
  asBoolean,
  asShortText,
  asString,
  asUnsigned,
  documentOf,
  documentPieces,
  find,
  isJsonNumber,
  isSigned,
  stringIn,
  within,
} from "../tensors/access.ts";
import {
  countTexts,
  type Datatype,
  ELEMENT_BYTES,
  elementCount,
  exactShape,
  fromBytesText,
  isDatatype,
  needsCount,
} from "../tensors/datatypes.ts";
import { type JsonNode, LongList, LongText, Real } from "../tensors/json-nodes.ts";
import type { MemoryReader, SharedMemory } from "../tensors/shared-memory.ts";
import { readElements } from "../tensors/tensor-json.ts";
import {
  fewMembers,
  fewOf,
  type InputLimits,
  madeTooLarge,
  mostInputBytes,
  shortName,
  tensorTooLarge,
} from "./input-limit.ts";

/** A requested output of an inference: as classes or as a tensor, in JSON, as binary data or in shared memory. */
export interface OutputWish {
  readonly kind: "json" | "binary" | "memory";
  /** Number of top classes to send. 0: sends the tensor itself. */
  readonly classes: number;
  /** Writes the output to shared memory if `kind` is `memory`, else null. */
  readonly put: ((data: Uint8Array) => void) | null;
}

export interface InferWish {
  readonly fields: RequestFields;
  /** Outputs by name. Other outputs follow `otherwise`. */
  readonly outputs: ReadonlyMap<string, OutputWish>;
  readonly otherwise: OutputWish;
}

const JSON_OUTPUT: OutputWish = { kind: "json", classes: 0, put: null };
const BINARY_OUTPUT: OutputWish = { kind: "binary", classes: 0, put: null };

const NO_DATA = new Uint8Array();
const NO_NAMES: readonly string[] = [];
const NO_WISHES: ReadonlyMap<string, OutputWish> = new Map();

const NOTHING = noSettings();

export type InferDeps = Pick<ServerAround, "memory" | "config" | "server">;

/** Reads a body that is the only input, without JSON. */
export function rawWish(body: Uint8Array): InferWish {
  const fields = { id: "", inputs: [], outputs: [], parameters: [], priority: 0, timeoutUs: 0, raw: body };
  return { fields, outputs: new Map(), otherwise: BINARY_OUTPUT };
}

/** Reads a body in pieces. `head`: bytes of JSON at its start. Throws a `TritonError`. */
export function* inferWish(body: Uint8Array, head: number, model: string, around: InferDeps): Pieces<InferWish> {
  const { memory, config, server } = around;
  const { missingElements } = server.facts;
  const isWhole = head === body.length;
  const json = isWhole ? body : body.subarray(0, head);
  // `documentPieces` is a generator, whose creation takes longer than this check.
  const document = isLarge(json) ? yield* documentPieces(json) : documentOf(json);
  const id = find(document, "id") === undefined ? "" : shortIn(document, "id");
  const asked = find(document, "parameters");
  const inputs: InferInput[] = [];
  const rest = isWhole ? NO_DATA : body.subarray(head);
  const read: Reading = {
    id,
    inputs,
    rest,
    names: null,
    copy: memory.reader(),
    model,
    limits: config.overHttp,
    missingElements,
  };
  const { parameters, priority, timeoutUs, sequence, binary } = asked === undefined ? NOTHING : readParameters(asked);
  for (const one of fewOf("inputs", arrayIn(document, "inputs"))) {
    const input = inputOf(one, read);
    if (!(input.data instanceof Uint8Array)) input.data = yield* input.data;
    // The length fields of strings from JSON count, too.
    const { name, datatype, data } = input;
    if (datatype === "BYTES" && data.length > mostInputBytes(read.limits) && find(one, "data") !== undefined)
      throw madeTooLarge(name, data.length, read.limits);
    inputs.push(input as InferInput);
    if (needsCount(input as InferInput)) yield* countTexts(data);
    else if (inputs.length % ITEMS_OF_A_PIECE === 0) yield;
  }
  if (read.rest.length > 0) throw invalidArg(`unexpected additional input data for model '${model}'`);
  const wished = find(document, "outputs");
  const outputs = wished === undefined ? NO_WISHES : readOutputs(wished, memory);
  const names = wished === undefined ? NO_NAMES : [...outputs.keys()];
  const fields = { id, inputs, outputs: names, parameters, priority, timeoutUs, sequence };
  return { fields, outputs, otherwise: binary ? BINARY_OUTPUT : JSON_OUTPUT };
}

/** Returns the member `name`, whose length is limited. */
const shortIn = (value: JsonNode, name: string): string => shortName(name, stringIn(value, name));

/** State of the parser. */
interface Reading {
  readonly id: string;
  readonly model: string;
  readonly limits: InputLimits;
  /** Same as in `VersionFacts`. */
  readonly missingElements: string;
  /** The part after the JSON that no input has used yet. */
  rest: Uint8Array;
  readonly inputs: readonly InferInput[];
  /** Copies inputs out of shared memory. */
  readonly copy: MemoryReader;
  /** Names of the inputs, or null until they are needed. */
  names: Set<string> | null;
}

function readParameters(value: JsonNode): RequestSettings {
  const read = noSettings();
  for (const [name, one] of within("failed to get request params.", fewMembers, value)) {
    const unsigned = () => Number(unsignedOf(one, name));
    const boolean = () => within(`Unable to parse '${name}'`, asBoolean, one);
    if (name === "sequence_id") {
      const isText = !isJsonNumber(one) || one instanceof Real || one < 0;
      const id = isText ? within("Unable to parse 'sequence_id'", asShortText, one) : BigInt(one as number | bigint);
      read.sequence = { ...read.sequence, id };
    } else if (name === "sequence_start") read.sequence = { ...read.sequence, start: boolean() };
    else if (name === "sequence_end") read.sequence = { ...read.sequence, end: boolean() };
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

/** Returns a parameter: a string, a number or a boolean. Throws a `TritonError` for other types. */
export function parameterIn(name: string, value: JsonNode): InferParameters[number][1] {
  if (typeof value === "string" || typeof value === "boolean" || isSigned(value)) return value;
  if (value instanceof LongText) return within(`parameter '${fromBytesText(name)}'`, asShortText, value);
  if (typeof value === "bigint") return new Real(Number(value));
  if (value instanceof Real) return value;
  throw invalidArg(
    `parameter '${fromBytesText(name)}' has invalid type. It should be either 'int', 'bool', or 'string'.`,
  );
}

/** Reads an input. Its data may still have to be read from JSON, in pieces. */
function inputOf(value: JsonNode, read: Reading) {
  const parameters = find(value, "parameters");
  oneSource(value, parameters ?? null);
  const name = shortIn(value, "name");
  const type = shortIn(value, "datatype");
  const listed = find(value, "shape");
  // Check the length before the list becomes one array.
  if (listed instanceof LongList) fewOf("dimensions", listed);
  const dimensions = fewOf("dimensions", Array.isArray(listed) ? listed : arrayIn(value, "shape"));
  const sizes = arePlain(dimensions) ? null : dimensions.map((size) => unsignedOf(size, "shape"));
  const shape = sizes === null ? (dimensions as readonly number[]) : sizes.map(Number);
  if (isTaken(name, read))
    throw invalidArg(`[request id: ${read.id || "<id_unknown>"}] input '${name}' already exists in request`);
  const datatype = (isDatatype(type) ? type : "<invalid>") as Datatype;
  const data = inputData(value, parameters, { name, type, shape }, read);
  const exact = sizes === null ? undefined : exactShape(sizes);
  return exact === undefined ? { name, datatype, shape, data } : { name, datatype, shape, data, exactShape: exact };
}

/** Reports whether all dimensions are exact numbers of at least 0. */
function arePlain(list: readonly JsonNode[]): list is readonly number[] {
  for (let at = 0; at < list.length; at++) {
    const size = list[at];
    if (typeof size !== "number" || size < 0) return false;
  }
  return true;
}

const unsignedOf = (value: JsonNode, name: string): number | bigint =>
  within(`Unable to parse '${name}'`, asUnsigned, value);

/** Most inputs for which a linear search of names is fast enough. */
const FEW = 8;

/** Reports whether an earlier input has this name. Uses a set if there are many inputs. */
function isTaken(name: string, read: Reading): boolean {
  const { inputs } = read;
  if (inputs.length <= FEW) {
    for (const one of inputs) if (one.name === name) return true;
    return false;
  }
  read.names ??= new Set(inputs.map((one) => one.name));
  if (read.names.has(name)) return true;
  read.names.add(name);
  return false;
}

/** Checks that a tensor uses exactly one of the three ways to send data. */
function oneSource(value: JsonNode, parameters: JsonNode): void {
  const json = find(value, "data");
  const binary = find(parameters, "binary_data_size");
  const region = find(parameters, "shared_memory_region");
  if (json !== undefined && binary === undefined && region === undefined) return;
  const set = [
    ["'data'", json],
    ["'binary_data_size'", binary],
    ["'shared_memory_region'", region],
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
  read: Reading,
): Uint8Array | Pieces<Uint8Array> {
  const binary = find(parameters ?? null, "binary_data_size");
  if (binary !== undefined) {
    const size = unsignedOf(binary, "binary_data_size");
    const bytes = Number(size);
    if (bytes > read.rest.length) {
      const missing = BigInt(size) - BigInt(read.rest.length);
      throw invalidArg(
        `unexpected size for input '${name}', expecting ${missing} additional bytes for model '${read.model}'`,
      );
    }
    const data = read.rest.subarray(0, bytes);
    read.rest = read.rest.subarray(bytes);
    return data;
  }
  const region = memoryOf(parameters);
  if (region !== null) return read.copy(region);
  const count = shape.length === 0 ? 0 : elementCount(shape);
  if (count === 0) return new Uint8Array();
  const given = find(value, "data");
  const tensor = given instanceof LongList || Array.isArray(given) ? given : arrayIn(value, "data");
  const datatype = isDatatype(type) ? type : null;
  const elementBytes = datatype === null ? 0 : ELEMENT_BYTES[datatype];
  if (count * elementBytes > mostInputBytes(read.limits) || !Number.isSafeInteger(count))
    throw tensorTooLarge(name, arrayIn(value, "shape"), elementBytes, read.limits);
  return readElements(name, tensor, datatype, count, read.missingElements);
}

function memoryOf(parameters: JsonNode | undefined) {
  const region = find(parameters ?? null, "shared_memory_region");
  if (region === undefined) return null;
  return {
    name: within("Unable to parse 'shared_memory_region'", asString, region),
    offset: numberIn(parameters!, "shared_memory_offset"),
    bytes: numberIn(parameters!, "shared_memory_byte_size"),
  };
}

function numberIn(parameters: JsonNode, name: string): number {
  const value = find(parameters, name);
  return value === undefined ? 0 : Number(unsignedOf(value, name));
}

function readOutputs(value: JsonNode, memory: SharedMemory): Map<string, OutputWish> {
  const made = new Map<string, OutputWish>();
  for (const one of fewOf("outputs", within("Unable to parse 'outputs'", asArray, value))) {
    const parameters = find(one, "parameters");
    const of = (name: string) => find(parameters ?? null, name);
    const [binary, classes] = [of("binary_data"), of("classification")];
    if (of("shared_memory_region") !== undefined) {
      if (classes !== undefined) throw invalidArg("Output can't set both 'shared_memory_region' and 'classification'");
      if (binary !== undefined && within("Unable to set 'binary_data'", asBoolean, binary))
        throw invalidArg("Output can't set both 'shared_memory_region' and 'binary_data'");
    }
    const name = shortIn(one, "name");
    const count = classes === undefined ? 0 : Number(within("Unable to set 'classification'", asUnsigned, classes));
    const region = memoryOf(parameters);
    if (region !== null) {
      memory.check(region.name, region.offset, region.bytes);
      const put = (data: Uint8Array) => memory.write(region, name, data);
      made.set(name, { kind: "memory", classes: 0, put });
      continue;
    }
    const isBinary = binary !== undefined && within("Unable to parse 'binary_data'", asBoolean, binary);
    made.set(name, { kind: isBinary ? "binary" : "json", classes: count, put: null });
  }
  return made;
}
