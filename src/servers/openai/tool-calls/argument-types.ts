/**
 * Which type has an argument that a model wrote as plain text? Told by the tool's schema, as vLLM 0.33 does
 * (`tool_parsers/utils.py`, `extract_types_from_schema` and `coerce_to_schema_type`).
 */
import { pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import { get, isDict, isList, keysOf, PythonFloat, type PythonValue, toInt } from "../../pydantic/value.ts";

/** Schemas by property. */
export type Properties = Readonly<Record<string, unknown>>;

const ALIASES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    string: "str text varchar char enum",
    integer: "int int32 int64 uint uint32 uint64 long short unsigned",
    number: "float float32 float64 double",
    boolean: "bool",
    object: "dict",
    array: "arr list sequence",
  }).flatMap(([type, names]) => names.split(" ").map((name) => [name, type])),
);
const ORDER = ["null", "integer", "number", "boolean", "object", "array", "string"];
const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const FLOAT = /^\s*[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** An open value of this property can be shown as far as it goes. */
export function streamsAsText(name: string, properties: Properties): boolean {
  if (Object.keys(properties).length === 0) return true;
  if (!Object.hasOwn(properties, name)) return false;
  const types = schemaTypes(properties[name]);
  return types.size === 1 && types.has("string");
}

/** Text without a schema stays text. */
export function coerced(text: string, schema: unknown): PythonValue {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return text;
  const types = new Set(
    [...schemaTypes(schema)].map((type) => ALIASES[type.trim().toLowerCase()] ?? type.trim().toLowerCase()),
  );
  for (const type of ORDER) {
    if (!types.has(type)) continue;
    const value = as(type, text);
    if (value !== undefined) return value;
  }
  return json(text) ?? text;
}

/** Fits a value to its schema, inside lists and objects as well (`ParserEngine._coerce_value`). No schema: it stays. */
export function fitted(value: PythonValue, schema: unknown): PythonValue {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return value;
  if (typeof value === "string") return coerced(value, schema);
  const { items, properties } = schema as { readonly items?: unknown; readonly properties?: Properties };
  if (isList(value)) return typeof items === "object" ? value.map((item) => fitted(item, items)) : value;
  if (!isDict(value)) return coerced(pythonDumps(value), schema);
  if (typeof properties !== "object" || properties === null) return value;
  return new Map(keysOf(value).map((key) => [key, fitted(get(value, key)!, properties[key])]));
}

function as(type: string, text: string): PythonValue | undefined {
  const lower = text.toLowerCase();
  switch (type) {
    case "null":
      return lower === "null" ? null : undefined;
    case "integer":
      return integer(text);
    case "number":
      return integer(text) ?? float(text);
    case "boolean":
      if (["true", "1"].includes(lower.trim())) return true;
      return ["false", "0"].includes(lower.trim()) ? false : undefined;
    case "string":
      return text;
    default:
      return json(text);
  }
}

function integer(text: string): PythonValue | undefined {
  return INTEGER.test(text) ? toInt(BigInt(text.trim().replaceAll("_", "").replace(/^\+/, ""))) : undefined;
}

function float(text: string): PythonValue | undefined {
  if (!FLOAT.test(text)) return undefined;
  const value = Number(text.trim().replaceAll("_", ""));
  if (!Number.isFinite(value)) return undefined;
  return Number.isInteger(value) ? toInt(BigInt(value)) : new PythonFloat(value);
}

function json(text: string): PythonValue | undefined {
  try {
    const value = parsePython(text);
    return allFinite(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function allFinite(value: PythonValue): boolean {
  if (value instanceof PythonFloat) return Number.isFinite(value.value);
  if (isList(value)) return value.every(allFinite);
  return !isDict(value) || (value instanceof Map ? [...value.values()] : Object.values(value)).every(allFinite);
}

/** Names of the types that a JSON schema allows; "string" if it names none. */
export function schemaTypes(schema: unknown): Set<string> {
  const types = new Set<string>();
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return new Set(["string"]);
  const given = schema as Properties;
  for (const type of [given.type].flat()) if (typeof type === "string") types.add(type);
  if (Array.isArray(given.enum)) for (const value of given.enum) types.add(typeOf(value));
  for (const field of ["anyOf", "oneOf", "allOf"])
    if (Array.isArray(given[field]))
      for (const one of given[field] as unknown[]) for (const type of schemaTypes(one)) types.add(type);
  return types.size > 0 ? types : new Set(["string"]);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}
