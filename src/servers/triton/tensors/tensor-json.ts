/**
 * Converts tensor elements to JSON and back. As in Triton, integers wrap around and nested lists are accepted; the output is
 * that of RapidJSON's writer. Source: `ReadDataFromJson` and `WriteDataToJson` in `http_server.cc`. Strings have one character
 * per byte.
 */
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { asBoolean, asBytesText, asDouble, asSigned, asUnsigned, within } from "./access.ts";
import {
  bytesOf,
  type Datatype,
  ELEMENT_BYTES,
  elementsOf,
  type Numbers,
  newNumbers,
  packNumbers,
  packTexts,
  passingElements,
  type Tensor,
  unpackTexts,
} from "./datatypes.ts";
import { doubleText } from "./double-text.ts";
import type { JsonNode } from "./json-nodes.ts";

/** Triton's limit for the nesting depth of lists. */
export const DEPTH_MOST = 100;
export const nestedTooDeep = () => invalidArg(`JSON nesting depth exceeds maximum allowed limit (${DEPTH_MOST})`);

/**
 * Reads `count` elements. `datatype` null: the input's type name is unknown. `missing`: the error message if there are fewer
 * elements.
 */
export function readElements(
  name: string,
  data: JsonNode,
  datatype: Datatype | null,
  count: number,
  missing: string,
): Uint8Array {
  if (datatype === "BYTES")
    return packTexts(flat(data).map((one) => within("Unable to parse JSON bytes array", asBytesText, one)));
  const readable = checkReadable(datatype, name);
  if (readable === "INT32" && isNumberList(data, count)) return packNumbers(readable, data);
  return converted(readable, flat(data), count, missing);
}

export function checkReadable(datatype: Exclude<Datatype, "BYTES"> | null, name: string): keyof typeof takers {
  if (datatype === "FP16" || datatype === "BF16")
    throw invalidArg(
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${name}`,
    );
  if (datatype === null) throw invalidArg(`invalid datatype for input ${name}`);
  return datatype;
}

/** True if the data are exactly `count` plain integers, so that they need no further checks. */
function isNumberList(data: JsonNode, count: number): data is readonly number[] {
  if (!Array.isArray(data) || data.length !== count) return false;
  for (let i = 0; i < count; i++) if (typeof data[i] !== "number") return false;
  return true;
}

function converted(
  datatype: keyof typeof takers,
  list: readonly JsonNode[],
  count: number,
  missing: string,
): Uint8Array {
  const into = newNumbers(datatype, count) as unknown as (number | bigint)[];
  const big = isBig(datatype);
  const take = takers[datatype];
  let at = 0;
  within(
    "Unable to parse 'data'",
    (values) => {
      for (const one of values) {
        if (at >= count) throw internal("Shape does not match true shape of 'data' field");
        into[at++] = stored(take(one), big);
      }
    },
    list,
  );
  if (at !== count) throw internal(missing);
  return bytesOf(into as unknown as Numbers);
}

export const isBig = (datatype: Datatype): boolean => datatype === "INT64" || datatype === "UINT64";

/** Converts a value to what a typed array of this type accepts. */
export const stored = (value: number | bigint, big: boolean): number | bigint =>
  big ? BigInt(value) : typeof value === "bigint" ? Number(BigInt.asUintN(32, value)) : value;

export const takers: Readonly<
  Record<Exclude<Datatype, "BYTES" | "FP16" | "BF16">, (value: JsonNode) => number | bigint>
> = {
  BOOL: (value) => (asBoolean(value) ? 1 : 0),
  UINT8: asUnsigned,
  UINT16: asUnsigned,
  UINT32: asUnsigned,
  UINT64: asUnsigned,
  INT8: asSigned,
  INT16: asSigned,
  INT32: asSigned,
  INT64: asSigned,
  FP32: asDouble,
  FP64: asDouble,
};

/** Flattens nested lists. A value that is not a list becomes a list with one item. */
function flat(data: JsonNode): readonly JsonNode[] {
  if (!Array.isArray(data)) return [data];
  if (!data.some(Array.isArray)) return data;
  const made: JsonNode[] = [];
  const add = (list: readonly JsonNode[], depth: number) => {
    if (depth >= DEPTH_MOST) throw nestedTooDeep();
    for (const one of list) {
      if (Array.isArray(one)) add(one as readonly JsonNode[], depth + 1);
      else made.push(one);
    }
  };
  add(data as readonly JsonNode[], 0);
  return made;
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
export function writeElements({ name, datatype, data }: Omit<Tensor, "shape">): string[] {
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

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** Matches strings that need no escapes in JSON. */
const UNESCAPED = /^[ !#-[\]-\xff]*$/;

/** Returns a JSON string literal, escaped like RapidJSON's writer does. */
export function rapidText(text: string): string {
  if (UNESCAPED.test(text)) return `"${text}"`;
  let made = '"';
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 32 && code !== 34 && code !== 92) continue;
    const one = text[at]!;
    made += text.slice(from, at) + (SHORT[one] ?? `\\u${code.toString(16).toUpperCase().padStart(4, "0")}`);
    from = at + 1;
  }
  return `${made}${text.slice(from)}"`;
}
