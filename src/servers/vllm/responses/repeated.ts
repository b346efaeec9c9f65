/** Makes the fields of a request that its response repeats. Their JSON is made once, because a stream has it three times. */

import { mapped, type Pieces } from "../../../base/pieces.ts";
import { quotedJson, quotedOrNull } from "../../../text/tokens/vocabulary.ts";
import { reprFloat } from "../../pydantic/repr.ts";
import { get, isDict, type PythonDict, type PythonValue, toPlain, toPlainPieces } from "../../pydantic/value.ts";
import type { ResponsesValues } from "./convert.ts";

/** Fields of a request that its answer repeats. Plain data, because the reading thread sends it. */
export interface RepeatedFields {
  /** ID that the request names for its response, or null. */
  readonly requestId: string | null;
  /** True if the request wants its response stored. */
  readonly stores: boolean;
  readonly background: boolean;
  /** JSON of each field. */
  readonly json: Readonly<ReturnType<typeof jsonOf>>;
}

/** Makes the repeated fields, in pieces, because there may be thousands of tools. */
export function* repeatedOf(values: ResponsesValues): Pieces<RepeatedFields> {
  const tools = yield* mapped(values.tools, toolJson);
  const metadata = yield* toPlainPieces(values.metadata as PythonValue);
  yield;
  return {
    requestId: values.request_id,
    stores: values.store === true,
    background: values.background === true,
    json: jsonOf(values, tools, metadata),
  };
}

function jsonOf(values: ResponsesValues, tools: readonly string[], metadata: unknown) {
  return {
    instructions: quotedOrNull(values.instructions),
    metadata: JSON.stringify(metadata),
    max_output_tokens: String(values.max_output_tokens),
    temperature: floatJson(values.temperature),
    top_logprobs: String(values.top_logprobs),
    top_p: floatJson(values.top_p),
    parallel_tool_calls: String(values.parallel_tool_calls ?? true),
    tool_choice: choiceJson(values),
    tools: `[${tools}]`,
    max_tool_calls: String(values.max_tool_calls),
    previous_response_id: quotedOrNull(values.previous_response_id),
    prompt_cache_options: cacheOptions(values.prompt_cache_options),
    prompt_cache_key: quotedOrNull(values.prompt_cache_key),
    prompt_cache_retention: quotedOrNull(values.prompt_cache_retention?.replace("-", "_")),
    reasoning: reasoningJson(values.reasoning),
    safety_identifier: quotedOrNull(values.safety_identifier),
    service_tier: quotedJson(values.service_tier),
    text: textJson(values.text),
    truncation: quotedJson(values.truncation ?? "disabled"),
    user: quotedOrNull(values.user),
  };
}

const floatJson = (value: number | null) => (value === null ? "null" : reprFloat(value));
const plainJson = (value: PythonValue) => JSON.stringify(toPlain(value));

/** Returns the JSON of the named members in this order. Absent members are null. */
function modelJson(dict: PythonDict, names: readonly string[]): string {
  return `{${names.map((name) => `"${name}":${plainJson(get(dict, name) ?? null)}`)}}`;
}

function choiceJson({ tool_choice: choice }: ResponsesValues): string {
  if (!isDict(choice)) return quotedJson(choice);
  return modelJson(choice, get(choice, "type") === "allowed_tools" ? ["mode", "tools", "type"] : ["name", "type"]);
}

/** Members of a tool by its type. Tools of other types are repeated unchanged. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  function: "name parameters strict type allowed_callers async defer_loading description output_schema".split(" "),
  custom: "name type allowed_callers async defer_loading description format".split(" "),
  web_search_preview: "type search_content_types search_context_size user_location".split(" "),
};

function toolJson(tool: PythonDict): string {
  const members = TOOLS[get(tool, "type") as string];
  return members === undefined ? plainJson(tool) : modelJson(tool, members);
}

function reasoningJson(reasoning: PythonDict | null): string {
  if (reasoning === null) return "null";
  return modelJson(reasoning, ["context", "effort", "generate_summary", "mode", "summary"]);
}

function cacheOptions(options: PythonDict | null): string {
  if (options === null) return "null";
  const of = (name: string, absent: PythonValue) => plainJson(get(options, name) ?? absent);
  return `{"mode":${of("mode", "implicit")},"ttl":${of("ttl", "30m")},"comparison_response_id":${of("comparison_response_id", null)}}`;
}

const FORMATS: Readonly<Record<string, readonly string[]>> = {
  text: ["type"],
  json_object: ["type"],
  json_schema: ["name", "schema", "type", "description", "strict"],
};

function textJson(config: PythonDict | null): string {
  if (config === null) return "null";
  const format = (get(config, "format") ?? null) as PythonDict | null;
  const shown = format === null ? "null" : modelJson(format, FORMATS[get(format, "type") as string]!);
  return `{"format":${shown},"verbosity":${plainJson(get(config, "verbosity") ?? null)}}`;
}
