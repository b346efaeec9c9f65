/**
 * Converts arguments that a model wrote as plain text to the types in the tool's schema, as in vLLM 0.33
 * (`tool_parsers/utils.py`, `extract_types_from_schema` and `coerce_to_schema_type`).
 */
import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict, isList, keysOf, PythonFloat, type PythonValue, toInt } from "../../pydantic/value.ts";
import { pythonJsonIn } from "./parser-parts.ts";

/** JSON schemas by property. */
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
/** Types in the order in which they are tried. */
const ORDER = ["null", "integer", "number", "boolean", "object", "array", "string"];
const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const FLOAT = /^\s*[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** Reports whether an incomplete value of this property can be streamed, because it can only be a string. */
export function streamsAsText(name: string, properties: Properties): boolean {
  if (Object.keys(properties).length === 0) return true;
  if (!Object.hasOwn(properties, name)) return false;
  const types = schemaTypes(properties[name]);
  return types.size === 1 && types.has("string");
}

/** Converts a text to the first type of its schema that fits. Without a schema it remains text. */
export function coerce(text: string, schema: unknown): PythonValue {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return text;
  const types = new Set(
    [...schemaTypes(schema)].map((type) => ALIASES[type.trim().toLowerCase()] ?? type.trim().toLowerCase()),
  );
  for (const type of ORDER) {
    if (!types.has(type)) continue;
    const value = convertTo(type, text);
    if (value !== undefined) return value;
  }
  return json(text) ?? text;
}

/** Converts a value to its schema, also inside lists and objects (`ParserEngine._coerce_value`). Unchanged without a schema. */
export function coerceValue(value: PythonValue, schema: unknown): PythonValue {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return value;
  if (typeof value === "string") return coerce(value, schema);
  const { items, properties } = schema as { readonly items?: unknown; readonly properties?: Properties };
  if (isList(value)) return typeof items === "object" ? value.map((item) => coerceValue(item, items)) : value;
  if (!isDict(value)) return coerce(pythonDumps(value), schema);
  if (typeof properties !== "object" || properties === null) return value;
  return new Map(keysOf(value).map((key) => [key, coerceValue(get(value, key)!, properties[key])]));
}

/** Converts a text to a type. Returns undefined if it does not fit. */
function convertTo(type: string, text: string): PythonValue | undefined {
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
  const value = pythonJsonIn(text);
  return value !== undefined && allFinite(value) ? value : undefined;
}

function allFinite(value: PythonValue): boolean {
  if (value instanceof PythonFloat) return Number.isFinite(value.value);
  if (isList(value)) return value.every(allFinite);
  return !isDict(value) || (value instanceof Map ? [...value.values()] : Object.values(value)).every(allFinite);
}

/** Returns the names of the types that a JSON schema allows, or only "string" if it names none. */
export function schemaTypes(schema: unknown): Set<string> {
  const types = new Set<string>();
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return new Set(["string"]);
  const keywords = schema as Properties;
  for (const type of [keywords.type].flat()) if (typeof type === "string") types.add(type);
  if (Array.isArray(keywords.enum)) for (const value of keywords.enum) types.add(typeOf(value));
  for (const field of ["anyOf", "oneOf", "allOf"])
    if (Array.isArray(keywords[field]))
      for (const choice of keywords[field] as unknown[]) for (const type of schemaTypes(choice)) types.add(type);
  return types.size > 0 ? types : new Set(["string"]);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}
