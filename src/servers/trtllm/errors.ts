/**
 * Writes error bodies of trtllm-serve. Errors of the server and its engine are flat objects. If a body does not fit the schema,
 * the error is Python's printed list of pydantic errors (`openai_server.py`, version 1.3).
 */

import type { ErrorAnswer } from "../pydantic/refusals.ts";
import { repr } from "../pydantic/repr.ts";
import type { LineError } from "../pydantic/types.ts";
import { inputSummary } from "../pydantic/validate.ts";
import { get, isDict, isList, keysOf, type PythonDict, type PythonValue } from "../pydantic/value.ts";

export function flatError(message: string, type = "BadRequestError", code = 400): ErrorAnswer {
  return { status: code, body: JSON.stringify({ object: "error", message, type, param: null, code }) };
}

export function schemaErrors(errors: readonly LineError[]): ErrorAnswer {
  return schemaError(`[${errors.map(entry).join(", ")}]`);
}

/** Returns the error of a validator that checks the body as a whole. */
export function bodyError(message: string, body: PythonDict): ErrorAnswer {
  const text = `Value error, ${message}`;
  return schemaErrors([{ type: "value_error", loc: ["body"], message: text, input: body, raised: message }]);
}

const schemaError = (text: string): ErrorAnswer => ({ status: 400, body: JSON.stringify({ error: text }) });

function entry({ type, loc, message, input, context, raised }: LineError): string {
  const more = context === undefined ? "" : `, 'ctx': ${repr(new Map(Object.entries(context)))}`;
  const shown = leftOf(INPUT_MOST, input) < 0 ? inputSummary(input) : input;
  const error = raised === undefined ? more : `, 'ctx': {'error': ValueError(${repr(raised)})}`;
  return `{'type': ${repr(type)}, 'loc': ${tuple(loc)}, 'msg': ${repr(message)}, 'input': ${repr(shown)}${error}}`;
}

/**
 * The answer to a body that is not a JSON object. The real server does not catch the exception of its validators (FastAPI
 * 0.121, pydantic 2).
 */
export const uncaught: ErrorAnswer = {
  status: 500,
  body: "Internal Server Error",
  headers: { "content-type": "text/plain; charset=utf-8" },
};

/** Largest input that an error message quotes, in items plus characters. Printing a larger input would take too long. */
const INPUT_MOST = 10_000;

/** Returns the answer to a body that does not fit the table of fields. */
export function wrongFields(errors: readonly LineError[]): ErrorAnswer {
  if (errors[0]!.type === "model_attributes_type" && errors[0]!.loc.length === 1) return uncaught;
  return schemaErrors(errors);
}

/** Subtracts the items and characters of `value` from `most`. The result is negative if the value is larger. */
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

/** Converts an error from vLLM's form. Lists of pydantic errors are printed as Python prints them, other errors become flat. */
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

/**
 * Rewrites a printed pydantic error as Python prints it. `loc` becomes a tuple, while vLLM joins its parts by dots. The inputs
 * `{}` and `None` lose their quotes.
 */
function withTuple(line: string): string {
  return line
    .replace("'input': '<dict of 0 items>'", "'input': {}")
    .replace("'input': 'None'", "'input': None")
    .replace(/'loc': '([^']*)'/, (_, loc: string) => {
      return `'loc': ${tuple(loc.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part)))}`;
    });
}
