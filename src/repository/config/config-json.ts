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
    else if (field.repeated) made[field.name] = ((value ?? []) as Value[]).map((one) => single(field, one, later));
    else if (value !== undefined) made[field.name] = single(field, value, later);
    else if (!messages.has(field.type) && field.choice === null) made[field.name] = defaultOf(field.type);
  }
  return made;
}

const mapped = (field: ConfigField, entries: ConfigMessage, later: boolean): JsonNode =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, single(field, value!, later)]));

const single = ({ type }: ConfigField, value: Value, later: boolean): JsonNode =>
  messages.has(type) ? printed(type, value as ConfigMessage, later) : (value as JsonNode);

function defaultOf(type: string): JsonNode {
  if (type === "string") return "";
  if (type === "bool") return false;
  return enums.get(type)?.[0] ?? 0;
}

/** Throws where it is no configuration: a field that is not known, a value of another kind. */
export function configFromJson(json: unknown, later: boolean): ConfigMessage {
  return read(ROOT, json, later);
}

const camel = (name: string) => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

function read(type: string, json: unknown, later: boolean): ConfigMessage {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error(`no object for ${type}`);
  const made: Record<string, Value> = {};
  for (const [key, value] of Object.entries(json)) {
    const field = messages.get(type)!.find(({ name }) => name === key || camel(name) === key);
    if (field === undefined || (field.later && !later)) throw new Error(`${type} has no field ${key}`);
    if (value === null) continue;
    if (field.keys !== null) {
      const entries = Object.entries(value as object).map(([of, one]) => [of, readSingle(field, one, later)]);
      made[field.name] = Object.fromEntries(entries) as ConfigMessage;
    } else if (field.repeated) {
      if (!Array.isArray(value)) throw new Error(`${key} is no list`);
      made[field.name] = value.map((one) => readSingle(field, one, later));
    } else made[field.name] = readSingle(field, value, later);
  }
  return made;
}

function readSingle({ type, name }: ConfigField, json: unknown, later: boolean): Value {
  if (messages.has(type)) return read(type, json, later);
  const values = enums.get(type);
  const value = values === undefined ? json : typeof json === "number" ? values[json] : json;
  if (values?.includes(value as string)) return value as string;
  if (type === "string" && typeof value === "string") return value;
  if (type === "bool" && typeof value === "boolean") return value;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof number === "number" && !Number.isNaN(number) && !values && type !== "string" && type !== "bool") {
    if (type === "float" || type === "double" || Number.isInteger(number)) return number;
  }
  throw new Error(`${name} is no ${type}`);
}
