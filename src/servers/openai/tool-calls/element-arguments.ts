/**
 * Reads arguments in the format of MiniMax M3: elements named like the parameters, which may contain further elements. A marker
 * precedes each tag. Source: vLLM 0.33, `parser/minimax_m3.py`.
 */
import type { PythonValue } from "../../pydantic/value.ts";
import { coerce, type Properties, schemaTypes } from "./argument-types.ts";

/** The marker before each tag. */
export const NAMESPACE = "]<]minimax[>[";
const START = `${NAMESPACE}<`;
/** Largest depth of nested elements. Deeper arguments count as malformed. */
const DEPTH_MOST = 128;
/** Name of the member for text between child elements. */
const MIXED = "$text";

/** The text of an element, or its children in their order. */
type Content = string | readonly Child[];
type Child = readonly [name: string, content: Content];

/** Reads arguments up to the first element that is malformed or incomplete. */
export function elementArguments(raw: string, _open: boolean, properties: Properties): Map<string, PythonValue> {
  const children: Child[] = [];
  let at = raw.length - raw.trimStart().length;
  while (raw.startsWith(START, at)) {
    const found = elementAt(raw, at, 1);
    if (found === null) break;
    children.push([found.name, found.content]);
    at = found.end + (raw.slice(found.end).length - raw.slice(found.end).trimStart().length);
  }
  return objectOf(children, { properties });
}

/** Reads the element at `from`. Returns null if it is malformed, incomplete or too deeply nested. `end`: offset after it. */
function elementAt(
  text: string,
  from: number,
  depth: number,
): { readonly name: string; readonly content: Content; readonly end: number } | null {
  if (depth > DEPTH_MOST) return null;
  const nameEnd = text.indexOf(">", from + START.length);
  const name = text.slice(from + START.length, nameEnd);
  if (nameEnd < 0 || name.trim() === "" || name.startsWith("/")) return null;
  const close = `${NAMESPACE}</${name}>`;
  const children: Child[] = [];
  let between = "";
  let at = nameEnd + 1;
  for (;;) {
    const marker = text.indexOf(NAMESPACE, at);
    if (marker < 0) return null;
    between += text.slice(at, marker);
    if (text.startsWith(close, marker))
      return { name, content: contentOf(between, children), end: marker + close.length };
    const child = text.startsWith(START, marker) ? elementAt(text, marker, depth + 1) : null;
    if (child === null) return null;
    children.push([child.name, child.content]);
    at = child.end;
  }
}

/** Joins the children of an element and the text between them. */
function contentOf(text: string, children: readonly Child[]): Content {
  if (children.length === 0) return text;
  if (text.trim() === "") return children;
  let field = MIXED;
  while (children.some(([name]) => name === field)) field = `$${field}`;
  return [...children, [field, text]];
}

type Keywords = Readonly<Record<string, unknown>>;

const keywordsOf = (schema: unknown): Keywords | null =>
  typeof schema === "object" && schema !== null && !Array.isArray(schema) ? (schema as Keywords) : null;

/** Makes an object of elements. Elements with the same name become a list. */
function objectOf(children: readonly Child[], schema: Keywords | null): Map<string, PythonValue> {
  const properties = keywordsOf(schema?.properties) ?? {};
  const valuesByName = new Map<string, PythonValue[]>();
  for (const [name, content] of children) {
    const childSchema = Object.hasOwn(properties, name) ? properties[name] : schema?.additionalProperties;
    valuesByName.set(name, [...(valuesByName.get(name) ?? []), convert(content, childSchema)]);
  }
  return new Map([...valuesByName].map(([name, values]) => [name, values.length === 1 ? values[0]! : values]));
}

/** Converts an element's content to the type in its schema. */
function convert(content: Content, schema: unknown): PythonValue {
  const keywords = keywordsOf(schema);
  const container = keywords && containerOf(keywords);
  if (typeof content === "string") {
    if (keywords === null) return content;
    // The chat template renders an empty list or object as an empty element.
    if (container && content.trim() === "" && !schemaTypes(keywords).has("string"))
      return container.kind === "array" ? [] : new Map();
    return coerce(content, keywords);
  }
  if (container?.kind === "array") return content.map(([, child]) => convert(child, container.schema.items));
  return objectOf(content, container?.schema ?? null);
}

/** Returns the schema itself if it describes a list or an object, else the first of its alternatives that does. */
function containerOf(schema: Keywords): { readonly kind: "array" | "object"; readonly schema: Keywords } | null {
  const types = [schema.type].flat();
  for (const kind of ["array", "object"] as const) if (types.includes(kind)) return { kind, schema };
  if (schema.type === undefined || schema.type === null) {
    if ("items" in schema) return { kind: "array", schema };
    if ("properties" in schema || "additionalProperties" in schema) return { kind: "object", schema };
  }
  for (const field of ["anyOf", "oneOf"])
    for (const choice of [schema[field] ?? []].flat()) {
      const found = keywordsOf(choice) && containerOf(keywordsOf(choice)!);
      if (found) return found;
    }
  return null;
}
