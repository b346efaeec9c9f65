/** The fields of requests of Anthropic's Messages API. Source: vLLM 0.33, `entrypoints/anthropic/protocol.py`. */

import { model, optional, record, required, union } from "../../pydantic/structures.ts";
import {
  bool,
  type CheckResult,
  dict,
  FAIL,
  float,
  int,
  list,
  literal,
  nullable,
  object,
  type State,
  type Type,
  text,
} from "../../pydantic/types.ts";
import { field } from "../../pydantic/validate.ts";
import {
  codePoints,
  get,
  type Int,
  isDict,
  isList,
  type PythonDict,
  type PythonValue,
  truthy,
} from "../../pydantic/value.ts";

/** Most stop strings of a request: vLLM's VLLM_MAX_STOP_STRINGS. */
const MAX_STOP_STRINGS = 4;
/** Least `thinking.budget_tokens`. */
const LEAST_BUDGET = 1024;
/** Types of content blocks that change the list of tools. */
const CHANGES = ["tool_addition", "tool_removal"];

/** Adds a model's own validator to a type. `problemOf` returns the message of an error, or undefined if there is none. */
function checked<V>(type: Type<V>, problemOf: (value: PythonValue) => string | undefined): Type<V> {
  const validate = (result: CheckResult<V>, value: PythonValue, state: State) => {
    const problem = result === FAIL ? undefined : problemOf(value);
    return problem === undefined ? result : state.raise(problem, value);
  };
  return {
    name: type.name,
    schema: type.schema,
    check: (value, state) => validate(type.check(value, state), value, state),
    *pieces(value, state) {
      const result = type.pieces === undefined ? type.check(value, state) : yield* type.pieces(value, state);
      return validate(result, value, state);
    },
  };
}

/** A union whose branch is picked by the value's `type`. */
function tagged<V>(branches: Readonly<Record<string, Type<V>>>): Type<V> {
  const tags = Object.keys(branches);
  const tagList = tags.map((tag) => `'${tag}'`).join(", ");
  return {
    name: tags.join(" or "),
    schema: { anyOf: Object.values(branches).map(({ schema }) => schema) },
    check(value: PythonValue, state: State) {
      if (!isDict(value)) {
        const message = "Input should be a valid dictionary or object to extract fields from";
        return state.fail("model_attributes_type", message, value);
      }
      const tag = get(value, "type");
      if (tag === undefined)
        return state.fail("union_tag_not_found", "Unable to extract tag using discriminator 'type'", value, {
          discriminator: "'type'",
        });
      const branch = typeof tag === "string" ? branches[tag] : undefined;
      const before = state.count;
      if (branch === undefined) {
        const shown = typeof tag === "string" ? tag : String(tag);
        const message = `Input tag '${shown}' found using 'type' does not match any of the expected tags: ${tagList}`;
        return state.fail("union_tag_invalid", message, value, {
          discriminator: "'type'",
          tag: shown,
          expected_tags: tagList,
        });
      }
      const result = branch.check(value, state);
      if (result === FAIL) state.prefix(before, tag as string);
      return result;
    },
  };
}

const words = nullable(text);
const flag = nullable(bool);

const tool = model("AnthropicTool", {
  name: required(text),
  description: optional(words),
  input_schema: required(object),
  strict: optional(flag),
  defer_loading: optional(flag),
});

const toolChange = tagged({
  tool_reference: model("AnthropicToolChangeReference", {
    type: required(literal("tool_reference")),
    name: required(text),
  }),
  tool_definition: model("AnthropicToolChangeDefinition", {
    type: required(literal("tool_definition")),
    definition: required(tool),
  }),
});

const block = checked(
  model("AnthropicContentBlock", {
    type: required(
      literal(
        "text",
        "image",
        "tool_use",
        "tool_result",
        "tool_reference",
        "thinking",
        "redacted_thinking",
        "tool_addition",
        "tool_removal",
      ),
    ),
    text: optional(words),
    source: optional(nullable(object)),
    id: optional(words),
    tool_use_id: optional(words),
    name: optional(words),
    input: optional(nullable(object)),
    content: optional(nullable(union<unknown>(text, list(object)))),
    is_error: optional(flag),
    tool_name: optional(words),
    thinking: optional(words),
    signature: optional(words),
    data: optional(words),
    tool: optional(nullable(toolChange)),
  }),
  (value) => {
    const type = get(value as PythonDict, "type") as string;
    const change = get(value as PythonDict, "tool") ?? null;
    if (!CHANGES.includes(type)) return undefined;
    if (change === null) return `tool is required for ${type} blocks`;
    const reference = get(change as PythonDict, "type") === "tool_reference";
    return type === "tool_removal" && !reference ? "tool_removal only accepts a tool_reference" : undefined;
  },
);

/** Returns an error if the content has a block that changes the tools. Only system messages may have such blocks. */
function misplaced(content: PythonValue | undefined): string | undefined {
  if (!isList(content)) return undefined;
  const found = content.map((item) => get(item as PythonDict, "type") as string).find((type) => CHANGES.includes(type));
  return found && `${found} blocks are only allowed in messages with role "system"`;
}

const blocks = union<unknown>(text, list(block));

const message = checked(
  model("AnthropicMessage", { role: required(literal("user", "assistant", "system")), content: required(blocks) }),
  (value) =>
    get(value as PythonDict, "role") === "system" ? undefined : misplaced(get(value as PythonDict, "content")),
);

const toolChoice = checked(
  record("AnthropicToolChoice", {
    type: required(literal("auto", "any", "tool", "none")),
    name: optional(words),
    disable_parallel_tool_use: optional(flag),
  }),
  (value) =>
    get(value as PythonDict, "type") === "tool" && !truthy(get(value as PythonDict, "name"))
      ? "tool_choice.name is required when type is 'tool'"
      : undefined,
);

const display = optional(nullable(literal("summarized", "omitted", "updates")));
const thinking = tagged({
  enabled: record("AnthropicThinkingConfigEnabled", {
    type: required(literal("enabled")),
    budget_tokens: required(int({ ge: LEAST_BUDGET })),
    display,
  }),
  disabled: record("AnthropicThinkingConfigDisabled", { type: required(literal("disabled")) }),
  adaptive: record("AnthropicThinkingConfigAdaptive", { type: required(literal("adaptive")), display }),
});

const outputConfig = model("AnthropicOutputConfig", {
  effort: optional(nullable(literal("low", "medium", "high", "xhigh", "max"))),
  format: optional(
    nullable(
      model("AnthropicJsonOutputFormat", {
        json_schema: optional(nullable(object), "schema"),
        type: optional(literal("json_schema")),
      }),
    ),
  ),
});

/** The first fields of both routes. */
const shared = {
  model: { type: checked(text, (value) => (value === "" ? "Model is required" : undefined)) },
  messages: { type: list(message) },
} as const;
const choices = {
  thinking: field(nullable(thinking), null),
  system: field(nullable(checked(blocks, misplaced)), null),
  tool_choice: field(nullable(toolChoice), null),
  tools: field(nullable(list(tool)), null),
  output_config: field(nullable(outputConfig), null),
} as const;
const scalar = () => union<string | Int>(text, int(), float);

export const messagesFields = {
  ...shared,
  max_tokens: { type: checked(int(), (value) => (Number(value) <= 0 ? "max_tokens must be positive" : undefined)) },
  metadata: field(nullable(object), null),
  output_config: choices.output_config,
  thinking: choices.thinking,
  stop_sequences: field(nullable(list(text, MAX_STOP_STRINGS)), null),
  stream: field(flag, false),
  system: choices.system,
  temperature: field(nullable(float), null),
  tool_choice: choices.tool_choice,
  tools: choices.tools,
  top_k: field(nullable(int()), null),
  top_p: field(nullable(float), null),
  mm_payload: field<string>(literal("tensors", "none"), "tensors"),
  return_mm_kwargs: field(flag, null),
  cache_salt: field(nullable(sized(1, 1024)), null),
  watermarking: field(flag, null),
  kv_transfer_params: field(nullable(object), null),
  ec_transfer_params: field(nullable(object), null),
  vllm_xargs: field(nullable(dict(union<unknown>(scalar(), list(scalar())))), null),
  chat_template_kwargs: field(nullable(object), null),
} as const;

export const countFields = {
  ...shared,
  output_config: choices.output_config,
  system: choices.system,
  thinking: choices.thinking,
  tool_choice: choices.tool_choice,
  tools: choices.tools,
  chat_template_kwargs: field(nullable(object), null),
} as const;

/** A text of `least` to `most` code points. */
function sized(least: number, most: number): Type<string> {
  return {
    name: `string of ${least} to ${most} characters`,
    schema: { type: "string", minLength: least, maxLength: most },
    check(value, state) {
      const result = text.check(value, state);
      if (result === FAIL) return FAIL;
      const characters = codePoints(result);
      const plural = (count: number) => `${count} character${count === 1 ? "" : "s"}`;
      if (characters < least)
        return state.fail("string_too_short", `String should have at least ${plural(least)}`, value, {
          min_length: least,
        });
      if (characters > most)
        return state.fail("string_too_long", `String should have at most ${plural(most)}`, value, { max_length: most });
      return result;
    },
  };
}
