/**
 * Converts tensor elements to JSON and back, large ones in pieces, so that they do not block other requests. As in Triton,
 * integers wrap around and nested lists are accepted; the output is that of RapidJSON's writer. Source: `ReadDataFromJson` and
 * `WriteDataToJson` in `http_server.cc`. Strings have one character per byte.
 */

import { doubleText } from "../../../base/double-text.ts";
import type { Pieces } from "../../../base/pieces.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { asBoolean, asBytesText, asDouble, asSigned, asUnsigned, within } from "./access.ts";
import {
  bytesOf,
  type Datatype,
  ELEMENT_BYTES,
  elementsOf,
  LENGTH_BYTES,
  lengthAt,
  newNumbers,
  noteTexts,
  packNumbers,
  packTexts,
  passingElements,
  type Tensor,
  unpackTexts,
  writeText,
} from "./datatypes.ts";
import { type JsonNode, LongList, LongText, NumberPart, Real } from "./json-nodes.ts";

/** Triton's limit for the nesting depth of lists. */
const DEPTH_MOST = 100;
/** Elements read between two yields, unless they stand in one part of a list. */
const ITEMS_OF_A_PIECE = 128;
/** Elements, and bytes of strings, that are written at a time. */
const WRITTEN_ELEMENTS = 1024;
const WRITTEN_BYTES = 16_384;
/** A tensor of at most this many bytes is written in one part. */
const SHORT_BYTES = 1024;
/** Bytes of a long string that are copied at a time. */
const COPIED_BYTES = 65_536;

/**
 * Reads `count` elements, few plain ones at once and others in pieces. `datatype` null: the input's type name is unknown.
 * `missing`: the error message if there are fewer elements. Throws a `TritonError`.
 */
export function readElements(
  name: string,
  data: JsonNode,
  datatype: Datatype | null,
  count: number,
  missing: string,
): Uint8Array | Pieces<Uint8Array> {
  if (datatype === "BYTES") return isFewTexts(data) ? packTexts(data) : packed(data);
  if (datatype === "FP16" || datatype === "BF16")
    throw invalidArg(
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${name}`,
    );
  if (datatype === null) throw invalidArg(`invalid datatype for input ${name}`);
  if (datatype === "INT32" && isNumberList(data, count)) return packNumbers(datatype, data);
  return converted(datatype, data, count, missing);
}

const FEW_TEXTS = 8;
const isShortText = (value: JsonNode): boolean => typeof value === "string" && value.length <= WRITTEN_BYTES;
const isFewTexts = (data: JsonNode): data is readonly string[] =>
  Array.isArray(data) && data.length <= FEW_TEXTS && data.every(isShortText);

/** True if the data are exactly `count` plain integers, so that they need no further checks. */
function isNumberList(data: JsonNode, count: number): data is readonly number[] {
  if (!Array.isArray(data) || data.length !== count) return false;
  for (let i = 0; i < count; i++) if (typeof data[i] !== "number") return false;
  return true;
}

type List = readonly JsonNode[] | LongList;
const isList = (value: JsonNode): value is List => value instanceof LongList || Array.isArray(value);
/** Elements that stand one after the other in one list. */
type Run = readonly JsonNode[] | NumberPart;

/** Yields the elements of nested lists. */
function* flatRuns(list: List, depth: number): Generator<Run, void> {
  if (depth >= DEPTH_MOST) throw invalidArg(`JSON nesting depth exceeds maximum allowed limit (${DEPTH_MOST})`);
  for (const part of list instanceof LongList ? list.parts : [list]) {
    if (part instanceof NumberPart || !part.some(isList)) yield part;
    else
      for (const item of part) {
        if (isList(item)) yield* flatRuns(item, depth + 1);
        else yield [item];
      }
  }
}

/** Returns the elements of nested lists. A value that is not a list is one element. */
function runsOf(data: JsonNode): Iterable<Run> {
  if (!isList(data)) return [[data]];
  return data instanceof LongList || data.some(isList) ? flatRuns(data, 0) : [data];
}

/**
 * Passes the elements to `take`. Throws the first error of `take` only after all
 * elements were seen, because lists that are nested too deep must be reported first.
 */
function* taken(data: JsonNode, take: (run: Run) => void): Pieces<void> {
  let wrong: TritonError | null = null;
  let seen = 0;
  for (const run of runsOf(data)) {
    try {
      if (wrong === null) take(run);
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      wrong = error;
    }
    // An empty list also takes time.
    seen += run.length + 1;
    if (seen < ITEMS_OF_A_PIECE) continue;
    seen = 0;
    yield;
  }
  if (wrong !== null) throw wrong;
}

type NumberType = Exclude<Datatype, "BYTES" | "FP16" | "BF16">;

function* converted(datatype: NumberType, data: JsonNode, count: number, missing: string): Pieces<Uint8Array> {
  const into = newNumbers(datatype, count);
  const list = into as unknown as (number | bigint)[];
  const isBig = datatype === "INT64" || datatype === "UINT64";
  const take = takerOf(datatype);
  let at = 0;
  const put = (value: JsonNode) => {
    if (at >= count) throw internal("Shape does not match true shape of 'data' field");
    const number = take(value);
    list[at++] = isBig ? BigInt(number) : typeof number === "bigint" ? Number(BigInt.asUintN(32, number)) : number;
  };
  const puts = (run: Run) => {
    if (!(run instanceof NumberPart)) for (const value of run) put(value);
    else if (into instanceof Float32Array || into instanceof Float64Array) {
      const fitting = Math.min(run.length, count - at);
      into.set(run.values.subarray(0, fitting), at);
      at += fitting;
      if (fitting < run.length) put(0);
    } else for (let i = 0; i < run.length; i++) put(run.item(i));
  };
  yield* taken(data, (run) => within("Unable to parse 'data'", puts, run));
  if (at !== count) throw internal(missing);
  return bytesOf(datatype, into);
}

/** Returns the function that reads an element of the type. */
function takerOf(datatype: NumberType): (value: JsonNode) => number | bigint {
  if (datatype === "BOOL") return (value) => Number(asBoolean(value));
  if (datatype.startsWith("FP")) return asDouble;
  return datatype.startsWith("U") ? asUnsigned : asSigned;
}

function* packed(data: JsonNode): Pieces<Uint8Array> {
  let part: (string | LongText)[] = [];
  const parts = [part];
  let bytes = 0;
  let count = 0;
  yield* taken(data, (run) => {
    for (let i = 0; i < run.length; i++) {
      const value = run instanceof NumberPart ? run.item(i) : run[i]!;
      const text = value instanceof LongText ? value : within("Unable to parse JSON bytes array", asBytesText, value);
      if (part.length >= ITEMS_OF_A_PIECE) {
        part = [];
        parts.push(part);
      }
      part.push(text);
      bytes += LENGTH_BYTES + text.length;
      count++;
    }
  });
  const made = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const texts of parts) {
    for (const text of texts)
      at = text instanceof LongText ? yield* written(text, made, at) : writeText(text, made, at);
    yield;
  }
  noteTexts(made, count);
  return made;
}

/** Writes a long element of a BYTES tensor. Returns the end offset. */
function* written({ bytes: text }: LongText, bytes: Buffer, from: number): Pieces<number> {
  bytes.writeUInt32LE(text.length, from);
  const to = from + LENGTH_BYTES;
  for (let at = 0; at < text.length; at += COPIED_BYTES) {
    bytes.set(text.subarray(at, at + COPIED_BYTES), to + at);
    yield;
  }
  return to + text.length;
}

/** Returns the elements as a JSON list without its brackets. */
export function elementsText(tensor: Omit<Tensor, "shape">): string {
  const { datatype, data } = tensor;
  if (ELEMENT_BYTES[datatype] < 8 && (datatype.startsWith("INT") || datatype.startsWith("UINT")))
    return wholeText(datatype as "INT32", data);
  return writeElements(tensor).join(",");
}

/** Output buffer for integers of at most 32 bits and commas. Longer outputs are joined as strings. */
const WRITTEN = Buffer.alloc(16_384);
const WRITTEN_MOST = WRITTEN.length / "-2147483648,".length;

function wholeText(datatype: "INT32", data: Uint8Array): string {
  const count = data.length / ELEMENT_BYTES[datatype];
  if (count > WRITTEN_MOST) return elementsOf(datatype, data).join(",");
  const numbers = passingElements(datatype, data);
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (i > 0) WRITTEN[at++] = 44;
    at = writeWhole(numbers[i] as number, at);
  }
  return WRITTEN.toString("latin1", 0, at);
}

/** Writes an integer at `from`. Returns the end offset. */
function writeWhole(number: number, from: number): number {
  let at = from;
  let left = number;
  if (left < 0) {
    WRITTEN[at++] = 45;
    left = -left;
  }
  let end = at + 1;
  for (let most = 10; left >= most; most *= 10) end++;
  for (let place = end - 1; place >= at; place--) {
    const rest = Math.floor(left / 10);
    WRITTEN[place] = 48 + left - rest * 10;
    left = rest;
  }
  return end;
}

/** Returns the elements as JSON, one string per element. */
function writeElements({ name, datatype, data }: Omit<Tensor, "shape">): string[] {
  if (datatype === "FP16" || datatype === "BF16")
    throw invalidArg(
      `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
    );
  if (datatype === "BYTES") {
    const texts = unpackTexts(data);
    if (texts === null) throw new TritonError("INTERNAL", `malformed BYTES output '${name}'`);
    return texts.map(rapidText);
  }
  const numbers = elementsOf(datatype, data) as unknown as ArrayLike<number | bigint>;
  const made = new Array<string>(numbers.length);
  const text =
    datatype === "BOOL"
      ? (value: number | bigint) => (value ? "true" : "false")
      : datatype === "FP32" || datatype === "FP64"
        ? (value: number | bigint) => doubleText(value as number)
        : (value: number | bigint) => `${value}`;
  for (let i = 0; i < numbers.length; i++) made[i] = text(numbers[i]!);
  return made;
}

/** Matches strings that need no escapes in JSON. */
const UNESCAPED = /^[ !#-[\]-\xff]*$/;

/** Returns a JSON string literal like RapidJSON's writer: escaped as in JavaScript, but with capitals in hexadecimal numbers. */
export function rapidText(text: string): string {
  if (UNESCAPED.test(text)) return `"${text}"`;
  const json = JSON.stringify(text);
  if (!json.includes("\\u")) return json;
  return json.replaceAll(/\\(?:u.{4}|.)/g, (code) => (code.length > 2 ? `\\u${code.slice(2).toUpperCase()}` : code));
}

/** A parameter's value. Strings have one character per byte. */
export type ParameterValue = string | boolean | number | bigint | Real;

/** Returns a parameter's value as JSON. */
export function parameterText(value: ParameterValue): string {
  if (typeof value === "string") return rapidText(value);
  return value instanceof Real ? doubleText(value.value) : `${value}`;
}

/** Returns the result of `elementsText` in parts of about 16 KiB. */
export const elementsTexts = (tensor: Omit<Tensor, "shape">): Iterable<string> =>
  tensor.data.length <= SHORT_BYTES ? [elementsText(tensor)] : elementsParts(tensor);

function* elementsParts({ name, datatype, data }: Omit<Tensor, "shape">): Generator<string, void> {
  const step = datatype === "BYTES" ? 0 : WRITTEN_ELEMENTS * ELEMENT_BYTES[datatype];
  let end = 0;
  for (let from = 0; from < data.length; from = end) {
    if (from > 0) yield ",";
    end = step === 0 ? textsEnd(data, from) : Math.min(data.length, from + step);
    if (step === 0 && isLongText(data, from, end)) yield* quotedParts(data, from + LENGTH_BYTES, end);
    else yield elementsText({ name, datatype, data: data.subarray(from, end) });
  }
}

/**
 * Returns the offset at which the next turn continues: after several short strings, or after one long string. If the last string
 * is cut off, returns the length of the data.
 */
function textsEnd(data: Uint8Array, from: number): number {
  let at = from;
  while (at < data.length && at - from < WRITTEN_BYTES) {
    if (at + LENGTH_BYTES > data.length) return data.length;
    const length = lengthAt(data, at);
    if (length > WRITTEN_BYTES && at > from) return at;
    at += LENGTH_BYTES + length;
  }
  return Math.min(data.length, at);
}

/** True if the bytes are exactly one long string that is not truncated. */
function isLongText(data: Uint8Array, from: number, end: number): boolean {
  const length = end - from - LENGTH_BYTES;
  return length > WRITTEN_BYTES && lengthAt(data, from) === length;
}

/** Yields a string as JSON. Each character is escaped by itself, so that the string may be cut anywhere. */
function* quotedParts(data: Uint8Array, from: number, end: number): Generator<string, void> {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  yield '"';
  for (let at = from; at < end; at += WRITTEN_BYTES)
    yield rapidText(bytes.toString("latin1", at, Math.min(end, at + WRITTEN_BYTES))).slice(1, -1);
  yield '"';
}

/** True if the data contain exactly one element. */
export const isOneElement = ({ datatype, data }: Omit<Tensor, "shape">): boolean =>
  datatype === "BYTES" ? LENGTH_BYTES + lengthAt(data, 0) === data.length : data.length === ELEMENT_BYTES[datatype];
