/** Helpers of the parsers that find tool calls in the text of a model: results, deltas, schemas, partial tags and JSON. */
import { parsePython } from "../../pydantic/json.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import type { CallDelta, ExtractedCalls, ToolUse } from "./output.ts";

/** Returns the result of a parser that found no calls in a complete text: the text is the content. */
export const noCalls = (text: string): ExtractedCalls => ({ called: false, calls: [], content: text });

/** Adds a delta to `calls`. If `calls` has a delta of the same call, appends the arguments to it. */
export function addCall(calls: CallDelta[], delta: CallDelta): void {
  const same = calls.find(({ index }) => index === delta.index);
  if (same === undefined) calls.push(delta);
  else if (delta.arguments !== undefined) same.arguments = (same.arguments ?? "") + delta.arguments;
}

/** Returns the schemas of a tool's parameters, by parameter. Returns an empty object if the request has no tool of this name. */
export function propertiesOf({ tools }: ToolUse, name: string): Readonly<Record<string, unknown>> {
  const found = tools.find((tool) => tool.name === name)?.parameters as {
    readonly properties?: Readonly<Record<string, unknown>>;
  } | null;
  return found?.properties ?? {};
}

/** Returns how many characters at the end of `text` may be the beginning of `tag`. */
export function overlap(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--)
    if (text.endsWith(tag.slice(0, length))) return length;
  return 0;
}

/** Parses JSON. Returns undefined if it is malformed. */
export function pythonJsonIn(text: string): PythonValue | undefined {
  try {
    return parsePython(text);
  } catch {
    return undefined;
  }
}
