/**
 * Declares the request fields of Triton's OpenAI front end like its pydantic models (`schemas/openai.py`, 2026). Unknown fields
 * are errors. The answer to errors is FastAPI's 422 with all of them.
 */
import { PythonJsonError, parsePython } from "../../pydantic/json.ts";
import { optional, record, required, typedDict, union } from "../../pydantic/structures.ts";
import {
  anything,
  bool,
  dict,
  enumeration,
  FAIL,
  float,
  int,
  list,
  literal,
  nullable,
  object,
  State,
  type Type,
  text,
} from "../../pydantic/types.ts";
import { isDict, keysOf, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";

/** The type `confloat(ge=…, le=…)`. */
function between(ge: number, le: number): Type<number> {
  return {
    name: `number from ${ge} to ${le}`,
    schema: { type: "number", minimum: ge, maximum: le },
    check(value, state) {
      const number = float.check(value, state);
      if (number === FAIL) return FAIL;
      if (number < ge)
        return state.fail("greater_than_equal", `Input should be greater than or equal to ${ge}`, value, { ge });
      if (number > le)
        return state.fail("less_than_equal", `Input should be less than or equal to ${le}`, value, { le });
      return number;
    },
  };
}

/** A list with at least one item. */
function some<T>(items: Type<T[]>): Type<T[]> {
  return {
    ...items,
    check(value, state) {
      const checked = items.check(value, state);
      if (checked === FAIL || checked.length > 0) return checked;
      const message = "List should have at least 1 item after validation, not 0";
      return state.fail("too_short", message, value, { field_type: "List", min_length: 1, actual_length: 0 });
    },
  };
}

const INT64 = { ge: -(2n ** 63n), le: 2n ** 63n - 1n };
const count = nullable(int({ ge: 0 }));
const words = union<string | string[]>({ type: text, label: "str" }, { type: list(text), label: "list[str]" });
const part = union<PythonDict>(
  typedDict("text part", { type: required(enumeration("text")), text: required(text) }),
  typedDict("image part", { type: required(enumeration("image_url")), image_url: required(object) }),
);
const needed = required(text);
const is = (role: string) => required(enumeration(role));
const messageOf = (name: string, fields: Parameters<typeof typedDict>[1]) => ({
  type: typedDict(name.toLowerCase(), fields),
  label: `ChatCompletionRequest${name}Message`,
});
const message = union<PythonDict>(
  messageOf("System", { content: needed, role: is("system") }),
  messageOf("User", { content: required(union<string | PythonDict[]>(text, list(part))), role: is("user") }),
  messageOf("Assistant", {
    content: optional(nullable(text)),
    role: is("assistant"),
    tool_calls: optional(nullable(list(object))),
  }),
  messageOf("Tool", { role: is("tool"), content: needed, tool_call_id: needed }),
  messageOf("Function", { role: is("function"), content: needed, name: needed }),
);
const functionObject = typedDict("FunctionObject", { name: required(text), parameters: optional(nullable(object)) });
const tool = typedDict("ChatCompletionTool", { type: required(text), function: required(functionObject) });
const toolChoice = union<string | PythonDict>(
  { type: enumeration("none", "auto", "required"), label: "ChatCompletionToolChoiceOption1" },
  {
    type: typedDict("named", { type: required(text), function: required(typedDict("f", { name: required(text) })) }),
    label: "ChatCompletionNamedToolChoice",
  },
);

interface FieldDeclaration {
  readonly type: Type<unknown>;
  /** Default value, or undefined for a required field. */
  readonly otherwise?: unknown;
}
const declared = (type: Type<unknown>, otherwise: unknown = null): FieldDeclaration => ({ type, otherwise });

/** Fields of both chats and completions. `temperature`: its default. */
const sampling = (temperature: number) => ({
  frequency_penalty: declared(nullable(between(-2, 2)), 0),
  ignore_eos: declared(nullable(bool), false),
  logit_bias: declared(nullable(dict(int()))),
  max_tokens: declared(count),
  min_tokens: declared(count),
  n: declared(nullable(int({ ge: 1, le: 128 })), 1),
  presence_penalty: declared(nullable(between(-2, 2)), 0),
  seed: declared(nullable(int(INT64))),
  stop: declared(nullable(words)),
  stream: declared(nullable(bool), false),
  stream_options: declared(nullable(record("StreamOptions", { include_usage: optional(nullable(bool)) }))),
  temperature: declared(nullable(between(0, 2)), temperature),
  top_p: declared(nullable(between(0, 1)), 1),
  user: declared(nullable(text)),
});

export const CHAT: Readonly<Record<string, FieldDeclaration>> = {
  messages: { type: some(list(message)) },
  model: { type: text },
  ...sampling(0.7),
  logprobs: declared(nullable(bool), false),
  top_logprobs: declared(nullable(int({ ge: 0, le: 20 }))),
  max_completion_tokens: declared(count),
  response_format: declared(nullable(record("ResponseFormat", { type: optional(enumeration("text", "json_object")) }))),
  tools: declared(nullable(list(tool))),
  tool_choice: declared(nullable(toolChoice)),
  function_call: declared(anything),
  functions: declared(nullable(some(list(object)))),
};

export const COMPLETION: Readonly<Record<string, FieldDeclaration>> = {
  model: { type: text },
  prompt: {
    type: union<unknown>(
      { type: text, label: "str" },
      { type: list(text), label: "list[str]" },
      { type: list(int()), label: "list[int]" },
      { type: list(list(anything)), label: "list[PromptItem]" },
    ),
  },
  ...sampling(1),
  best_of: declared(nullable(int({ ge: 0, le: 20 })), 1),
  echo: declared(nullable(bool), false),
  logprobs: declared(nullable(int({ ge: 0, le: 5 }))),
  suffix: declared(nullable(text)),
};

export const EMBEDDING: Readonly<Record<string, FieldDeclaration>> = {
  input: { type: union<unknown>({ type: text, label: "str" }, { type: list(int()), label: "list[int]" }) },
  model: { type: text },
  dimensions: declared(nullable(int())),
  encoding_format: declared(literal("float", "base64"), "float"),
  user: declared(nullable(text)),
};

export type OpenAiBody = Readonly<Record<string, unknown>>;

/** A validation error. `detail`: the objects in the answer. */
export class Unprocessable {
  constructor(readonly detail: readonly object[]) {}
}

/** Validates a body and fills in the defaults. Throws `Unprocessable`. */
export function readOpenAi(bytes: Uint8Array, fields: Readonly<Record<string, FieldDeclaration>>): OpenAiBody {
  const body = parsed(bytes);
  const state = new State(true);
  if (!isDict(body)) {
    const message = "Input should be a valid dictionary or object to extract fields from";
    state.fail("model_attributes_type", message, body);
    throw unprocessable(state);
  }
  const given = new Map(keysOf(body).map((name) => [name, body instanceof Map ? body.get(name)! : body[name]!]));
  const values: Record<string, unknown> = {};
  for (const [name, { type, otherwise }] of Object.entries(fields)) {
    const value = given.get(name);
    const before = state.count;
    if (value !== undefined) values[name] = type.check(value, state);
    else if (otherwise === undefined) state.fail("missing", "Field required", body);
    else values[name] = otherwise;
    state.prefix(before, name);
  }
  for (const [name, value] of given) {
    if (Object.hasOwn(fields, name)) continue;
    const before = state.count;
    state.fail("extra_forbidden", "Extra inputs are not permitted", value);
    state.prefix(before, name);
  }
  if (state.count > 0) throw unprocessable(state);
  return values;
}

function parsed(bytes: Uint8Array): PythonValue {
  if (bytes.length === 0) throw new Unprocessable([entry("missing", [], "Field required", null)]);
  try {
    return parsePython(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    if (!(error instanceof PythonJsonError))
      throw new Unprocessable([entry("json_invalid", [0], "JSON decode error", {})]);
    const { message, position } = error;
    throw new Unprocessable([
      { ...entry("json_invalid", [position], "JSON decode error", {}), ctx: { error: message } },
    ]);
  }
}

const entry = (type: string, loc: readonly (string | number)[], msg: string, input: PythonValue) => ({
  type,
  loc: ["body", ...loc],
  msg,
  input: toPlain(input),
});

const unprocessable = ({ errors }: State): Unprocessable =>
  new Unprocessable(
    errors!.map(({ type, loc, message: said, input, context }) => ({
      ...entry(type, loc, said, input),
      ...(context ? { ctx: toPlain(context) } : {}),
    })),
  );
