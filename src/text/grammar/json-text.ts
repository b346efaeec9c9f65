/** JSON values that are drawn, and their text as models write it. Objects are maps, so that keys keep their order. */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

const listedValues = new WeakSet<object>();

/** Converts a value from `const` or `enum`. It is written without spaces, because XGrammar accepts no others. */
export function listedValue(value: unknown): Json {
  const out = fromPlain(value);
  if (typeof out === "object" && out !== null) listedValues.add(out);
  return out;
}

/** Returns the text of a value, with a space after commas and colons, except in values from `const` or `enum`. */
export function jsonText(value: Json): string {
  if (typeof value === "object" && value !== null && listedValues.has(value)) return compact(value);
  if (value instanceof Map)
    return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}: ${jsonText(item)}`).join(", ")}}`;
  if (Array.isArray(value)) return `[${value.map(jsonText).join(", ")}]`;
  return JSON.stringify(value);
}

function compact(value: Json): string {
  if (value instanceof Map)
    return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}:${compact(item)}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map(compact).join(",")}]`;
  return JSON.stringify(value);
}

/** Converts a value of `JSON.parse`. */
export function fromPlain(value: unknown): Json {
  if (Array.isArray(value)) return value.map(fromPlain);
  if (typeof value === "object" && value !== null)
    return new Map(Object.entries(value).map(([key, item]) => [key, fromPlain(item)]));
  return value as Json;
}

/** Reports whether values are equal in the sense of JSON Schema, which ignores the order of keys. */
export function sameJson(a: Json, b: Json): boolean {
  if (a instanceof Map && b instanceof Map)
    return a.size === b.size && [...a].every(([key, item]) => b.has(key) && sameJson(item, b.get(key)!));
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => sameJson(item, b[i]));
  return a === b;
}
