/**
 * What does an error of trtllm-serve look like? Flat where the server or its engine objects, a text of Python's where a body
 * does not fit the schema (`openai_server.py`, 1.3 line).
 */
import { repr } from "../python/repr.ts";
import type { ErrorAnswer } from "../python/request.ts";
import type { PythonDict, PythonValue } from "../python/value.ts";

export function flatError(message: string, type = "BadRequestError", code = 400): ErrorAnswer {
  return { status: code, body: JSON.stringify({ object: "error", message, type, param: null, code }) };
}

/** One of pydantic's errors. `raised`: the text of the ValueError behind it. */
export interface SchemaError {
  readonly type: string;
  readonly loc: readonly (string | number)[];
  readonly message: string;
  readonly input: PythonValue;
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

function entry({ type, loc, message, input, raised }: SchemaError): string {
  const context = raised === undefined ? "" : `, 'ctx': {'error': ValueError(${repr(raised)})}`;
  return `{'type': ${repr(type)}, 'loc': ${tuple(loc)}, 'msg': ${repr(message)}, 'input': ${repr(input)}${context}}`;
}

const tuple = (parts: readonly (string | number)[]) =>
  `(${parts.map((part) => repr(part)).join(", ")}${parts.length === 1 ? "," : ""})`;

/** A refusal as trtllm-serve writes it: vLLM's list of pydantic's errors is Python's list of them, the rest is flat. */
export function asTrtllm(error: ErrorAnswer): ErrorAnswer {
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

/** Python's `loc` is a tuple; vLLM joins its parts by dots. */
function withTuple(line: string): string {
  return line.replace(/'loc': '([^']*)'/, (_, loc: string) => {
    return `'loc': ${tuple(loc.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part)))}`;
  });
}
