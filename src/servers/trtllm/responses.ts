/**
 * Defines how `/v1/responses` differs from vLLM's: the accepted fields and the body of a response. From `ResponsesRequest` and
 * `ResponsesResponse` of `openai_protocol.py` and `openai_responses` of `openai_server.py` (version 1.3). The events of a
 * stream and the items of the output are the same as in vLLM.
 */

import { quotedJson } from "../../text/tokens/vocabulary.ts";
import type { Ending } from "../openai/pipeline/context.ts";
import type { Limits } from "../openai/request/request.ts";
import { type ErrorAnswer, refuse } from "../pydantic/refusals.ts";
import { get, keysOf, numberOf, type PythonDict, remove, set, truthy } from "../pydantic/value.ts";
import type { ResponsesHabits } from "../vllm/responses/habits.ts";
import type { BodyFacts, Item } from "../vllm/responses/items.ts";
import type { Status } from "../vllm/responses/store.ts";
import { asTrtllm, bodyError, flatError, uncaught, wrongFields } from "./errors.ts";
import { checkNames } from "./fields.ts";
import { useSampling } from "./sampling.ts";

const NAMES = new Set(
  (
    "background include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls " +
    "previous_response_id reasoning service_tier store stream temperature text tool_choice tools top_logprobs top_p " +
    "truncation user request_id understudy"
  ).split(" "),
);

/** Returns the differences. `served`: name of the served model, which a response contains instead of the requested name. */
export function responsesHabits(served: string): ResponsesHabits {
  return {
    rules,
    wrong: wrongFields,
    body: (facts, status, output, ending) => responseJson(served, facts, status, output, ending),
    unknown: notKept,
    refused: asTrtllm,
    idBytes: 16,
  };
}

/** Checks a body. Unknown fields are ignored, unlike in chats, and null counts as absent. Throws `RefusedRequest`. */
function rules(body: PythonDict): void {
  if ((get(body, "prompt") ?? null) !== null) refuse(bodyError("prompt template is not supported", body));
  const store = get(body, "store");
  if (truthy(get(body, "background")) && store !== undefined && !truthy(store))
    refuse(bodyError("background can only be used when `store` is true", body));
  for (const name of keysOf(body)) if (get(body, name) === null) remove(body, name);
  checkNames(body, null, ["input", "model"]);
  for (const name of keysOf(body)) if (!NAMES.has(name)) remove(body, name);
  if (get(body, "parallel_tool_calls") === undefined) set(body, "parallel_tool_calls", false);
}

/**
 * Adapts the chat request that vLLM's code made from the body, so that it behaves as in trtllm-serve. Throws `RefusedRequest`.
 */
export function useResponse(chat: PythonDict, { maxModelLen }: Limits): void {
  const repeated = ["temperature", "top_p"].map((name) => numberOf(get(chat, name)) ?? 0);
  useSampling(chat);
  // The response repeats `temperature` and `top_p`. Infinity and NaN cannot be written as JSON, and the real server does not
  // catch that error.
  if (!repeated.every(Number.isFinite)) refuse(uncaught);
  // `parallel_tool_calls` has no effect, except that the response repeats its value.
  remove(chat, "parallel_tool_calls");
  if ((numberOf(get(chat, "max_tokens")) ?? 0) > maxModelLen) set(chat, "max_tokens", maxModelLen);
}

function notKept(id: string): ErrorAnswer {
  if (!id.startsWith("resp_"))
    return flatError(`Invalid 'response_id': '${id}'. Expected an ID that begins with 'resp'.`, "InvalidRequestError");
  return flatError(`Response with id '${id}' not found.`, "InvalidRequestError", 404);
}

/** Returns the body of a response. `ending` is null until the response has ended. */
function responseJson(
  served: string,
  { repeated, context }: BodyFacts,
  status: Status,
  output: readonly Item[],
  ending: Ending | null,
): string {
  const { json, background } = repeated;
  const orOne = (given: string) => (given === "null" ? "1.0" : given);
  return (
    `{"id":${quotedJson(context.id)},"created_at":${context.created},"instructions":${json.instructions}` +
    `,"metadata":${json.metadata},"model":${quotedJson(served)},"object":"response"` +
    `,"output":[${output.map((item) => item.json)}],"parallel_tool_calls":${json.parallel_tool_calls}` +
    `,"temperature":${orOne(json.temperature)},"tool_choice":${json.tool_choice},"tools":${json.tools}` +
    `,"top_p":${orOne(json.top_p)},"background":${background},"max_output_tokens":${json.max_output_tokens}` +
    `,"max_tool_calls":${json.max_tool_calls},"previous_response_id":${json.previous_response_id},"prompt":null` +
    `,"reasoning":${json.reasoning},"service_tier":${json.service_tier},"status":"${status}","text":${json.text}` +
    `,"top_logprobs":${json.top_logprobs},"truncation":${json.truncation},"usage":${usage(ending)},"user":${json.user}}`
  );
}

function usage(ending: Ending | null): string {
  if (ending === null) return "null";
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens } = ending;
  return (
    `{"input_tokens":${promptTokens},"input_tokens_details":{"cached_tokens":${cachedTokens},"cache_write_tokens":0}` +
    `,"output_tokens":${completionTokens},"output_tokens_details":{"reasoning_tokens":${reasoningTokens ?? 0}}` +
    `,"total_tokens":${promptTokens + completionTokens}}`
  );
}
