/** Types of single fields that have their own rules. Source: vLLM 0.33, `sampling_params.py` and `generate/base/protocol.py`. */

import { checkOneConstraint, type StructuredOutputs } from "../../openai/request/constraints.ts";
import { refuseValue } from "../../openai/request/errors.ts";
import { str } from "../../pydantic/repr.ts";
import { dataclass, model, optional, record, required, union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
import { get, type Int, type PythonDict, toPlain } from "../../pydantic/value.ts";

/** `thinking_token_budget`, in which -1 is null. Throws `RefusedRequest` at once, before other errors of the body are collected. */
export const thinkingTokenBudget: t.Type<Int | null> = {
  name: "integer ≥ 0 or -1, null",
  schema: t.nullable(t.int({ ge: -1 })).schema,
  check(value, state) {
    if (value === null) return null;
    // vLLM refuses 5.0, which the fast parser cannot tell from 5.
    if (state.errors === null) return t.FAIL;
    if (value === -1) return null;
    if ((typeof value === "number" || typeof value === "bigint") && value >= 0) return value;
    const message = "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.";
    refuseValue(message, "thinking_token_budget", str(value));
  },
};

export const structuredOutputs: t.Type<StructuredOutputs> = dataclass(
  "StructuredOutputsParams",
  {
    json: optional(t.nullable(union<unknown>(t.text, t.object))),
    regex: optional(t.textOrNull),
    choice: optional(t.nullable(t.list(t.text))),
    grammar: optional(t.textOrNull),
    json_object: optional(t.boolOrNull),
    disable_any_whitespace: optional(t.bool),
    disable_additional_properties: optional(t.bool),
    whitespace_pattern: optional(t.textOrNull),
    structural_tag: optional(t.textOrNull),
  },
  checkOneConstraint,
);

export const repetitionDetection: t.Type<ReadonlyMap<string, unknown>> = dataclass(
  "RepetitionDetectionParams",
  { max_pattern_size: optional(t.int()), min_pattern_size: optional(t.int()), min_count: optional(t.int()) },
  (checked) => {
    const size = (name: string): Int => (checked.get(name) as Int | undefined) ?? 0;
    const largest = size("max_pattern_size");
    const smallest = size("min_pattern_size");
    if (largest < 0 || smallest < 0 || smallest > largest)
      refuseValue(
        "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. " +
          "Set both to 0 to disable repetitive pattern detection.",
      );
    if (largest > 0 && size("min_count") < 2)
      refuseValue(
        "min_count must be >= 2 to detect repetitive patterns in engine output. " +
          "If you do not wish to detect repetitive patterns, set max_pattern_size to 0.",
      );
  },
);

const structuralTag = model("StructuralTagResponseFormat", {
  type: required(t.literal("structural_tag")),
  format: required(t.anything),
});
const legacyStructuralTag = model("LegacyStructuralTagResponseFormat", {
  type: required(t.literal("structural_tag")),
  structures: required(
    t.list(
      model("LegacyStructuralTag", {
        begin: required(t.text),
        structural_tag_schema: optional(t.nullable(t.object), "schema"),
        end: required(t.text),
      }),
    ),
  ),
  triggers: required(t.list(t.text)),
});

/** Type of a `response_format` whose `type` is `structural_tag`. */
export const anyStructuralTag: t.Type<PythonDict> = union<PythonDict>(legacyStructuralTag, structuralTag);

export const responseFormat: t.Type<PythonDict> = union<PythonDict>(
  model("ResponseFormat", {
    type: required(t.literal("text", "json_object", "json_schema")),
    json_schema: optional(
      t.nullable(
        model("JsonSchemaResponseFormat", {
          name: required(t.text),
          description: optional(t.textOrNull),
          json_schema: optional(t.nullable(t.object), "schema"),
          strict: optional(t.boolOrNull),
        }),
      ),
    ),
  }),
  structuralTag,
  legacyStructuralTag,
);

export const streamOptions: t.Type<ReadonlyMap<string, unknown>> = record("StreamOptions", {
  include_usage: optional(t.boolOrNull),
  continuous_usage_stats: optional(t.boolOrNull),
});

export const tool: t.Type<PythonDict> = model("ChatCompletionToolsParam", {
  type: optional(t.literal("function")),
  function: required(
    model("FunctionDefinition", {
      name: required(t.text),
      description: optional(t.textOrNull),
      parameters: optional(t.nullable(t.object)),
      strict: optional(t.boolOrNull),
      defer_loading: optional(t.boolOrNull),
    }),
  ),
  defer_loading: optional(t.boolOrNull),
});

/**
 * Returns a tool as templates see it (`ChatCompletionToolsParam`, `FunctionDefinition`): its fields in their order. Absent
 * fields are null, except `strict` and `defer_loading`, which are left out.
 */
export function toolDict(declared: PythonDict): unknown {
  const called = get(declared, "function") as PythonDict;
  // Member by member, because copies of both dictionaries would be most of the garbage of a hundred thousand tools.
  const of = (dict: PythonDict, member: string) => toPlain(get(dict, member) ?? null);
  const outer = of(declared, "defer_loading");
  const strict = of(called, "strict");
  const deferred = of(called, "defer_loading") ?? outer;
  return {
    type: of(declared, "type") ?? "function",
    function: {
      name: of(called, "name"),
      description: of(called, "description"),
      parameters: of(called, "parameters"),
      ...(strict === null ? {} : { strict }),
      ...(deferred === null ? {} : { defer_loading: deferred }),
    },
    ...(outer === null ? {} : { defer_loading: outer }),
  };
}

export const toolChoice: t.Type<string | PythonDict> = union<string | PythonDict>(
  t.literal("none"),
  t.literal("auto"),
  t.literal("required"),
  model("ChatCompletionNamedToolChoiceParam", {
    function: required(model("ChatCompletionNamedFunction", { name: required(t.text) })),
    type: optional(t.literal("function")),
  }),
);
