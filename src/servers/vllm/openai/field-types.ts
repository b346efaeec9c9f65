/** Types of single fields that have their own rules. Source: vLLM 0.33, `sampling_params.py` and `generate/base/protocol.py`. */

import { checkOneConstraint, type StructuredOutputs } from "../../openai/request/constraints.ts";
import { validationRefusal } from "../../openai/request/errors.ts";
import { str } from "../../pydantic/repr.ts";
import { dataclass, model, optional, record, required, union } from "../../pydantic/structures.ts";
import { anything, bool, FAIL, int, list, literal, nullable, object, type Type, text } from "../../pydantic/types.ts";
import { get, type Int, type PythonDict, toPlain } from "../../pydantic/value.ts";

/** `top_logprobs`, in which null means 0. */
export const topLogprobs: Type<Int> = {
  name: "integer, null",
  schema: nullable(int()).schema,
  check: (value, state) => (value === null ? 0 : int().check(value, state)),
};

/** `thinking_token_budget`, in which -1 is null. Throws `RefusedRequest` at once, before other errors of the body are collected. */
export const thinkingTokenBudget: Type<Int | null> = {
  name: "integer ≥ 0 or -1, null",
  schema: nullable(int({ ge: -1 })).schema,
  check(value, state) {
    if (value === null) return null;
    // vLLM refuses 5.0, which the fast parser cannot tell from 5.
    if (state.errors === null) return FAIL;
    if (value === -1) return null;
    if ((typeof value === "number" || typeof value === "bigint") && value >= 0) return value;
    const message = "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.";
    throw validationRefusal(message, "thinking_token_budget", str(value));
  },
};

export const structuredOutputs: Type<StructuredOutputs> = dataclass(
  "StructuredOutputsParams",
  {
    json: optional(nullable(union<unknown>(text, object))),
    regex: optional(nullable(text)),
    choice: optional(nullable(list(text))),
    grammar: optional(nullable(text)),
    json_object: optional(nullable(bool)),
    disable_any_whitespace: optional(bool),
    disable_additional_properties: optional(bool),
    whitespace_pattern: optional(nullable(text)),
    structural_tag: optional(nullable(text)),
  },
  checkOneConstraint,
);

export const repetitionDetection: Type<ReadonlyMap<string, unknown>> = dataclass(
  "RepetitionDetectionParams",
  { max_pattern_size: optional(int()), min_pattern_size: optional(int()), min_count: optional(int()) },
  (checked) => {
    const size = (name: string): Int => (checked.get(name) as Int | undefined) ?? 0;
    const largest = size("max_pattern_size");
    const smallest = size("min_pattern_size");
    if (largest < 0 || smallest < 0 || smallest > largest)
      throw validationRefusal(
        "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. " +
          "Set both to 0 to disable repetitive pattern detection.",
      );
    if (largest > 0 && size("min_count") < 2)
      throw validationRefusal(
        "min_count must be >= 2 to detect repetitive patterns in engine output. " +
          "If you do not wish to detect repetitive patterns, set max_pattern_size to 0.",
      );
  },
);

const structuralTag = model("StructuralTagResponseFormat", {
  type: required(literal("structural_tag")),
  format: required(anything),
});
const legacyStructuralTag = model("LegacyStructuralTagResponseFormat", {
  type: required(literal("structural_tag")),
  structures: required(
    list(
      model("LegacyStructuralTag", {
        begin: required(text),
        structural_tag_schema: optional(nullable(object), "schema"),
        end: required(text),
      }),
    ),
  ),
  triggers: required(list(text)),
});

/** Type of a `response_format` whose `type` is `structural_tag`. */
export const anyStructuralTag: Type<PythonDict> = union<PythonDict>(legacyStructuralTag, structuralTag);

export const responseFormat: Type<PythonDict> = union<PythonDict>(
  model("ResponseFormat", {
    type: required(literal("text", "json_object", "json_schema")),
    json_schema: optional(
      nullable(
        model("JsonSchemaResponseFormat", {
          name: required(text),
          description: optional(nullable(text)),
          json_schema: optional(nullable(object), "schema"),
          strict: optional(nullable(bool)),
        }),
      ),
    ),
  }),
  structuralTag,
  legacyStructuralTag,
);

export const streamOptions: Type<ReadonlyMap<string, unknown>> = record("StreamOptions", {
  include_usage: optional(nullable(bool)),
  continuous_usage_stats: optional(nullable(bool)),
});

export const tool: Type<PythonDict> = model("ChatCompletionToolsParam", {
  type: optional(literal("function")),
  function: required(
    model("FunctionDefinition", {
      name: required(text),
      description: optional(nullable(text)),
      parameters: optional(nullable(object)),
      strict: optional(nullable(bool)),
      defer_loading: optional(nullable(bool)),
    }),
  ),
  defer_loading: optional(nullable(bool)),
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

export const toolChoice: Type<string | PythonDict> = union<string | PythonDict>(
  literal("none"),
  literal("auto"),
  literal("required"),
  model("ChatCompletionNamedToolChoiceParam", {
    function: required(model("ChatCompletionNamedFunction", { name: required(text) })),
    type: optional(literal("function")),
  }),
);
