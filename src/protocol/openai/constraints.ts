/**
 * What does the engine say of a structured output before its grammar is built? The checks of vLLM 0.33
 * (`sampling_params.py`, `_validate_structured_outputs`) that need no grammar library; what a grammar itself gets wrong is
 * not found here.
 */

import type { Structure } from "../../content/structured/structure.ts";
import { badRequest, Refused } from "../errors.ts";
import { get, isDict, isList, keysOf, type PythonDict, type PythonValue, toPlain } from "../python-value.ts";
import { checkOneConstraint, type StructuredOutputs } from "./field-types.ts";

const MAX_NESTING = 64;
/** A structural tag wraps its schemas in levels of its own. */
const TAG_WRAPPER_NESTING = 16;

/** `response_format` overrides `structured_outputs`; throws `Refused` when both together name two constraints or none. */
export function resolveConstraints(
  given: StructuredOutputs | null,
  format: PythonDict | null,
): StructuredOutputs | null {
  const type = format === null ? "text" : get(format, "type");
  if (format === null || type === "text") return given;
  const merged = new Map(given ?? []);
  if (type === "json_object") merged.set("json_object", true);
  else if (type === "json_schema") merged.set("json", get(get(format, "json_schema") as PythonDict, "schema") ?? null);
  else merged.set("structural_tag", JSON.stringify(toPlain(format)));
  checkOneConstraint(merged);
  return merged;
}

/** Longest schema, grammar or expression; vLLM has no such limit. */
const CHARACTERS_MOST = 262_144;

/** What the answer's text must be; null: anything. Throws `Refused` where it is longer than is taken here. */
export function structureOf(constraints: StructuredOutputs | null): Structure | null {
  if (constraints === null) return null;
  const value = (name: string) => (constraints.get(name) ?? null) as PythonValue;
  const [json, regex, choice, grammar, tags] = ["json", "regex", "choice", "grammar", "structural_tag"].map(value);
  if (json !== null)
    return { kind: "json", schema: short(typeof json === "string" ? json : JSON.stringify(toPlain(json!))) };
  if (typeof regex === "string") return { kind: "regex", pattern: short(regex) };
  if (isList(choice!)) return { kind: "choice", choices: choice as string[] };
  if (typeof grammar === "string") return { kind: "grammar", grammar: short(grammar) };
  if (typeof tags === "string") return { kind: "tags", tags: short(tags) };
  return value("json_object") === true ? { kind: "object" } : null;
}

function short(text: string): string {
  if (text.length <= CHARACTERS_MOST) return text;
  throw new Refused(
    badRequest(`understudy: the constraint has ${text.length} characters; at most ${CHARACTERS_MOST} are taken`),
  );
}

/** The engine's message, or null when it goes on to build the grammar. */
export function constraintError(constraints: StructuredOutputs | null): string | null {
  if (constraints === null) return null;
  const value = (name: string) => constraints.get(name) as PythonValue | undefined;
  const blank = (name: string) => typeof value(name) === "string" && (value(name) as string).trim() === "";
  const choice = value("choice");
  if (isList(choice) && choice.length === 0) return "Choice '[]' cannot be an empty list";
  if (blank("grammar")) return "structured_outputs.grammar cannot be an empty string";
  if (blank("json")) return "structured_outputs.json cannot be an empty string";
  if (
    nestsDeeper(value("json"), MAX_NESTING) ||
    nestsDeeper(value("structural_tag"), MAX_NESTING + TAG_WRAPPER_NESTING)
  )
    return `The JSON schema is nested too deeply: objects and arrays may nest at most ${MAX_NESTING} levels`;
  if (value("json_object") === false)
    return "structured_outputs.json_object must be True if set; omit structured_outputs to disable structured outputs";
  const regex = value("regex");
  if (typeof regex === "string" && regex.includes("\0"))
    return "structured_outputs.regex must not contain a NUL character ('\\x00')";
  return blank("structural_tag") ? "structured_outputs.structural_tag cannot be an empty string" : null;
}

function nestsDeeper(schema: PythonValue | undefined, limit: number): boolean {
  let level: PythonValue[] = [schema ?? null];
  if (typeof schema === "string")
    try {
      level = [JSON.parse(schema)];
    } catch {
      return false;
    }
  for (let depth = 0; depth < limit; depth++) {
    level = level.flatMap((node) => childrenOf(node).filter((child) => isDict(child) || isList(child)));
    if (level.length === 0) return false;
  }
  return true;
}

function childrenOf(node: PythonValue): readonly PythonValue[] {
  if (isList(node)) return node;
  return isDict(node) ? keysOf(node).map((key) => get(node, key) as PythonValue) : [];
}
