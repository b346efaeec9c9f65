/**
 * The fields of requests of OpenAI's Responses API. Of the items of `input` only the members that are used are checked, because
 * their union has some forty types. Sources: vLLM 0.33, `entrypoints/openai/responses/protocol.py`, and openai 3.52.
 */
import { badRequest, validationRefusal } from "../../openai/request/errors.ts";
import { RefusedRequest } from "../../pydantic/refusals.ts";
import { model, optional, required, union } from "../../pydantic/structures.ts";
import {
  bool,
  dict,
  FAIL,
  float,
  int,
  list,
  literal,
  nullable,
  object,
  type Type,
  text,
} from "../../pydantic/types.ts";
import { field } from "../../pydantic/validate.ts";
import {
  get,
  type Int,
  isDict,
  isList,
  type PythonDict,
  PythonFloat,
  set,
  truthy,
  typeName,
} from "../../pydantic/value.ts";

const INT64 = { ge: -(2n ** 63n), le: 2n ** 63n - 1n };
/** Most stop strings of a request: vLLM's VLLM_MAX_STOP_STRINGS. */
const MAX_STOP_STRINGS = 4;
const words = nullable(text);
const flag = nullable(bool);
const number = nullable(float);
const integer = nullable(int());

/** Types of the items of `input` by their `type`, with the members that are used. */
const ITEMS: Readonly<Record<string, Type<PythonDict>>> = {
  function_call: model("ResponseFunctionToolCall", {
    arguments: required(text),
    call_id: required(text),
    name: required(text),
  }),
  function_call_output: model("FunctionCallOutput", {
    call_id: required(text),
    output: required(union<unknown>(text, list(object))),
  }),
  custom_tool_call: model("ResponseCustomToolCall", {
    call_id: required(text),
    input: required(text),
    name: required(text),
  }),
  custom_tool_call_output: model("ResponseCustomToolCallOutput", {
    call_id: required(text),
    output: required(union<unknown>(text, list(object))),
  }),
  reasoning: model("ResponseReasoningItem", {
    summary: required(list(model("Summary", { text: required(text) }))),
    content: optional(nullable(list(model("Content", { text: required(text) })))),
    encrypted_content: optional(words),
  }),
};
const message = model("EasyInputMessageParam", {
  role: required(literal("user", "assistant", "system", "developer")),
  content: required(union<unknown>(text, list(object))),
});

const item: Type<PythonDict> = {
  name: "item",
  schema: { anyOf: [message.schema, ...Object.values(ITEMS).map(({ schema }) => schema)] },
  check(value, state) {
    if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
    const type = get(value, "type");
    return (ITEMS[type as string] ?? (type === undefined || type === "message" ? message : object)).check(value, state);
  },
};

const effort = literal("none", "minimal", "low", "medium", "high", "xhigh", "max");
const summary = optional(nullable(literal("auto", "concise", "detailed")));
const reasoning = model("Reasoning", {
  context: optional(nullable(literal("auto", "current_turn", "all_turns"))),
  effort: optional(nullable(effort)),
  generate_summary: summary,
  mode: optional(words),
  summary,
});

const format = union<PythonDict>(
  model("ResponseFormatText", { type: required(literal("text")) }),
  model("ResponseFormatTextJSONSchemaConfig", {
    name: required(text),
    schema_: required(object, "schema"),
    type: required(literal("json_schema")),
    description: optional(words),
    strict: optional(flag),
  }),
  model("ResponseFormatJSONObject", { type: required(literal("json_object")) }),
);
const textConfig = model("ResponseTextConfig", {
  format: optional(nullable(format)),
  verbosity: optional(nullable(literal("low", "medium", "high"))),
});

const functionTool = model("FunctionTool", {
  name: required(text),
  parameters: optional(nullable(object)),
  strict: optional(flag),
  type: required(literal("function")),
  description: optional(words),
});
const tool: Type<PythonDict> = {
  name: "tool",
  schema: { anyOf: [functionTool.schema, { type: "object", required: ["type"] }] },
  check(value, state) {
    if (!isDict(value) || get(value, "type") === "function") return functionTool.check(value, state);
    if (typeof get(value, "type") === "string") return value;
    return state.fail("union_tag_not_found", "Unable to extract tag using discriminator 'type'", value, {
      discriminator: "'type'",
    });
  },
};
const toolChoice = union<string | PythonDict>(
  literal("none", "auto", "required"),
  model("ToolChoiceAllowed", {
    mode: required(literal("auto", "required")),
    tools: required(list(object)),
    type: required(literal("allowed_tools")),
  }),
  model("ToolChoiceFunction", { name: required(text), type: required(literal("function")) }),
);

/** `top_logprobs`, in which null means 0. */
const topLogprobs: Type<Int> = {
  name: "integer, null",
  schema: nullable(int()).schema,
  check: (value, state) => (value === null ? 0 : int().check(value, state)),
};

const penalty: Type<number | null> = {
  name: "number from -2 to 2, null",
  schema: { anyOf: [{ type: "number", minimum: -2, maximum: 2 }, { type: "null" }] },
  check(value, state) {
    const result = number.check(value, state);
    if (result === FAIL || result === null) return result;
    if (result < -2)
      return state.fail("greater_than_equal", "Input should be greater than or equal to -2", value, {
        ge: new PythonFloat(-2),
      });
    if (result > 2)
      return state.fail("less_than_equal", "Input should be less than or equal to 2", value, {
        le: new PythonFloat(2),
      });
    return result;
  },
};
const scalar = () => union<string | Int>(text, int(), float);

export const responsesFields = {
  background: field(flag, false),
  include: field(
    nullable(
      list(
        literal(
          "code_interpreter_call.outputs",
          "computer_call_output.output.image_url",
          "file_search_call.results",
          "message.input_image.image_url",
          "message.output_text.logprobs",
          "reasoning.encrypted_content",
        ),
      ),
    ),
    null,
  ),
  input: { type: union<string | PythonDict[]>(text, list(item)) },
  instructions: field(words, null),
  max_output_tokens: field(integer, null),
  max_tool_calls: field(integer, null),
  metadata: field(nullable(dict(text)), null),
  model: field(words, null),
  logit_bias: field(nullable(dict(float)), null),
  parallel_tool_calls: field(flag, true),
  previous_response_id: field(words, null),
  prompt: field(nullable(object), null),
  reasoning: field(nullable(reasoning), null),
  include_reasoning: field(bool, true),
  service_tier: field<string>(literal("auto", "default", "flex", "scale", "priority"), "auto"),
  store: field(flag, true),
  stream: field(flag, false),
  temperature: field(number, null),
  text: field(nullable(textConfig), null),
  tool_choice: field<string | PythonDict>(toolChoice, "auto"),
  tools: field<PythonDict[]>(list(tool), []),
  top_logprobs: field(topLogprobs, 0),
  top_p: field(number, null),
  top_k: field(integer, null),
  min_p: field(number, null),
  truncation: field<string | null>(nullable(literal("auto", "disabled")), "disabled"),
  user: field(words, null),
  skip_special_tokens: field(flag, null),
  spaces_between_special_tokens: field(bool, true),
  include_stop_str_in_output: field(bool, false),
  presence_penalty: field(penalty, null),
  frequency_penalty: field(penalty, null),
  prompt_cache_key: field(words, null),
  prompt_cache_options: field(
    nullable(
      model("PromptCacheOptionsParam", {
        mode: optional(literal("implicit", "explicit")),
        ttl: optional(literal("30m")),
        comparison_response_id: optional(words),
        prewarm: optional(flag),
      }),
    ),
    null,
  ),
  prompt_cache_retention: field(nullable(literal("in_memory", "24h", "in-memory")), null),
  safety_identifier: field(words, null),
  watermarking: field(flag, null),
  request_id: field<string | null>(text, null),
  session_id: field(words, null),
  media_io_kwargs: field(nullable(dict(object)), null),
  mm_processor_kwargs: field(nullable(object), null),
  priority: field<Int>(int(INT64), 0),
  mm_payload: field<string>(literal("tensors", "none"), "tensors"),
  return_mm_kwargs: field(flag, null),
  cache_salt: field(words, null),
  enable_response_messages: field(bool, false),
  previous_input_messages: field(nullable(list(object)), null),
  structured_outputs: field(nullable(object), null),
  repetition_penalty: field(number, null),
  seed: field(nullable(int(INT64)), null),
  stop: field<string | string[] | null>(nullable(union<string | string[]>(text, list(text, MAX_STOP_STRINGS))), []),
  stop_token_ids: field<Int[] | null>(nullable(list(int())), []),
  ignore_eos: field(bool, false),
  vllm_xargs: field(nullable(dict(union<unknown>(scalar(), list(scalar())))), null),
  kv_transfer_params: field(nullable(object), null),
  ec_transfer_params: field(nullable(object), null),
  chat_template_kwargs: field(nullable(object), null),
} as const;

/** Applies vLLM's validators of the raw body, in reverse order of definition. They may change it. Throws `RefusedRequest`. */
export function applyResponsesRules(body: PythonDict): void {
  checkTools(body);
  if (truthy(get(body, "prompt"))) throw validationRefusal("prompt template is not supported", "prompt");
  if (truthy(get(body, "background")) && !truthy(get(body, "store") ?? true))
    throw validationRefusal("background can only be used when `store` is true", "background");
}

function checkTools(body: PythonDict): void {
  const tools = get(body, "tools");
  if (!isList(tools) && tools !== undefined && tools !== null && typeof tools !== "string" && !isDict(tools))
    throw new RefusedRequest(badRequest(`object of type '${typeName(tools)}' has no len()`));
  const choice = get(body, "tool_choice") ?? "auto";
  const named = isDict(choice) && get(choice, "type") === "function";
  const missing = () => validationRefusal("Tool choice 'function' not found in 'tools' parameter.", "tool_choice");
  if (!isList(tools) || tools.length === 0) {
    if (choice === "auto" || choice === "none") set(body, "tool_choice", "none");
    else if (choice === "required")
      throw validationRefusal("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice");
    else if (named) throw missing();
  } else if (named) {
    const name = get(choice as PythonDict, "name");
    if (!tools.some((tool) => isDict(tool) && get(tool, "name") === name) || !truthy(name)) throw missing();
  }
}
