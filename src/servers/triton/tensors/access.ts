/**
 * Reads typed values out of parsed JSON and fails with Triton's messages. Source: `triton_json.h` of Triton's common library.
 */
import { isLarge, type Pieces } from "../../../base/pieces.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { fromBytesText } from "./datatypes.ts";
import { JsonMembers, type JsonNode, LongList, LongText, Real, SHORT_TEXT_BYTES } from "./json-nodes.ts";
import { parseRapidJson, RapidJsonError } from "./rapid-json.ts";
import { rapidJsonInPieces } from "./rapid-json-pieces.ts";

const LARGEST_SIGNED = 2n ** 63n - 1n;

/** Parses a small body. Throws a `TritonError` if it is not valid JSON. */
export function documentOf(body: Uint8Array): JsonNode {
  try {
    return parseRapidJson(body);
  } catch (error) {
    throw unparsed(error);
  }
}

/** Parses a body of any size, a large one in pieces. Throws a `TritonError` if it is not valid JSON. */
export function* documentPieces(body: Uint8Array): Pieces<JsonNode> {
  if (!isLarge(body)) return documentOf(body);
  try {
    return yield* rapidJsonInPieces(body);
  } catch (error) {
    throw unparsed(error);
  }
}

const unparsed = (error: unknown): unknown =>
  error instanceof RapidJsonError ? internal(`failed to parse the request JSON buffer: ${error.message}`) : error;

/** Returns a member of an object. Returns undefined if the object does not have it, or if the value is not an object. */
export const find = (value: JsonNode, name: string): JsonNode | undefined =>
  value instanceof JsonMembers ? value.get(name) : undefined;

/** Returns `read(value)`. Adds `PREFIX: ` to the message of a `TritonError` that `read` throws. */
export function within<V, T>(prefix: string, read: (value: V) => T, value: V): T {
  try {
    return read(value);
  } catch (error) {
    throw prefixed(prefix, error);
  }
}

/** Returns the error, with `PREFIX: ` before the message of a `TritonError`. */
export const prefixed = (prefix: string, error: unknown): unknown =>
  error instanceof TritonError ? new TritonError(error.code, `${prefix}: ${error.message}`) : error;

/** Returns the member `name` as text. Throws a `TritonError` if it is missing or not a string. */
export function stringIn(value: JsonNode, name: string): string {
  const found = find(value, name);
  if (typeof found === "string") return fromBytesText(found);
  return within(`Unable to parse '${name}'`, asString, required(value, name));
}

/** Returns the member `name` as a list. Throws a `TritonError` if it is missing or not a list. */
export function arrayIn(value: JsonNode, name: string): readonly JsonNode[] {
  const found = find(value, name);
  if (Array.isArray(found)) return found;
  return within(`Unable to parse '${name}'`, asArray, required(value, name));
}

const required = (value: JsonNode, name: string): JsonNode =>
  within(`Unable to parse '${name}'`, (object) => member(object, name), value);

export function member(value: JsonNode, name: string): JsonNode {
  const found = find(value, name);
  if (found === undefined) throw internal(`attempt to access non-existing object member '${name}'`);
  return found;
}

/**
 * Lists the members. A name that occurs several times is listed as often, always with its first value, because Triton lists the
 * names and then looks each of them up.
 */
export function membersOf(value: JsonNode): readonly (readonly [string, JsonNode])[] {
  if (!(value instanceof JsonMembers)) throw internal("attempt to get members for non-object");
  const { members } = value;
  if (members.length < 2) return members;
  const first = new Map<string, JsonNode>();
  for (const [name, one] of members) if (!first.has(name)) first.set(name, one);
  return members.map(([name]) => [name, first.get(name)!] as const);
}

export function asArray(value: JsonNode): readonly JsonNode[] {
  if (value instanceof LongList) return value.whole();
  if (!Array.isArray(value)) throw internal("attempt to access JSON non-array as array");
  return value;
}

export function asObject(value: JsonNode): JsonMembers {
  if (!(value instanceof JsonMembers)) throw internal("attempt to access JSON non-object as object");
  return value;
}

/** Returns a string whose characters each stand for one byte of UTF-8. */
export function asBytesText(value: JsonNode): string {
  if (value instanceof LongText) return value.text;
  if (typeof value !== "string") throw internal("attempt to access JSON non-string as string");
  return value;
}

/** A text of bytes of at most 1 MiB: a longer one would be copied in one go. */
export function asShortText(value: JsonNode): string {
  if (value instanceof LongText)
    throw invalidArg(`a text of ${value.length} bytes: a stand-in takes ${SHORT_TEXT_BYTES} here`);
  return asBytesText(value);
}

export const asString = (value: JsonNode): string => fromBytesText(asShortText(value));

export function asBoolean(value: JsonNode): boolean {
  if (typeof value !== "boolean") throw internal("attempt to access JSON non-boolean as boolean");
  return value;
}

export const isSigned = (value: JsonNode): value is number | bigint =>
  typeof value === "number" || (typeof value === "bigint" && value <= LARGEST_SIGNED);

export function asSigned(value: JsonNode): number | bigint {
  if (!isSigned(value)) throw internal("attempt to access JSON non-signed-integer as signed-integer");
  return value;
}

export function asUnsigned(value: JsonNode): number | bigint {
  if ((typeof value !== "number" && typeof value !== "bigint") || value < 0)
    throw internal("attempt to access JSON non-unsigned-integer as unsigned-integer");
  return value;
}

export const isJsonNumber = (value: JsonNode): value is number | bigint | Real =>
  typeof value === "number" || typeof value === "bigint" || value instanceof Real;

export function asDouble(value: JsonNode): number {
  if (!isJsonNumber(value)) throw internal("attempt to access JSON non-number as double");
  return value instanceof Real ? value.value : Number(value);
}
