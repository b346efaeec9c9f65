/**
 * The fields of chats and completions, a table for each: type, default, limits, coercion and error messages. `read.ts` has the
 * rules for several fields, `sampling.ts` the checks of vLLM's sampler. Source: vLLM 0.33,
 * `entrypoints/openai/{chat_completion,completion}/protocol.py`.
 */

import { union } from "../../pydantic/structures.ts";
import { bool, bytes, dict, float, int, list, literal, nullable, object, text } from "../../pydantic/types.ts";
import { field, type Values } from "../../pydantic/validate.ts";
import type { Int } from "../../pydantic/value.ts";
import { message } from "./content.ts";
import {
  repetitionDetection,
  responseFormat,
  streamOptions,
  structuredOutputs,
  thinkingTokenBudget,
  tool,
  toolChoice,
  topLogprobs,
} from "./field-types.ts";

const INT64 = { ge: -(2n ** 63n), le: 2n ** 63n - 1n };
/** Most stop strings of a request: vLLM's VLLM_MAX_STOP_STRINGS. */
const MAX_STOP_STRINGS = 4;
const number = nullable(float);
const flag = nullable(bool);
const integer = nullable(int());
const words = nullable(text);
const tokenIds = nullable(list(int()));
const scalar = () => union<string | Int>(text, int(), float);

/** Fields of both tables that are not neighbours in both. Each table keeps vLLM's order. */
const common = {
  model: field(words, null),
  presence_penalty: field(number, null),
  response_format: field(nullable(responseFormat), null),
  temperature: field(number, null),
  top_p: field(number, null),
  thinking_token_budget: field(thinkingTokenBudget, null),
  prompt_logprobs: field(integer, null),
  logprob_token_ids: field(tokenIds, null),
  allowed_token_ids: field(tokenIds, null),
  bad_words: field<string[]>(list(text), []),
  stream_interval: field(nullable(int({ ge: 1 })), null),
} as const;

/** Groups of fields that the tables of chats and of completions both list, one after another and in the same order. */
const head = {
  frequency_penalty: field(number, null),
  logit_bias: field(nullable(dict(float)), null),
} as const;
const delivery = {
  seed: field(nullable(int(INT64)), null),
  stop: field(nullable(union<string | string[]>(text, list(text, MAX_STOP_STRINGS))), null),
  stream: field(flag, false),
  stream_options: field(nullable(streamOptions), null),
} as const;
const sampling = {
  user: field(words, null),
  use_beam_search: field(bool, false),
  top_k: field(integer, null),
  min_p: field(number, null),
  repetition_penalty: field(number, null),
  watermarking: field(flag, null),
  length_penalty: field(float, 1),
  stop_token_ids: field(tokenIds, null),
  include_stop_str_in_output: field(bool, false),
  ignore_eos: field(bool, false),
  min_tokens: field<Int>(int(), 0),
  skip_special_tokens: field(flag, null),
  spaces_between_special_tokens: field(bool, true),
  truncate_prompt_tokens: field(nullable(int({ ge: -1, le: INT64.le })), null),
  truncation_side: field(nullable(literal("left", "right")), null),
} as const;
const handling = {
  structured_outputs: field(nullable(structuredOutputs), null),
  priority: field<Int>(int(INT64), 0),
  request_id: field<string | null>(text, null),
  session_id: field(words, null),
  return_tokens_as_token_ids: field(flag, null),
  return_token_ids: field(flag, null),
  return_weight_versions: field(bool, false),
  routed_experts_prompt_start: field<Int>(int({ ge: 0 }), 0),
  return_token_offsets: field(flag, false),
} as const;
const transfer = {
  mm_payload: field<string>(literal("tensors", "none"), "tensors"),
  return_mm_kwargs: field(flag, null),
  cache_salt: field(words, null),
  kv_transfer_params: field(nullable(object), null),
  ec_transfer_params: field(nullable(object), null),
  vllm_xargs: field(nullable(dict(union<unknown>(scalar(), list(scalar())))), null),
  repetition_detection: field(nullable(repetitionDetection), null),
} as const;

export const chatFields = {
  messages: { type: list(message) },
  model: common.model,
  ...head,
  logprobs: field(flag, false),
  top_logprobs: field(topLogprobs, 0),
  max_tokens: field(integer, null),
  max_completion_tokens: field(integer, null),
  n: field<Int | null>(integer, 1),
  presence_penalty: common.presence_penalty,
  response_format: common.response_format,
  ...delivery,
  temperature: common.temperature,
  top_p: common.top_p,
  tools: field(nullable(list(tool)), null),
  tool_choice: field(nullable(toolChoice), "none"),
  reasoning_effort: field(nullable(literal("none", "minimal", "low", "medium", "high", "xhigh", "max")), null),
  thinking_token_budget: common.thinking_token_budget,
  include_reasoning: field(bool, true),
  parallel_tool_calls: field(flag, true),
  ...sampling,
  prompt_logprobs: common.prompt_logprobs,
  logprob_token_ids: common.logprob_token_ids,
  allowed_token_ids: common.allowed_token_ids,
  bad_words: common.bad_words,
  echo: field(bool, false),
  add_generation_prompt: field(bool, true),
  continue_final_message: field(bool, false),
  add_special_tokens: field(bool, false),
  documents: field(nullable(list(dict(text))), null),
  chat_template: field(words, null),
  chat_template_kwargs: field(nullable(object), null),
  media_io_kwargs: field(nullable(dict(object)), null),
  mm_processor_kwargs: field(nullable(object), null),
  ...handling,
  return_prompt_text: field(flag, null),
  ...transfer,
  stream_interval: common.stream_interval,
} as const;

const promptIds = list(int({ ge: 0 }));

export const completionFields = {
  model: common.model,
  prompt: field(
    nullable(union<Int[] | Int[][] | string | string[]>(promptIds, list(promptIds), text, list(text))),
    null,
  ),
  echo: field(flag, false),
  ...head,
  logprobs: field(integer, null),
  max_tokens: field(integer, 16),
  n: field<Int>(int(), 1),
  presence_penalty: common.presence_penalty,
  ...delivery,
  suffix: field(words, null),
  temperature: common.temperature,
  top_p: common.top_p,
  ...sampling,
  allowed_token_ids: common.allowed_token_ids,
  prompt_logprobs: common.prompt_logprobs,
  logprob_token_ids: common.logprob_token_ids,
  bad_words: common.bad_words,
  prompt_embeds: field(nullable(union<string | string[]>(bytes, list(bytes))), null),
  add_special_tokens: field(bool, true),
  response_format: common.response_format,
  ...handling,
  ...transfer,
  thinking_token_budget: common.thinking_token_budget,
  stream_interval: common.stream_interval,
} as const;

export type ChatValues = Values<typeof chatFields>;
export type CompletionValues = Values<typeof completionFields>;
