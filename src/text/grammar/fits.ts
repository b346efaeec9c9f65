/**
 * Checks whether a value fits a JSON Schema. Needed only for keywords that drawing cannot satisfy directly: `not`, `oneOf`, `if`,
 * `contains`, and `enum` together with other keywords.
 */
import { re2 } from "../../base/expression-libraries.ts";
import { fromPlain, type Json, type JsonObject, sameJson } from "./json-text.ts";
import { asSchema, isKeywords, type Keywords, numberOr, pointed, properties, type Schema, schemas } from "./schema.ts";
import { spend } from "./work.ts";

/** Most nested references and subschemas. Anything fits beyond. */
const REFERENCES_MOST = 64;

/** Reports whether a value fits a schema. `root`: the whole schema, for references. */
export function fits(value: Json, schema: Schema, root: Schema, depth = 0): boolean {
  if (typeof schema === "boolean") return schema;
  if (depth > REFERENCES_MOST) return true;
  spend(Array.isArray(schema.enum) ? 1 + schema.enum.length : 1);
  const also = (other: Schema) => fits(value, other, root, depth + 1);
  if (typeof schema.$ref === "string" && !also(pointed(root, schema.$ref) ?? true)) return false;
  if (!fitsType(value, schema)) return false;
  if (schema.const !== undefined && !sameJson(value, fromPlain(schema.const))) return false;
  if (Array.isArray(schema.enum) && !schema.enum.some((item) => sameJson(value, fromPlain(item)))) return false;
  if (!schemas(schema.allOf).every(also)) return false;
  if (Array.isArray(schema.anyOf) && !schemas(schema.anyOf).some(also)) return false;
  if (Array.isArray(schema.oneOf) && schemas(schema.oneOf).filter(also).length !== 1) return false;
  if (schema.not !== undefined && also(asSchema(schema.not))) return false;
  if (schema.if !== undefined && !also(asSchema(also(asSchema(schema.if)) ? schema.then : schema.else))) return false;
  if (typeof value === "string") return fitsText(value, schema);
  if (typeof value === "number") return fitsNumber(value, schema);
  if (Array.isArray(value)) return fitsArray(value, schema, root);
  return !(value instanceof Map) || fitsObject(value, schema, root);
}

function fitsType(value: Json, { type }: Keywords): boolean {
  if (type === undefined) return true;
  return [type].flat().some((name) => {
    switch (name) {
      case "integer":
        return Number.isInteger(value);
      case "array":
        return Array.isArray(value);
      case "object":
        return value instanceof Map;
      case "null":
        return value === null;
      default:
        return typeof value === name;
    }
  });
}

function fitsText(value: string, schema: Keywords): boolean {
  const length = [...value].length;
  if (length < numberOr(schema.minLength, 0) || length > numberOr(schema.maxLength, Number.POSITIVE_INFINITY))
    return false;
  return patternsOf(schema).every((pattern) => matches(value, pattern));
}

/** Returns the patterns of a schema. There are several if it was merged from several schemas. */
export function patternsOf({ pattern }: Keywords): readonly string[] {
  if (typeof pattern === "string") return [pattern];
  return isKeywords(pattern) ? (pattern.both as string[]) : [];
}

/** Reports whether the pattern matches anywhere, in linear time. A pattern that cannot be read matches. */
export function matches(value: string, pattern: string): boolean {
  // The cost of compiling and matching.
  spend(pattern.length * (16 + value.length / 8));
  try {
    return re2().compile(pattern).matcher(value).find();
  } catch {
    return true;
  }
}

function fitsNumber(value: number, schema: Keywords): boolean {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf: step } = schema;
  if (typeof minimum === "number" && value < minimum) return false;
  if (typeof maximum === "number" && value > maximum) return false;
  if (typeof above === "number" && value <= above) return false;
  if (typeof below === "number" && value >= below) return false;
  if (typeof step !== "number") return true;
  const times = value / step;
  return Math.abs(times - Math.round(times)) < 1e-8;
}

function fitsArray(value: readonly Json[], schema: Keywords, root: Schema): boolean {
  if (value.length < numberOr(schema.minItems, 0) || value.length > numberOr(schema.maxItems, Number.POSITIVE_INFINITY))
    return false;
  if (schema.uniqueItems === true) {
    spend((value.length * value.length) / 2);
    if (value.some((item, i) => value.slice(0, i).some((other) => sameJson(item, other)))) return false;
  }
  const first = schemas(schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []));
  const rest = asSchema(Array.isArray(schema.items) ? schema.additionalItems : schema.items);
  if (!value.every((item, i) => fits(item, first[i] ?? rest, root))) return false;
  if (schema.contains === undefined) return true;
  const found = value.filter((item) => fits(item, asSchema(schema.contains), root)).length;
  return found >= numberOr(schema.minContains, 1) && found <= numberOr(schema.maxContains, Number.POSITIVE_INFINITY);
}

function fitsObject(value: JsonObject, schema: Keywords, root: Schema): boolean {
  if (value.size < numberOr(schema.minProperties, 0)) return false;
  if (value.size > numberOr(schema.maxProperties, Number.POSITIVE_INFINITY)) return false;
  if ([schema.required ?? []].flat().some((key) => !value.has(key as string))) return false;
  const declared = properties(schema.properties);
  const byPattern = properties(schema.patternProperties);
  spend(declared.size + byPattern.size);
  for (const [key, item] of value) {
    const named = declared.get(key);
    const matching = [...byPattern].filter(([pattern]) => matches(key, pattern)).map(([, part]) => part);
    const all = [...(named === undefined ? [] : [named]), ...matching];
    if (all.length === 0) all.push(asSchema(schema.additionalProperties));
    if (!all.every((part) => fits(item, part, root))) return false;
    if (schema.propertyNames !== undefined && !fits(key, asSchema(schema.propertyNames), root)) return false;
  }
  return [...properties(schema.dependentSchemas)].every(([key, part]) => !value.has(key) || fits(value, part, root));
}
