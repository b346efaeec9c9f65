/** The fields of requests of Anthropic's Messages API. Source: vLLM 0.33, `entrypoints/anthropic/protocol.py`. */

import { freeArguments, media, stopStrings, transfer } from "../../openai/request/shared-fields.ts";
import { model, optional, record, required, union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
import { field } from "../../pydantic/validate.ts";
import { codePoints, get, isDict, isList, type PythonDict, type PythonValue, truthy } from "../../pydantic/value.ts";

/** Least `thinking.budget_tokens`. */
const LEAST_BUDGET = 1024;
/** Types of content blocks that change the list of tools. */
const CHANGES = ["tool_addition", "tool_removal"];

/** Adds a model's own validator to a type. `problemOf` returns the message of an error, or undefined if there is none. */
function checked<V>(type: t.Type<V>, problemOf: (value: PythonValue) => string | undefined): t.Type<V> {
  const validate = (result: t.CheckResult<V>, value: PythonValue, state: t.State) => {
    const problem = result === t.FAIL ? undefined : problemOf(value);
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
function tagged<V>(branches: Readonly<Record<string, t.Type<V>>>): t.Type<V> {
  const tags = Object.keys(branches);
  const tagList = tags.map((tag) => `'${tag}'`).join(", ");
  return {
    name: tags.join(" or "),
    schema: { anyOf: Object.values(branches).map(({ schema }) => schema) },
    check(value: PythonValue, state: t.State) {
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
      if (result === t.FAIL) state.prefix(before, tag as string);
      return result;
    },
  };
}

const tool = model("AnthropicTool", {
  name: required(t.text),
  description: optional(t.textOrNull),
  input_schema: required(t.object),
  strict: optional(t.boolOrNull),
  defer_loading: optional(t.boolOrNull),
});

const toolChange = tagged({
  tool_reference: model("AnthropicToolChangeReference", {
    type: required(t.literal("tool_reference")),
    name: required(t.text),
  }),
  tool_definition: model("AnthropicToolChangeDefinition", {
    type: required(t.literal("tool_definition")),
    definition: required(tool),
  }),
});

const block = checked(
  model("AnthropicContentBlock", {
    type: required(
      t.literal(
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
    text: optional(t.textOrNull),
    source: optional(t.nullable(t.object)),
    id: optional(t.textOrNull),
    tool_use_id: optional(t.textOrNull),
    name: optional(t.textOrNull),
    input: optional(t.nullable(t.object)),
    content: optional(t.nullable(union<unknown>(t.text, t.list(t.object)))),
    is_error: optional(t.boolOrNull),
    tool_name: optional(t.textOrNull),
    thinking: optional(t.textOrNull),
    signature: optional(t.textOrNull),
    data: optional(t.textOrNull),
    tool: optional(t.nullable(toolChange)),
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

const blocks = union<unknown>(t.text, t.list(block));

const message = checked(
  model("AnthropicMessage", { role: required(t.literal("user", "assistant", "system")), content: required(blocks) }),
  (value) =>
    get(value as PythonDict, "role") === "system" ? undefined : misplaced(get(value as PythonDict, "content")),
);

const toolChoice = checked(
  record("AnthropicToolChoice", {
    type: required(t.literal("auto", "any", "tool", "none")),
    name: optional(t.textOrNull),
    disable_parallel_tool_use: optional(t.boolOrNull),
  }),
  (value) =>
    get(value as PythonDict, "type") === "tool" && !truthy(get(value as PythonDict, "name"))
      ? "tool_choice.name is required when type is 'tool'"
      : undefined,
);

const display = optional(t.nullable(t.literal("summarized", "omitted", "updates")));
const thinking = tagged({
  enabled: record("AnthropicThinkingConfigEnabled", {
    type: required(t.literal("enabled")),
    budget_tokens: required(t.int({ ge: LEAST_BUDGET })),
    display,
  }),
  disabled: record("AnthropicThinkingConfigDisabled", { type: required(t.literal("disabled")) }),
  adaptive: record("AnthropicThinkingConfigAdaptive", { type: required(t.literal("adaptive")), display }),
});

const outputConfig = model("AnthropicOutputConfig", {
  effort: optional(t.nullable(t.literal("low", "medium", "high", "xhigh", "max"))),
  format: optional(
    t.nullable(
      model("AnthropicJsonOutputFormat", {
        json_schema: optional(t.nullable(t.object), "schema"),
        type: optional(t.literal("json_schema")),
      }),
    ),
  ),
});

/** The first fields of both routes. */
const shared = {
  model: { type: checked(t.text, (value) => (value === "" ? "Model is required" : undefined)) },
  messages: { type: t.list(message) },
} as const;
const choices = {
  thinking: field(t.nullable(thinking), null),
  system: field(t.nullable(checked(blocks, misplaced)), null),
  tool_choice: field(t.nullable(toolChoice), null),
  tools: field(t.nullable(t.list(tool)), null),
  output_config: field(t.nullable(outputConfig), null),
} as const;

export const messagesFields = {
  ...shared,
  max_tokens: { type: checked(t.int(), (value) => (Number(value) <= 0 ? "max_tokens must be positive" : undefined)) },
  metadata: field(t.nullable(t.object), null),
  output_config: choices.output_config,
  thinking: choices.thinking,
  stop_sequences: field(t.nullable(stopStrings), null),
  stream: field(t.boolOrNull, false),
  system: choices.system,
  temperature: field(t.floatOrNull, null),
  tool_choice: choices.tool_choice,
  tools: choices.tools,
  top_k: field(t.intOrNull, null),
  top_p: field(t.floatOrNull, null),
  ...media,
  cache_salt: field(t.nullable(sized(1, 1024)), null),
  watermarking: field(t.boolOrNull, null),
  ...transfer,
  vllm_xargs: field(freeArguments, null),
  chat_template_kwargs: field(t.nullable(t.object), null),
} as const;

export const countFields = {
  ...shared,
  output_config: choices.output_config,
  system: choices.system,
  thinking: choices.thinking,
  tool_choice: choices.tool_choice,
  tools: choices.tools,
  chat_template_kwargs: field(t.nullable(t.object), null),
} as const;

/** A text of `least` to `most` code points. */
function sized(least: number, most: number): t.Type<string> {
  return {
    name: `string of ${least} to ${most} characters`,
    schema: { type: "string", minLength: least, maxLength: most },
    check(value, state) {
      const result = t.text.check(value, state);
      if (result === t.FAIL) return t.FAIL;
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
