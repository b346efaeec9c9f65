/** What stands in a response? Its items and its body, every field in vLLM 0.33's order (`responses/protocol.py`, ResponsesResponse; openai 3.52). */

import type { AnswerContext, Ending } from "../../answer/context.ts";
import { escapeJson } from "../../content/vocabulary.ts";
import { mapped, type Pieces } from "../../python/pieces.ts";
import { reprFloat } from "../../python/repr.ts";
import type { ChatRequest } from "../../python/request.ts";
import { get, isDict, type PythonDict, type PythonValue, toPlain } from "../../python/value.ts";
import type { ResponsesValues } from "./convert.ts";
import type { Status } from "./store.ts";

export const quotedJson = (text: string) => `"${escapeJson(text)}"`;
export const orNull = (text: string | null | undefined) =>
  text === null || text === undefined ? "null" : quotedJson(text);

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** An item of the output; `text` where it is a message, for what goes on from here. */
export interface Item {
  readonly json: string;
  readonly text: string | null;
}

/** `logprobs`: JSON of the list, "null" for none. */
export const textPart = (text: string, logprobs: string) =>
  `{"annotations":[],"text":${quotedJson(text)},"type":"output_text","logprobs":${logprobs}}`;

export function messageItem(id: string, text: string, status: ItemStatus, logprobs: string): Item {
  const content = text === "" ? "" : textPart(text, logprobs);
  const json = `{"id":"${id}","content":[${content}],"role":"assistant","status":"${status}","type":"message","phase":null}`;
  return { json, text: text === "" ? null : text };
}

/** `text` null: nothing yet; `status` null: not said. */
export function reasoningItem(id: string, text: string | null, status: ItemStatus | null): Item {
  const content = text === null ? "null" : `[{"text":${quotedJson(text)},"type":"reasoning_text"}]`;
  const json = `{"id":"${id}","summary":[],"type":"reasoning","content":${content},"encrypted_content":null,"status":${orNull(status)}}`;
  return { json, text: null };
}

export function callItem(id: string, callId: string, name: string, given: string, status: ItemStatus): Item {
  const json = `{"arguments":${quotedJson(given)},"call_id":${quotedJson(callId)},"name":${quotedJson(name)},"type":"function_call","id":"${id}","async":null,"caller":null,"namespace":null,"status":"${status}"}`;
  return { json, text: null };
}

/** What of a request every body of its response repeats. */
export interface RepeatedFields {
  readonly values: ResponsesValues;
  readonly request: ChatRequest;
  readonly context: Pick<AnswerContext, "id" | "created" | "model" | "maxTokens">;
  /** Tools of the request as JSON, made once: a stream's events repeat them three times. */
  readonly tools: string;
}

/** `ending` null: it has not ended. */
export function responseBody(
  { values, request, context, tools }: RepeatedFields,
  status: Status,
  output: readonly Item[],
  ending: Ending | null,
): string {
  const incomplete = status === "incomplete" ? '{"reason":"max_output_tokens"}' : "null";
  const { sampling } = request;
  const wantsLogprobs = request.logprobs ? String(request.topLogprobs) : "null";
  const times = ending?.times ? `,"metrics":${ending.times}` : "";
  return (
    `{"id":${quotedJson(context.id)},"created_at":${context.created},"incomplete_details":${incomplete}` +
    `,"instructions":${orNull(values.instructions)},"metadata":${plainJson(values.metadata as PythonValue)}` +
    `,"model":${quotedJson(context.model)},"object":"response","output":[${output.map(({ json }) => json)}]` +
    `,"parallel_tool_calls":${values.parallel_tool_calls ?? true},"temperature":${reprFloat(request.temperature)}` +
    `,"tool_choice":${choiceJson(values)},"tools":[${tools}],"top_p":${reprFloat(sampling.topP)}` +
    `,"background":${values.background === true},"max_output_tokens":${context.maxTokens}` +
    `,"max_tool_calls":${values.max_tool_calls},"previous_response_id":${orNull(values.previous_response_id)},"prompt":null` +
    `,"prompt_cache_options":${cacheOptions(values.prompt_cache_options)},"prompt_cache_key":${orNull(values.prompt_cache_key)}` +
    `,"prompt_cache_retention":${orNull(values.prompt_cache_retention?.replace("-", "_"))}` +
    `,"reasoning":${reasoningJson(values.reasoning)},"safety_identifier":${orNull(values.safety_identifier)}` +
    `,"service_tier":"${values.service_tier}","status":"${status}","text":${textJson(values.text)}` +
    `,"top_logprobs":${wantsLogprobs},"truncation":"${values.truncation ?? "disabled"}","usage":${usage(ending)}` +
    `,"user":${orNull(values.user)}${times},"presence_penalty":${reprFloat(sampling.presencePenalty)}` +
    `,"frequency_penalty":${reprFloat(sampling.frequencyPenalty)},"kv_transfer_params":null,"ec_transfer_params":null` +
    ',"input_messages":null,"output_messages":null}'
  );
}

function usage(ending: Ending | null): string {
  if (ending === null) return "null";
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens, createdTokens } = ending;
  return (
    `{"input_tokens":${promptTokens},"input_tokens_details":{"cached_tokens":${cachedTokens},"cache_write_tokens":${createdTokens}` +
    `,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":${completionTokens}` +
    `,"output_tokens_details":{"reasoning_tokens":${reasoningTokens ?? 0},"tool_output_tokens":0` +
    `,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":${promptTokens + completionTokens}}`
  );
}

const plainJson = (value: PythonValue) => JSON.stringify(toPlain(value));

/** Members of a model in their order, absent ones null. */
function modelJson(dict: PythonDict, names: readonly string[]): string {
  return `{${names.map((name) => `"${name}":${plainJson(get(dict, name) ?? null)}`)}}`;
}

function choiceJson({ tool_choice: choice }: ResponsesValues): string {
  if (!isDict(choice)) return quotedJson(choice);
  return modelJson(choice, get(choice, "type") === "allowed_tools" ? ["mode", "tools", "type"] : ["name", "type"]);
}

/** Members of the kinds of tools that are known; others are repeated as they came. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  function: "name parameters strict type allowed_callers async defer_loading description output_schema".split(" "),
  custom: "name type allowed_callers async defer_loading description format".split(" "),
  web_search_preview: "type search_content_types search_context_size user_location".split(" "),
};

/** In pieces: there may be thousands. */
export function* toolsJson({ tools }: ResponsesValues): Pieces<string> {
  return (yield* mapped(tools, toolJson)).join();
}

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
