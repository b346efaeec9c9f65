/**
 * The fields of requests of OpenAI's Responses API. Of the items of `input` only the members that are used are checked, because
 * their union has some forty types. Sources: vLLM 0.33, `entrypoints/openai/responses/protocol.py`, and openai 3.52.
 */
import { badRequest, refuseValue } from "../../openai/request/errors.ts";
import * as shared from "../../openai/request/shared-fields.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { model, optional, required, union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
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

/** Types of the items of `input` by their `type`, with the members that are used. */
const ITEMS: Readonly<Record<string, t.Type<PythonDict>>> = {
  function_call: model("ResponseFunctionToolCall", {
    arguments: required(t.text),
    call_id: required(t.text),
    name: required(t.text),
  }),
  function_call_output: model("FunctionCallOutput", {
    call_id: required(t.text),
    output: required(union<unknown>(t.text, t.list(t.object))),
  }),
  custom_tool_call: model("ResponseCustomToolCall", {
    call_id: required(t.text),
    input: required(t.text),
    name: required(t.text),
  }),
  custom_tool_call_output: model("ResponseCustomToolCallOutput", {
    call_id: required(t.text),
    output: required(union<unknown>(t.text, t.list(t.object))),
  }),
  reasoning: model("ResponseReasoningItem", {
    summary: required(t.list(model("Summary", { text: required(t.text) }))),
    content: optional(t.nullable(t.list(model("Content", { text: required(t.text) })))),
    encrypted_content: optional(t.textOrNull),
  }),
};
const message = model("EasyInputMessageParam", {
  role: required(t.literal("user", "assistant", "system", "developer")),
  content: required(union<unknown>(t.text, t.list(t.object))),
});

const item: t.Type<PythonDict> = {
  name: "item",
  schema: { anyOf: [message.schema, ...Object.values(ITEMS).map(({ schema }) => schema)] },
  check(value, state) {
    if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
    const type = get(value, "type");
    return (ITEMS[type as string] ?? (type === undefined || type === "message" ? message : t.object)).check(
      value,
      state,
    );
  },
};

const summary = optional(t.nullable(t.literal("auto", "concise", "detailed")));
const reasoning = model("Reasoning", {
  context: optional(t.nullable(t.literal("auto", "current_turn", "all_turns"))),
  effort: optional(t.nullable(shared.effort)),
  generate_summary: summary,
  mode: optional(t.textOrNull),
  summary,
});

const format = union<PythonDict>(
  model("ResponseFormatText", { type: required(t.literal("text")) }),
  model("ResponseFormatTextJSONSchemaConfig", {
    name: required(t.text),
    schema_: required(t.object, "schema"),
    type: required(t.literal("json_schema")),
    description: optional(t.textOrNull),
    strict: optional(t.boolOrNull),
  }),
  model("ResponseFormatJSONObject", { type: required(t.literal("json_object")) }),
);
const textConfig = model("ResponseTextConfig", {
  format: optional(t.nullable(format)),
  verbosity: optional(t.nullable(t.literal("low", "medium", "high"))),
});

const functionTool = model("FunctionTool", {
  name: required(t.text),
  parameters: optional(t.nullable(t.object)),
  strict: optional(t.boolOrNull),
  type: required(t.literal("function")),
  description: optional(t.textOrNull),
});
const tool: t.Type<PythonDict> = {
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
  t.literal("none", "auto", "required"),
  model("ToolChoiceAllowed", {
    mode: required(t.literal("auto", "required")),
    tools: required(t.list(t.object)),
    type: required(t.literal("allowed_tools")),
  }),
  model("ToolChoiceFunction", { name: required(t.text), type: required(t.literal("function")) }),
);

const penalty: t.Type<number | null> = {
  name: "number from -2 to 2, null",
  schema: { anyOf: [{ type: "number", minimum: -2, maximum: 2 }, { type: "null" }] },
  check(value, state) {
    const result = t.floatOrNull.check(value, state);
    if (result === t.FAIL || result === null) return result;
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

export const responsesFields = {
  background: field(t.boolOrNull, false),
  include: field(
    t.nullable(
      t.list(
        t.literal(
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
  input: { type: union<string | PythonDict[]>(t.text, t.list(item)) },
  instructions: field(t.textOrNull, null),
  max_output_tokens: field(t.intOrNull, null),
  max_tool_calls: field(t.intOrNull, null),
  metadata: field(t.nullable(t.dict(t.text)), null),
  model: field(t.textOrNull, null),
  logit_bias: field(t.nullable(t.dict(t.float)), null),
  parallel_tool_calls: field(t.boolOrNull, true),
  previous_response_id: field(t.textOrNull, null),
  prompt: field(t.nullable(t.object), null),
  reasoning: field(t.nullable(reasoning), null),
  include_reasoning: field(t.bool, true),
  service_tier: field<string>(t.literal("auto", "default", "flex", "scale", "priority"), "auto"),
  store: field(t.boolOrNull, true),
  stream: field(t.boolOrNull, false),
  temperature: field(t.floatOrNull, null),
  text: field(t.nullable(textConfig), null),
  tool_choice: field<string | PythonDict>(toolChoice, "auto"),
  tools: field<PythonDict[]>(t.list(tool), []),
  top_logprobs: field(shared.topLogprobs, 0),
  top_p: field(t.floatOrNull, null),
  top_k: field(t.intOrNull, null),
  min_p: field(t.floatOrNull, null),
  truncation: field<string | null>(t.nullable(t.literal("auto", "disabled")), "disabled"),
  user: field(t.textOrNull, null),
  skip_special_tokens: field(t.boolOrNull, null),
  spaces_between_special_tokens: field(t.bool, true),
  include_stop_str_in_output: field(t.bool, false),
  presence_penalty: field(penalty, null),
  frequency_penalty: field(penalty, null),
  prompt_cache_key: field(t.textOrNull, null),
  prompt_cache_options: field(
    t.nullable(
      model("PromptCacheOptionsParam", {
        mode: optional(t.literal("implicit", "explicit")),
        ttl: optional(t.literal("30m")),
        comparison_response_id: optional(t.textOrNull),
        prewarm: optional(t.boolOrNull),
      }),
    ),
    null,
  ),
  prompt_cache_retention: field(t.nullable(t.literal("in_memory", "24h", "in-memory")), null),
  safety_identifier: field(t.textOrNull, null),
  watermarking: field(t.boolOrNull, null),
  request_id: field<string | null>(t.text, null),
  session_id: field(t.textOrNull, null),
  media_io_kwargs: field(t.nullable(t.dict(t.object)), null),
  mm_processor_kwargs: field(t.nullable(t.object), null),
  priority: field<Int>(t.int(shared.INT64_RANGE), 0),
  ...shared.media,
  cache_salt: field(t.textOrNull, null),
  enable_response_messages: field(t.bool, false),
  previous_input_messages: field(t.nullable(t.list(t.object)), null),
  structured_outputs: field(t.nullable(t.object), null),
  repetition_penalty: field(t.floatOrNull, null),
  seed: field(shared.seed, null),
  stop: field<string | string[] | null>(shared.stop, []),
  stop_token_ids: field<Int[] | null>(t.tokenIds, []),
  ignore_eos: field(t.bool, false),
  vllm_xargs: field(shared.freeArguments, null),
  ...shared.transfer,
  chat_template_kwargs: field(t.nullable(t.object), null),
} as const;

/** Applies vLLM's validators of the raw body, in reverse order of definition. They may change it. Throws `RefusedRequest`. */
export function applyResponsesRules(body: PythonDict): void {
  checkTools(body);
  if (truthy(get(body, "prompt"))) refuseValue("prompt template is not supported", "prompt");
  if (truthy(get(body, "background")) && !truthy(get(body, "store") ?? true))
    refuseValue("background can only be used when `store` is true", "background");
}

function checkTools(body: PythonDict): void {
  const tools = get(body, "tools");
  if (!isList(tools) && tools !== undefined && tools !== null && typeof tools !== "string" && !isDict(tools))
    refuse(badRequest(`object of type '${typeName(tools)}' has no len()`));
  const choice = get(body, "tool_choice") ?? "auto";
  const named = isDict(choice) && get(choice, "type") === "function";
  const missing = (): never => refuseValue("Tool choice 'function' not found in 'tools' parameter.", "tool_choice");
  if (!isList(tools) || tools.length === 0) {
    if (choice === "auto" || choice === "none") set(body, "tool_choice", "none");
    else if (choice === "required")
      refuseValue("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice");
    else if (named) missing();
  } else if (named) {
    const name = get(choice as PythonDict, "name");
    if (!tools.some((tool) => isDict(tool) && get(tool, "name") === name) || !truthy(name)) missing();
  }
}
