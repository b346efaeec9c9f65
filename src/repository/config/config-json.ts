/**
 * How does a configuration look as JSON? As the real server prints it: protobuf's mapping with the original names, defaults
 * printed, whole numbers of 64 bits as numbers; and how it is read, as a load may bring one.
 */
import type { ConfigMessage, Value } from "./pbtxt.ts";
import { type ConfigField, enums, messages, ROOT } from "./schema.ts";

type JsonNode = string | number | boolean | null | readonly JsonNode[] | { readonly [key: string]: JsonNode };

/** Every field that has a default is there; messages and choices only where they were set. */
export function configJson(config: ConfigMessage, later: boolean): { readonly [key: string]: JsonNode } {
  return printed(ROOT, config, later);
}

function printed(type: string, message: ConfigMessage, later: boolean): { readonly [key: string]: JsonNode } {
  const made: Record<string, JsonNode> = {};
  for (const field of messages.get(type)!) {
    const value = message[field.name];
    if (field.later && !later) continue;
    if (field.keys !== null) made[field.name] = mapped(field, (value ?? {}) as ConfigMessage, later);
    else if (field.repeated && LEFT_AS_TEXT[type] === field.name)
      made[field.name] = ((value ?? []) as Value[]).map(String);
    else if (field.repeated) made[field.name] = ((value ?? []) as Value[]).map((one) => single(field, one, later));
    else if (LEFT_AS_TEXT[type] === field.name) made[field.name] = `${value ?? 0}`;
    else if (value !== undefined) made[field.name] = single(field, value, later);
    else if (!messages.has(field.type) && field.choice === null) made[field.name] = defaultOf(field.type);
  }
  return made;
}

const mapped = (field: ConfigField, entries: ConfigMessage, later: boolean): JsonNode =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, single(field, value!, later)]));

/** Whole numbers of 64 bits that `ModelConfigToJson` of `model_config_utils.cc` leaves as the texts that protobuf makes of them. */
const LEFT_AS_TEXT: Readonly<Record<string, string>> = {
  "ModelInstanceGroup.SecondaryDevice": "device_id",
  "ModelOptimizationPolicy.Cuda.GraphSpec.Shape": "dim",
  "ModelSequenceBatching.InitialState": "dims",
};

const single = ({ type }: ConfigField, value: Value, later: boolean): JsonNode =>
  messages.has(type) ? printed(type, value as ConfigMessage, later) : (value as JsonNode);

function defaultOf(type: string): JsonNode {
  if (type === "string") return "";
  if (type === "bool") return false;
  return enums.get(type)?.[0] ?? 0;
}

/** A text of JSON, or a comma before a bracket that closes. */
const TEXT_OR_COMMA = /("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g;

/**
 * Throws where it is no configuration: a field that is not known, a value of another kind, two of a choice. As protobuf's
 * parser has it, a list may be one value without brackets, and a comma may stand behind the last.
 */
export function configFromJson(text: string, later: boolean): ConfigMessage {
  return read(ROOT, JSON.parse(text.replaceAll(TEXT_OR_COMMA, "$1")), later);
}

const camel = (name: string) => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

function read(type: string, json: unknown, later: boolean): ConfigMessage {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error(`no object for ${type}`);
  const made: Record<string, Value> = {};
  const fields = messages.get(type)!;
  for (const [key, value] of Object.entries(json)) {
    const field = fields.find(({ name }) => name === key || camel(name) === key);
    if (field === undefined || (field.later && !later)) throw new Error(`${type} has no field ${key}`);
    if (value === null) continue;
    const other = field.choice !== null && fields.find((one) => one.choice === field.choice && one.name in made);
    if (other) throw new Error(`${field.name} beside ${other.name}`);
    if (field.keys !== null) {
      const entries = Object.entries(value as object).map(([of, one]) => [of, readSingle(field, one, later)]);
      made[field.name] = Object.fromEntries(entries) as ConfigMessage;
    } else if (field.repeated) {
      const list: readonly unknown[] = Array.isArray(value) ? value : [value];
      made[field.name] = list.map((one) => readSingle(field, one, later));
    } else made[field.name] = readSingle(field, value, later);
  }
  return made;
}

/** Least and largest of whole numbers. */
const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
  int64: [-(2 ** 63), 2 ** 63],
  uint64: [0, 2 ** 64],
};

function readSingle({ type, name }: ConfigField, json: unknown, later: boolean): Value {
  if (messages.has(type)) return read(type, json, later);
  const values = enums.get(type);
  const value = values === undefined ? json : typeof json === "number" ? values[json] : json;
  if (values?.includes(value as string)) return value as string;
  if (type === "string" && typeof value === "string") return value;
  if (type === "bool" && typeof value === "boolean") return value;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof number === "number" && !Number.isNaN(number) && !values && type !== "string" && type !== "bool") {
    if (type === "float" || type === "double") return number;
    const [least, most] = RANGES[type] ?? [0, 0];
    if (Number.isInteger(number) && number >= least && number <= most) return number;
  }
  throw new Error(`${name} is no ${type}`);
}
