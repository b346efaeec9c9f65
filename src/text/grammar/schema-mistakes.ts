/**
 * Reads a JSON Schema, and finds the first error for which vLLM refuses it, with llguidance's message. Sources: vLLM 0.33,
 * `v1/structured_output/backend_xgrammar.py` and `backend_guidance.py`; llguidance 1.7.6.
 */
import { parsedJson } from "../../base/json-object.ts";
import { BrokenStructure } from "./broken.ts";
import { fits } from "./fits.ts";
import { fromPlain } from "./json-text.ts";
import { GUIDANCE_FORMATS, needsGuidance } from "./libraries.ts";
import { mistakeText, regexMistake } from "./rust-regex.ts";
import { isKeywords, type Keywords, pointed, type Schema, TYPES } from "./schema.ts";

/** Keywords of arrays that neither library supports. */
const UNKNOWN = ["uniqueItems", "contains", "minContains", "maxContains"];
const COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
const BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const DEPTH_MOST = 128;

const broken = (what: string) => new BrokenStructure(`Grammar error: ${what}`);
const unsatisfiable = (what: string) => broken(`Unsatisfiable schema: ${what}`);

/** Parses and checks a schema. Throws `BrokenStructure`. */
export function readSchema(text: string): Schema {
  const schema = parsedJson(text);
  if (schema === undefined) throw new BrokenStructure("Invalid JSON grammar specification.");
  if (!isKeywords(schema))
    throw new BrokenStructure("Invalid grammar specification: Expecting object schema to apply options");
  check(schema, { root: schema, isGuided: needsGuidance(schema) }, 0);
  return schema;
}

/** The schema around the part that is checked. `isGuided`: true if llguidance gets it, because XGrammar does not support it. */
interface SchemaContext {
  readonly root: Schema;
  readonly isGuided: boolean;
}

function check(schema: unknown, context: SchemaContext, depth: number): void {
  if (typeof schema === "boolean" || depth > DEPTH_MOST) return;
  if (!isKeywords(schema)) throw broken("schema must be an object or boolean");
  const inner = (part: unknown) => check(part, context, depth + 1);
  checkType(schema);
  checkReference(schema, context.root);
  checkValues(schema, context.root);
  checkUnknown(schema);
  checkPattern(schema);
  if (context.isGuided) checkFormat(schema);
  checkBounds(schema);
  for (const key of ["properties", "patternProperties", "$defs", "definitions"]) {
    const map = schema[key];
    if (map === undefined || (key.startsWith("$d") || key === "definitions" ? !isKeywords(map) : false)) continue;
    if (!isKeywords(map)) throw broken(`${key} must be an object`);
    if (key === "properties" || key === "patternProperties") Object.values(map).forEach(inner);
  }
  for (const key of ["allOf", "anyOf", "oneOf", "prefixItems"]) {
    const list = schema[key];
    if (list === undefined) continue;
    if (!Array.isArray(list)) throw broken(`${key} must be an array`);
    list.forEach(inner);
  }
  if (schema.additionalProperties !== undefined) inner(schema.additionalProperties);
  if (Array.isArray(schema.items)) schema.items.forEach(inner);
  else if (schema.items !== undefined) inner(schema.items);
  if (schema.required !== undefined && !Array.isArray(schema.required))
    throw broken(`Expected array for 'required', got ${JSON.stringify(schema.required)}`);
}

function checkType({ type }: Keywords): void {
  if (type === undefined) return;
  const list = [type].flat();
  if (!list.every((name) => typeof name === "string")) throw broken("type must be a string or array of strings");
  const unknown = list.find((name) => !TYPES.includes(name as never));
  if (unknown !== undefined) throw broken(`Invalid type: ${unknown}`);
}

function checkReference({ $ref }: Keywords, root: Schema): void {
  if ($ref === undefined) return;
  if (typeof $ref !== "string") throw broken(`$ref must be a string, got ${JSON.stringify($ref)}`);
  if ($ref.startsWith("#/") && pointed(root, $ref) === undefined)
    throw broken(`Pointer '${$ref.slice(1)}' does not exist`);
}

function checkValues(schema: Keywords, root: Schema): void {
  const { enum: list, ...others } = schema;
  if (list === undefined) return;
  if (!Array.isArray(list)) throw broken("enum must be an array");
  if (list.length === 0) throw unsatisfiable("anyOf is empty");
  if (!list.some((item) => fits(fromPlain(item), others, root))) throw unsatisfiable("anyOf is empty");
}

function checkUnknown(schema: Keywords): void {
  const isArray = [schema.type ?? []].flat().includes("array");
  const keys = isArray ? UNKNOWN.filter((key) => schema[key] !== undefined) : [];
  if ("propertyNames" in schema && isKeywords(schema.properties)) keys.push("propertyNames");
  if (keys.length > 0) throw broken(`Unimplemented keys: ${JSON.stringify(keys.sort()).replaceAll('","', '", "')}`);
}

function checkPattern({ pattern }: Keywords): void {
  if (pattern === undefined) return;
  if (typeof pattern !== "string") throw broken(`Expected string for 'pattern', got ${JSON.stringify(pattern)}`);
  const found = regexMistake(pattern);
  // xgrammar ignores lookarounds in patterns.
  if (found !== null && !found.what.startsWith("look-around") && found.lookaround === undefined)
    throw broken(mistakeText(pattern, found));
}

function checkFormat({ type, format }: Keywords): void {
  const isText = type === undefined || [type].flat().includes("string");
  if (isText && typeof format === "string" && !GUIDANCE_FORMATS.has(format)) throw broken(`Unknown format: ${format}`);
}

function checkBounds(schema: Keywords): void {
  for (const key of COUNTS) {
    const value = schema[key];
    if (value !== undefined && !(typeof value === "number" && Number.isInteger(value)))
      throw broken(`Expected positive integer for '${key}', got ${JSON.stringify(value)}`);
  }
  for (const key of BOUNDS) {
    const value = schema[key];
    if (value !== undefined && typeof value !== "number" && typeof value !== "boolean")
      throw broken(`Expected f64 for '${key}', got ${JSON.stringify(value)}`);
  }
  if (schema.multipleOf === 0) throw broken("invalid multiple of");
  for (const [least, most] of [
    ["minLength", "maxLength"],
    ["minItems", "maxItems"],
    ["minProperties", "maxProperties"],
    ["minimum", "maximum"],
  ] as const) {
    const [from, to] = [schema[least], schema[most]];
    if (typeof from === "number" && typeof to === "number" && from > to)
      throw unsatisfiable(`${least} (${from}) is greater than ${most} (${to})`);
  }
}
