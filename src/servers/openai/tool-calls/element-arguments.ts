/**
 * Reads raw arguments as MiniMax M3 writes them: elements by the names of parameters, which may hold others. A marker stands in
 * front of each tag. Source: vLLM 0.33, `parser/minimax_m3.py`.
 */
import type { PythonValue } from "../../pydantic/value.ts";
import { coerced, type Properties, schemaTypes } from "./argument-types.ts";

export const NAMESPACE = "]<]minimax[>[";
const START = `${NAMESPACE}<`;
const DEPTH_MOST = 128;
/** The name of text that stands between child elements. */
const MIXED = "$text";

/** The text of an element, or its children in their order. */
type Content = string | readonly Child[];
type Child = readonly [name: string, content: Content];

/** Reading stops at the first element that is malformed or has not ended. */
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

/** A name that stands several times gives a list. */
function objectOf(children: readonly Child[], schema: Keywords | null): Map<string, PythonValue> {
  const properties = keywordsOf(schema?.properties) ?? {};
  const made = new Map<string, PythonValue[]>();
  for (const [name, content] of children) {
    const own = Object.hasOwn(properties, name) ? properties[name] : schema?.additionalProperties;
    made.set(name, [...(made.get(name) ?? []), converted(content, own)]);
  }
  return new Map([...made].map(([name, values]) => [name, values.length === 1 ? values[0]! : values]));
}

function converted(content: Content, schema: unknown): PythonValue {
  const keywords = keywordsOf(schema);
  const container = keywords && containerOf(keywords);
  if (typeof content === "string") {
    if (keywords === null) return content;
    // The chat template renders an empty list or object as an empty element.
    if (container && content.trim() === "" && !schemaTypes(keywords).has("string"))
      return container.kind === "array" ? [] : new Map();
    return coerced(content, keywords);
  }
  if (container?.kind === "array") return content.map(([, child]) => converted(child, container.schema.items));
  return objectOf(content, container?.schema ?? null);
}

/** The first list or object among the alternatives of a schema. */
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
