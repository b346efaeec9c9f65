/** Reads parts of JSON Schemas, resolves references, and merges schemas that must both hold into one. */
import { fromPlain, type Json, sameJson } from "./json-text.ts";
import { spend } from "./work.ts";

/** A JSON Schema. `true` fits all values, `false` none. */
export type Schema = boolean | Keywords;
export type Keywords = Readonly<Record<string, unknown>>;

/** Error for a schema that no value fits. */
export class Unsatisfiable extends Error {
  override readonly name = "Unsatisfiable";
}

export const TYPES = ["string", "integer", "number", "boolean", "object", "array", "null"] as const;
export type TypeName = (typeof TYPES)[number];

export function isKeywords(value: unknown): value is Keywords {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value as a schema. A value that is no schema fits all values. */
export function asSchema(value: unknown): Schema {
  return typeof value === "boolean" || isKeywords(value) ? value : true;
}

/** Returns a list of schemas, empty if the value is no list. */
export function schemas(value: unknown): readonly Schema[] {
  return Array.isArray(value) ? value.map(asSchema) : [];
}

/** Returns schemas by name, empty if the value is no object. */
export function properties(value: unknown): ReadonlyMap<string, Schema> {
  return new Map(isKeywords(value) ? Object.entries(value).map(([key, item]) => [key, asSchema(item)]) : []);
}

/** Returns the value if it is a number, else `absent`. */
export function numberOr(value: unknown, absent: number): number {
  return typeof value === "number" ? value : absent;
}

/** Returns the types that `type` allows. Without `type` all types if there is `const` or `enum`, else none. */
export function typesOf({ type, const: constant, enum: list }: Keywords): readonly TypeName[] {
  if (typeof type === "string" || Array.isArray(type)) {
    const known = [type].flat().filter((name): name is TypeName => TYPES.includes(name as TypeName));
    if (known.length > 0) return known;
  }
  return constant !== undefined || list !== undefined ? TYPES : [];
}

/** Types of values for schemas that leave the type open. */
const PLAIN_TYPES: readonly TypeName[] = ["string", "integer", "boolean"];

/** Keywords that imply a type. */
const IMPLIED: readonly (readonly [TypeName, readonly string[]])[] = [
  [
    "object",
    [
      "properties",
      "required",
      "additionalProperties",
      "patternProperties",
      "minProperties",
      "maxProperties",
      "propertyNames",
      "dependentRequired",
    ],
  ],
  ["array", ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]],
  ["string", ["pattern", "format", "minLength", "maxLength"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

/** Returns the types that the keywords of a schema without `type` imply. If they imply none, returns `PLAIN_TYPES`. */
export function impliedTypes(schema: Keywords): readonly TypeName[] {
  const found = IMPLIED.filter(([, keys]) => keys.some((key) => schema[key] !== undefined)).map(([type]) => type);
  return found.length > 0 ? found : PLAIN_TYPES;
}

/** Resolves a reference within the document. Returns undefined if it leads nowhere. */
export function pointed(root: Schema, reference: string): Schema | undefined {
  spend(1 + reference.length / 8);
  if (reference === "#") return root;
  if (!reference.startsWith("#")) return undefined;
  if (!reference.startsWith("#/")) return anchored(root, reference.slice(1), 0);
  let at: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
    at = typeof at === "object" && at !== null && Object.hasOwn(at, key) ? (at as Keywords)[key] : undefined;
  }
  return typeof at === "boolean" || isKeywords(at) ? at : undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function anchored(at: unknown, name: string, depth: number): Schema | undefined {
  spend();
  if (typeof at !== "object" || at === null || depth > 64) return undefined;
  if (isKeywords(at) && at.$anchor === name) return at;
  for (const item of Object.values(at)) {
    const found = anchored(item, name, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Keywords of which the larger value holds in a merged schema. */
const LARGER = new Set(["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"]);
/** Keywords of which the smaller value holds in a merged schema. */
const SMALLER = new Set(["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"]);
/** Keywords that the caller of `both` handles. */
const COMBINING = new Set(["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$defs", "definitions"]);

/** Merges two schemas that must both hold. Throws `Unsatisfiable` if they obviously exclude each other. */
export function both(a: Keywords, b: Keywords): Keywords {
  const merged: Record<string, unknown> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    if (COMBINING.has(key)) continue;
    merged[key] = merged[key] === undefined ? value : joined(key, merged[key], value);
  }
  const closedA = closed(a, b);
  const closedB = closed(b, a);
  if (closedA.length > 0 || closedB.length > 0)
    merged.properties = {
      ...(merged.properties as Keywords),
      ...Object.fromEntries([...closedA, ...closedB].map((key) => [key, false])),
    };
  return merged;
}

/** Returns the properties of `b` that `a` forbids. */
function closed(a: Keywords, b: Keywords): string[] {
  if (a.additionalProperties !== false || a.patternProperties !== undefined) return [];
  const declared = properties(a.properties);
  spend(declared.size);
  return [...properties(b.properties).keys()].filter((key) => !declared.has(key));
}

function joined(key: string, a: unknown, b: unknown): unknown {
  if (LARGER.has(key)) return Math.max(numberOr(a, Number.NEGATIVE_INFINITY), numberOr(b, Number.NEGATIVE_INFINITY));
  if (SMALLER.has(key)) return Math.min(numberOr(a, Number.POSITIVE_INFINITY), numberOr(b, Number.POSITIVE_INFINITY));
  switch (key) {
    case "type":
      return sharedTypes([a].flat() as string[], [b].flat() as string[]);
    case "required":
      spend([a].flat().length);
      return [...new Set([...[a].flat(), ...[b].flat()])];
    case "enum":
      return sharedValues([a].flat().map(fromPlain), [b].flat());
    case "properties":
    case "patternProperties":
      return sharedProperties(a, b);
    case "items":
    case "additionalProperties":
    case "propertyNames":
    case "contains":
      return bothOf(asSchema(a), asSchema(b));
    case "const":
      if (!sameJson(fromPlain(a), fromPlain(b))) throw new Unsatisfiable("two different constants");
      return a;
    case "multipleOf":
      return multiple(Number(a), Number(b));
    case "pattern":
      return a === b ? a : { both: [a, b].flatMap((pattern) => (isKeywords(pattern) ? pattern.both : pattern)) };
    case "uniqueItems":
      return a === true || b === true;
    default:
      return a;
  }
}

function bothOf(a: Schema, b: Schema): Schema {
  if (a === false || b === false) return false;
  if (a === true) return b;
  return b === true ? a : { allOf: [a, b] };
}

function sharedProperties(a: unknown, b: unknown): Keywords {
  const merged = new Map(properties(a));
  spend(merged.size);
  for (const [key, schema] of properties(b)) merged.set(key, bothOf(merged.get(key) ?? true, schema));
  return Object.fromEntries(merged);
}

function sharedTypes(a: readonly string[], b: readonly string[]): string[] {
  const shared = new Set<string>();
  for (const first of a)
    for (const second of b) {
      if (first === second) shared.add(first);
      if ([first, second].sort().join() === "integer,number") shared.add("integer");
    }
  if (shared.size === 0) throw new Unsatisfiable("incompatible types");
  return [...shared];
}

function sharedValues(a: readonly Json[], b: readonly unknown[]): unknown[] {
  spend(a.length * b.length);
  const left = b.filter((item) => a.some((other) => sameJson(other, fromPlain(item))));
  if (left.length === 0) throw new Unsatisfiable("enumerations have no common value");
  return left;
}

function multiple(a: number, b: number): number {
  const rest = (x: number, y: number): number => (y < 1e-9 ? x : rest(y, x % y));
  return (a * b) / rest(a, b);
}
