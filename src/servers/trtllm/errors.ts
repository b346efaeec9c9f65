/**
 * What does an error of trtllm-serve look like? Flat where the server or its engine objects, a text of Python's where a body
 * does not fit the schema (`openai_server.py`, 1.3 line).
 */

import type { ErrorAnswer } from "../pydantic/refusals.ts";
import { repr } from "../pydantic/repr.ts";
import type { LineError } from "../pydantic/types.ts";
import { inputSummary } from "../pydantic/validate.ts";
import { get, isDict, isList, keysOf, type PythonDict, type PythonValue } from "../pydantic/value.ts";

export function flatError(message: string, type = "BadRequestError", code = 400): ErrorAnswer {
  return { status: code, body: JSON.stringify({ object: "error", message, type, param: null, code }) };
}

/** One of pydantic's errors. `raised`: the text of the ValueError behind it. */
export interface SchemaError {
  readonly type: string;
  readonly loc: readonly (string | number)[];
  readonly message: string;
  readonly input: PythonValue;
  readonly context?: Readonly<Record<string, PythonValue>>;
  readonly raised?: string;
}

export function schemaErrors(errors: readonly SchemaError[]): ErrorAnswer {
  return schemaError(`[${errors.map(entry).join(", ")}]`);
}

/** What a validator of the whole body raises. */
export function bodyError(message: string, body: PythonDict): ErrorAnswer {
  const text = `Value error, ${message}`;
  return schemaErrors([{ type: "value_error", loc: ["body"], message: text, input: body, raised: message }]);
}

const schemaError = (text: string): ErrorAnswer => ({ status: 400, body: JSON.stringify({ error: text }) });

function entry({ type, loc, message, input, context, raised }: SchemaError): string {
  const more = context === undefined ? "" : `, 'ctx': ${repr(new Map(Object.entries(context)))}`;
  const shown = leftOf(INPUT_MOST, input) < 0 ? inputSummary(input) : input;
  const error = raised === undefined ? more : `, 'ctx': {'error': ValueError(${repr(raised)})}`;
  return `{'type': ${repr(type)}, 'loc': ${tuple(loc)}, 'msg': ${repr(message)}, 'input': ${repr(shown)}${error}}`;
}

/** Nobody catches what validators of the whole body raise where it is no object (FastAPI 0.121, pydantic 2). */
export const uncaught: ErrorAnswer = {
  status: 500,
  body: "Internal Server Error",
  headers: { "content-type": "text/plain; charset=utf-8" },
};

/** Items and characters of the longest input that is shown: printing more takes too long. */
const INPUT_MOST = 10_000;

/** What does not fit the table of fields. */
export function wrongFields(errors: readonly LineError[]): ErrorAnswer {
  if (errors[0]!.type === "model_attributes_type" && errors[0]!.loc.length === 1) return uncaught;
  return schemaErrors(errors);
}

/** What is left of so much; below 0: the value has more. */
function leftOf(most: number, value: PythonValue): number {
  if (typeof value === "string") return most - value.length;
  let left = most - 1;
  if (!isList(value) && !isDict(value)) return left;
  for (const one of isList(value) ? value : keysOf(value)) {
    left = leftOf(left, one);
    if (isDict(value)) left = leftOf(left, get(value, one as string)!);
    if (left < 0) break;
  }
  return left;
}

const tuple = (parts: readonly (string | number)[]) =>
  `(${parts.map((part) => repr(part)).join(", ")}${parts.length === 1 ? "," : ""})`;

/** A refusal as trtllm-serve writes it: vLLM's list of pydantic's errors is Python's list of them, the rest is flat. */
export function asTrtllm(error: ErrorAnswer): ErrorAnswer {
  if (error.headers?.["content-type"] !== undefined) return error;
  const { error: given, object } = JSON.parse(error.body) as { error?: unknown; object?: string };
  if (object === "error" || typeof given !== "object" || given === null) return error;
  const { message, type } = given as { message: string; type: string };
  if (/^\d+ validation errors?:\n/.test(message)) {
    const entries = message
      .split("\n")
      .slice(1)
      .map((line) => line.trim());
    return schemaError(`[${entries.map(withTuple).join(", ")}]`);
  }
  return flatError(message.replace(/ \(parameter=.*\)$/s, ""), type, error.status);
}

/** Python's `loc` is a tuple; vLLM joins its parts by dots. What is said before any field is looked at has no input. */
function withTuple(line: string): string {
  return line
    .replace("'input': '<dict of 0 items>'", "'input': {}")
    .replace("'input': 'None'", "'input': None")
    .replace(/'loc': '([^']*)'/, (_, loc: string) => {
      return `'loc': ${tuple(loc.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part)))}`;
    });
}
