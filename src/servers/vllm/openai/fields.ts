/**
 * The fields of chats and completions, a table for each: type, default, limits, coercion and error messages. `read.ts` has the
 * rules for several fields, `sampling.ts` the checks of vLLM's sampler. Source: vLLM 0.33,
 * `entrypoints/openai/{chat_completion,completion}/protocol.py`.
 */

import * as shared from "../../openai/request/shared-fields.ts";
import { union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
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
} from "./field-types.ts";

/** Fields of both tables that are not neighbours in both. Each table keeps vLLM's order. */
const common = {
  model: field(t.textOrNull, null),
  presence_penalty: field(t.floatOrNull, null),
  response_format: field(t.nullable(responseFormat), null),
  temperature: field(t.floatOrNull, null),
  top_p: field(t.floatOrNull, null),
  thinking_token_budget: field(thinkingTokenBudget, null),
  prompt_logprobs: field(t.intOrNull, null),
  logprob_token_ids: field(t.tokenIds, null),
  allowed_token_ids: field(t.tokenIds, null),
  bad_words: field<string[]>(t.list(t.text), []),
  stream_interval: field(t.nullable(t.int({ ge: 1 })), null),
} as const;

/** Groups of fields that the tables of chats and of completions both list, one after another and in the same order. */
const head = {
  frequency_penalty: field(t.floatOrNull, null),
  logit_bias: field(t.nullable(t.dict(t.float)), null),
} as const;
const delivery = {
  seed: field(shared.seed, null),
  stop: field(shared.stop, null),
  stream: field(t.boolOrNull, false),
  stream_options: field(t.nullable(streamOptions), null),
} as const;
const sampling = {
  user: field(t.textOrNull, null),
  use_beam_search: field(t.bool, false),
  top_k: field(t.intOrNull, null),
  min_p: field(t.floatOrNull, null),
  repetition_penalty: field(t.floatOrNull, null),
  watermarking: field(t.boolOrNull, null),
  length_penalty: field(t.float, 1),
  stop_token_ids: field(t.tokenIds, null),
  include_stop_str_in_output: field(t.bool, false),
  ignore_eos: field(t.bool, false),
  min_tokens: field<Int>(t.int(), 0),
  skip_special_tokens: field(t.boolOrNull, null),
  spaces_between_special_tokens: field(t.bool, true),
  truncate_prompt_tokens: field(t.nullable(t.int({ ge: -1, le: shared.INT64_RANGE.le })), null),
  truncation_side: field(t.nullable(t.literal("left", "right")), null),
} as const;
const handling = {
  structured_outputs: field(t.nullable(structuredOutputs), null),
  priority: field<Int>(t.int(shared.INT64_RANGE), 0),
  request_id: field<string | null>(t.text, null),
  session_id: field(t.textOrNull, null),
  return_tokens_as_token_ids: field(t.boolOrNull, null),
  return_token_ids: field(t.boolOrNull, null),
  return_weight_versions: field(t.bool, false),
  routed_experts_prompt_start: field<Int>(t.int({ ge: 0 }), 0),
  return_token_offsets: field(t.boolOrNull, false),
} as const;
const extensions = {
  ...shared.media,
  cache_salt: field(t.textOrNull, null),
  ...shared.transfer,
  vllm_xargs: field(shared.freeArguments, null),
  repetition_detection: field(t.nullable(repetitionDetection), null),
} as const;

export const chatFields = {
  messages: { type: t.list(message) },
  model: common.model,
  ...head,
  logprobs: field(t.boolOrNull, false),
  top_logprobs: field(shared.topLogprobs, 0),
  max_tokens: field(t.intOrNull, null),
  max_completion_tokens: field(t.intOrNull, null),
  n: field<Int | null>(t.intOrNull, 1),
  presence_penalty: common.presence_penalty,
  response_format: common.response_format,
  ...delivery,
  temperature: common.temperature,
  top_p: common.top_p,
  tools: field(t.nullable(t.list(tool)), null),
  tool_choice: field(t.nullable(toolChoice), "none"),
  reasoning_effort: field(t.nullable(shared.effort), null),
  thinking_token_budget: common.thinking_token_budget,
  include_reasoning: field(t.bool, true),
  parallel_tool_calls: field(t.boolOrNull, true),
  ...sampling,
  prompt_logprobs: common.prompt_logprobs,
  logprob_token_ids: common.logprob_token_ids,
  allowed_token_ids: common.allowed_token_ids,
  bad_words: common.bad_words,
  echo: field(t.bool, false),
  add_generation_prompt: field(t.bool, true),
  continue_final_message: field(t.bool, false),
  add_special_tokens: field(t.bool, false),
  documents: field(t.nullable(t.list(t.dict(t.text))), null),
  chat_template: field(t.textOrNull, null),
  chat_template_kwargs: field(t.nullable(t.object), null),
  media_io_kwargs: field(t.nullable(t.dict(t.object)), null),
  mm_processor_kwargs: field(t.nullable(t.object), null),
  ...handling,
  return_prompt_text: field(t.boolOrNull, null),
  ...extensions,
  stream_interval: common.stream_interval,
} as const;

const promptIds = t.list(t.int({ ge: 0 }));

export const completionFields = {
  model: common.model,
  prompt: field(
    t.nullable(union<Int[] | Int[][] | string | string[]>(promptIds, t.list(promptIds), t.text, t.list(t.text))),
    null,
  ),
  echo: field(t.boolOrNull, false),
  ...head,
  logprobs: field(t.intOrNull, null),
  max_tokens: field(t.intOrNull, 16),
  n: field<Int>(t.int(), 1),
  presence_penalty: common.presence_penalty,
  ...delivery,
  suffix: field(t.textOrNull, null),
  temperature: common.temperature,
  top_p: common.top_p,
  ...sampling,
  allowed_token_ids: common.allowed_token_ids,
  prompt_logprobs: common.prompt_logprobs,
  logprob_token_ids: common.logprob_token_ids,
  bad_words: common.bad_words,
  prompt_embeds: field(t.nullable(union<string | string[]>(t.bytes, t.list(t.bytes))), null),
  add_special_tokens: field(t.bool, true),
  response_format: common.response_format,
  ...handling,
  ...extensions,
  thinking_token_budget: common.thinking_token_budget,
  stream_interval: common.stream_interval,
} as const;

export type ChatValues = Values<typeof chatFields>;
export type CompletionValues = Values<typeof completionFields>;
