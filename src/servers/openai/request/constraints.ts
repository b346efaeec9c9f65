/**
 * Checks structured outputs before a grammar is built: the checks of vLLM 0.33 (`sampling_params.py`,
 * `_validate_structured_outputs`) that need no grammar library. Errors inside a grammar are found later.
 */

import { atOnce } from "../../../base/pieces.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import { PythonJsonFailure, plainPieces } from "../../pydantic/json.ts";
import { tooDeep } from "../../pydantic/read-body.ts";
import { repr } from "../../pydantic/repr.ts";
import { get, isDict, isList, keysOf, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";
import { refuseValue } from "./errors.ts";

export type StructuredOutputs = ReadonlyMap<string, unknown>;

const CONSTRAINTS = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"];
const STRUCTURED_DEFAULTS: readonly (readonly [string, PythonValue])[] = [
  ["json", null],
  ["regex", null],
  ["choice", null],
  ["grammar", null],
  ["json_object", null],
  ["disable_any_whitespace", false],
  ["disable_additional_properties", false],
  ["whitespace_pattern", null],
  ["structural_tag", null],
  ["_backend", null],
  ["_backend_was_auto", false],
];

/** Throws `RefusedRequest` unless there is exactly one constraint, like vLLM's `StructuredOutputsParams.__post_init__`. */
export function checkOneConstraint(outputs: StructuredOutputs): void {
  const count = CONSTRAINTS.filter((name) => (outputs.get(name) ?? null) !== null).length;
  if (count === 1) return;
  const all = new Map(
    STRUCTURED_DEFAULTS.map(([name, value]) => [name, (outputs.get(name) as PythonValue | undefined) ?? value]),
  );
  const problem =
    count > 1
      ? "You can only use one kind of structured outputs constraint but multiple are specified"
      : "You must use one kind of structured outputs constraint but none are specified";
  refuseValue(`${problem}: ${repr(all)}`);
}

const MAX_NESTING = 64;
/** Levels of nesting that a structural tag adds around its schemas. */
const TAG_WRAPPER_NESTING = 16;

/**
 * Combines `structured_outputs` with `response_format`, which overrides it. Throws `RefusedRequest` if both together have more than one
 * constraint, or none.
 */
export function resolveConstraints(
  outputs: StructuredOutputs | null,
  format: PythonDict | null,
): StructuredOutputs | null {
  const type = format === null ? "text" : get(format, "type");
  if (format === null || type === "text") return outputs;
  const merged = new Map(outputs ?? []);
  if (type === "json_object") merged.set("json_object", true);
  else if (type === "json_schema") merged.set("json", get(get(format, "json_schema") as PythonDict, "schema") ?? null);
  else merged.set("structural_tag", JSON.stringify(toPlain(format)));
  checkOneConstraint(merged);
  return merged;
}

/** Most characters of a schema, grammar, expression or list of choices, without escapes. vLLM has no such limit. */
const CHARACTERS_MOST = 262_144;

/** Returns the form that the answer's text must have, or null if it is free. */
export function structureOf(constraints: StructuredOutputs | null): Structure | null {
  if (constraints === null) return null;
  const value = (name: string) => (constraints.get(name) ?? null) as PythonValue;
  const [json, regex, choice, grammar, tags] = ["json", "regex", "choice", "grammar", "structural_tag"].map(value);
  if (json !== null) return { kind: "json", schema: typeof json === "string" ? json : JSON.stringify(toPlain(json!)) };
  if (typeof regex === "string") return { kind: "regex", pattern: regex };
  if (isList(choice!)) return { kind: "choice", choices: choice as string[] };
  if (typeof grammar === "string") return { kind: "grammar", grammar };
  if (typeof tags === "string") return { kind: "tags", tags };
  return value("json_object") === true ? { kind: "object" } : null;
}

/** Returns the engine's message about the constraints, or null if it would now build the grammar. */
export function constraintError(constraints: StructuredOutputs | null): string | null {
  if (constraints === null) return null;
  const value = (name: string) => constraints.get(name) as PythonValue | undefined;
  const blank = (name: string) => typeof value(name) === "string" && (value(name) as string).trim() === "";
  const choice = value("choice");
  if (isList(choice) && choice.length === 0) return "Choice '[]' cannot be an empty list";
  // Ours, and checked first, because a megabyte should not be copied or searched on the event loop's thread.
  for (const name of ["json", "regex", "choice", "grammar", "structural_tag"])
    if (charactersLeft(value(name) ?? null, CHARACTERS_MOST) < 0)
      return `understudy: the constraint has more than ${CHARACTERS_MOST} characters`;
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

/**
 * Returns how many of `most` characters are left after a text, or after the JSON of another value. Stops at a negative number, so
 * that a huge value is not read to its end.
 */
function charactersLeft(value: PythonValue, most: number): number {
  if (typeof value === "string") return most - value.length;
  if (!isList(value) && !isDict(value)) return most - String(value).length;
  let left = most;
  for (const child of childrenOf(value)) {
    // Count three more characters for two quotes and a comma.
    left = charactersLeft(child, left - 3);
    if (left < 0) return left;
  }
  if (isDict(value)) for (const key of keysOf(value)) left -= key.length + 3;
  return left;
}

/** Reports whether `limit` objects or arrays are nested inside the schema, which may be JSON in a text. */
function nestsDeeper(schema: PythonValue | undefined, limit: number): boolean {
  if (schema === undefined) return false;
  if (typeof schema !== "string") return chains(schema, limit);
  try {
    // JSON.parse is slow for very deep texts. The other parser stops at the depth at which Python's does.
    return chains(tooDeep(schema) ? atOnce(plainPieces(schema)) : JSON.parse(schema), limit);
  } catch (failure) {
    return failure instanceof PythonJsonFailure;
  }
}

function chains(node: PythonValue, length: number): boolean {
  if (length === 0) return true;
  for (const child of childrenOf(node)) if ((isDict(child) || isList(child)) && chains(child, length - 1)) return true;
  return false;
}

function childrenOf(node: PythonValue): Iterable<PythonValue> {
  if (isList(node)) return node;
  if (node instanceof Map) return node.values();
  return isDict(node) ? Object.values(node) : [];
}
