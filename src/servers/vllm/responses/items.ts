/**
 * Writes the body of a response and the items of its output, with all fields in vLLM's order. Sources: vLLM 0.33,
 * `responses/protocol.py` (ResponsesResponse), and openai 3.52.
 */

import { quotedJson, quotedOrNull } from "../../../text/tokens/vocabulary.ts";
import type { AnswerContext, Ending } from "../../openai/pipeline/context.ts";
import type { ChatRequest } from "../../openai/request/request.ts";
import { reprFloat } from "../../pydantic/repr.ts";
import type { RepeatedFields } from "./repeated.ts";
import type { Status } from "./store.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** An item of the output. `text`: text of a message, for a later response that continues this one. Null for other items. */
export interface Item {
  readonly json: string;
  readonly text: string | null;
}

/** Returns the JSON of a part of text. `logprobs`: JSON of the list, or "null". */
export const textPart = (text: string, logprobs: string) =>
  `{"annotations":[],"text":${quotedJson(text)},"type":"output_text","logprobs":${logprobs}}`;

export function messageItem(id: string, text: string, status: ItemStatus, logprobs: string): Item {
  const content = text === "" ? "" : textPart(text, logprobs);
  const json = `{"id":"${id}","content":[${content}],"role":"assistant","status":"${status}","type":"message","phase":null}`;
  return { json, text: text === "" ? null : text };
}

/** Returns an item of reasoning. `text` is null at the start of a stream. `status` null is written as null. */
export function reasoningItem(id: string, text: string | null, status: ItemStatus | null): Item {
  const content = text === null ? "null" : `[{"text":${quotedJson(text)},"type":"reasoning_text"}]`;
  const json = `{"id":"${id}","summary":[],"type":"reasoning","content":${content},"encrypted_content":null,"status":${quotedOrNull(status)}}`;
  return { json, text: null };
}

export function callItem(id: string, callId: string, name: string, args: string, status: ItemStatus): Item {
  const json = `{"arguments":${quotedJson(args)},"call_id":${quotedJson(callId)},"name":${quotedJson(name)},"type":"function_call","id":"${id}","async":null,"caller":null,"namespace":null,"status":"${status}"}`;
  return { json, text: null };
}

/** The parts of a response that are the same in all of its bodies. */
export interface BodyFacts {
  readonly repeated: RepeatedFields;
  readonly request: ChatRequest;
  readonly context: Pick<AnswerContext, "id" | "created" | "model" | "maxTokens">;
}

/** Returns the body of a response. `ending` is null until the answer has ended. */
export function responseBody(
  { repeated, request, context }: BodyFacts,
  status: Status,
  output: readonly Item[],
  ending: Ending | null,
): string {
  const incomplete = status === "incomplete" ? '{"reason":"max_output_tokens"}' : "null";
  const { sampling } = request;
  const { json } = repeated;
  const wantsLogprobs = request.logprobs ? String(request.topLogprobs) : "null";
  const times = ending?.times ? `,"metrics":${ending.times}` : "";
  return (
    `{"id":${quotedJson(context.id)},"created_at":${context.created},"incomplete_details":${incomplete}` +
    `,"instructions":${json.instructions},"metadata":${json.metadata}` +
    `,"model":${quotedJson(context.model)},"object":"response","output":[${output.map((item) => item.json)}]` +
    `,"parallel_tool_calls":${json.parallel_tool_calls},"temperature":${reprFloat(request.temperature)}` +
    `,"tool_choice":${json.tool_choice},"tools":${json.tools},"top_p":${reprFloat(sampling.topP)}` +
    `,"background":${repeated.background},"max_output_tokens":${context.maxTokens}` +
    `,"max_tool_calls":${json.max_tool_calls},"previous_response_id":${json.previous_response_id},"prompt":null` +
    `,"prompt_cache_options":${json.prompt_cache_options},"prompt_cache_key":${json.prompt_cache_key}` +
    `,"prompt_cache_retention":${json.prompt_cache_retention}` +
    `,"reasoning":${json.reasoning},"safety_identifier":${json.safety_identifier}` +
    `,"service_tier":${json.service_tier},"status":"${status}","text":${json.text}` +
    `,"top_logprobs":${wantsLogprobs},"truncation":${json.truncation},"usage":${usage(ending)}` +
    `,"user":${json.user}${times},"presence_penalty":${reprFloat(sampling.presencePenalty)}` +
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
