/** JSON values as they are drawn: objects are maps, so that keys keep their order, and their text as models write it. */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

const listedValues = new WeakSet<object>();

/** A value that the schema gives as a whole (`const`, `enum`): XGrammar takes it only without blanks. */
export function listedValue(value: unknown): Json {
  const out = fromPlain(value);
  if (typeof out === "object" && out !== null) listedValues.add(out);
  return out;
}

/** With a blank after commas and colons, but in values that the schema lists. */
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

/** What `JSON.parse` gives, as it is drawn here. */
export function fromPlain(value: unknown): Json {
  if (Array.isArray(value)) return value.map(fromPlain);
  if (typeof value === "object" && value !== null)
    return new Map(Object.entries(value).map(([key, item]) => [key, fromPlain(item)]));
  return value as Json;
}

/** Equal as JSON Schema has it: the order of keys does not count. */
export function sameJson(a: Json, b: Json): boolean {
  if (a instanceof Map && b instanceof Map)
    return a.size === b.size && [...a].every(([key, item]) => b.has(key) && sameJson(item, b.get(key)!));
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => sameJson(item, b[i]));
  return a === b;
}
