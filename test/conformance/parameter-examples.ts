/**
 * Example values that show the effect of each request field, for docs/reference/parameters.md and for the tests that try each one on a
 * live server.
 */
import type { messagesParameters } from "../../src/servers/vllm/messages/parameters.ts";
import type { ChatKind, openaiParameters } from "../../src/servers/vllm/openai/parameters.ts";
import type { responsesParameters } from "../../src/servers/vllm/responses/parameters.ts";

export interface Example {
  /** An accepted value. If the field has an effect, this value shows it. */
  readonly accepted: unknown;
  /** Other fields that the example needs. */
  readonly others?: Readonly<Record<string, unknown>>;
  /** A refused value. Absent if every value of the type is accepted; a wrong type gets pydantic's text. */
  readonly refused?: unknown;
}

/** Examples that differ between the two routes, or exist only for one. */
interface ChatExample extends Example {
  readonly chat?: Partial<Example>;
  readonly completions?: Partial<Example>;
}

type Of<Table, Row> = Readonly<Record<keyof Table, Row>>;

/** Returns the example of a field for one of the two routes. */
export function exampleOf(kind: ChatKind, name: keyof typeof openaiParameters): Example {
  const { chat, completions, ...example } = openaiExamples[name];
  return { ...example, ...(kind === "chat" ? chat : completions) };
}

const openaiExamples: Of<typeof openaiParameters, ChatExample> = {
  messages: { accepted: [{ role: "user", content: "Something longer than before" }], refused: [] },
  prompt: { accepted: ["Hello", "Something longer than before"], refused: "" },
  model: { accepted: "m", refused: "other" },
  echo: {
    accepted: true,
    refused: "x",
    chat: { others: { messages: [{ role: "assistant", content: "So" }], add_generation_prompt: true } },
  },
  frequency_penalty: { accepted: 1.5, refused: 3 },
  presence_penalty: { accepted: 1.5, refused: 3 },
  repetition_penalty: { accepted: 1.5, refused: 0 },
  logit_bias: { accepted: { "5": 100 }, refused: { x: 1 } },
  logprobs: { accepted: true, refused: "x", completions: { accepted: 2, refused: -2 } },
  top_logprobs: { accepted: 3, others: { logprobs: true }, refused: -2 },
  max_tokens: { accepted: 3, refused: -1 },
  max_completion_tokens: { accepted: 3, refused: 0 },
  n: { accepted: 2, refused: 0 },
  response_format: { accepted: { type: "json_object" }, refused: { type: "xml" } },
  seed: { accepted: 6, refused: "x" },
  stop: { accepted: " ", refused: [""] },
  stream: { accepted: true, refused: "x" },
  stream_options: { accepted: { include_usage: true }, others: { stream: true }, refused: { include_usage: true } },
  temperature: { accepted: 0, others: { seed: null }, refused: -1 },
  top_p: { accepted: 0.5, refused: 0 },
  top_k: { accepted: 3, refused: -2 },
  min_p: { accepted: 0.5, refused: 2 },
  tools: {
    accepted: [{ type: "function", function: { name: "weather" } }],
    others: { tool_choice: "none" },
    refused: [],
  },
  tool_choice: {
    accepted: "none",
    others: { tools: [{ type: "function", function: { name: "weather" } }] },
    refused: "some",
  },
  parallel_tool_calls: { accepted: false, refused: "x" },
  reasoning_effort: { accepted: "high", refused: "x" },
  thinking_token_budget: { accepted: -1, refused: 5 },
  include_reasoning: { accepted: false, refused: "x" },
  user: { accepted: "somebody", refused: 1 },
  use_beam_search: { accepted: true, refused: "x" },
  length_penalty: { accepted: 0.5, refused: "x" },
  watermarking: { accepted: true, refused: "x" },
  stop_token_ids: { accepted: null, refused: [-1] },
  include_stop_str_in_output: { accepted: true, others: { stop: " " }, refused: "x" },
  ignore_eos: { accepted: true, others: { max_tokens: 600 }, refused: "x" },
  min_tokens: { accepted: 8, others: { stop: " " }, refused: -1 },
  skip_special_tokens: { accepted: false, others: { allowed_token_ids: [200_006], max_tokens: 2 }, refused: "x" },
  spaces_between_special_tokens: { accepted: false, refused: "x" },
  truncate_prompt_tokens: { accepted: 2, refused: -2 },
  truncation_side: {
    accepted: "right",
    others: { truncate_prompt_tokens: 2, return_token_ids: true },
    refused: "middle",
  },
  prompt_logprobs: { accepted: 1, refused: -2 },
  logprob_token_ids: {
    accepted: [5, 7],
    others: { logprobs: true },
    refused: [-1],
    completions: { others: { logprobs: 1 } },
  },
  allowed_token_ids: { accepted: [5, 7], refused: [] },
  bad_words: { accepted: ["river"], refused: [""] },
  add_generation_prompt: { accepted: false, refused: "x" },
  continue_final_message: { accepted: true, others: { add_generation_prompt: false }, refused: "x" },
  add_special_tokens: { accepted: true, refused: "x", completions: { accepted: false } },
  documents: { accepted: [{ title: "x", text: "y" }], refused: 1 },
  chat_template: { accepted: null, refused: "{{ messages }}" },
  chat_template_kwargs: { accepted: { enable_thinking: false }, refused: { chat_template: "x" } },
  media_io_kwargs: { accepted: null, refused: { image: { x: 1 } } },
  mm_processor_kwargs: { accepted: null, refused: { x: 1 } },
  structured_outputs: { accepted: { regex: "[0-9]+" }, refused: { json: "{}", regex: "a" } },
  priority: { accepted: -1, refused: "x" },
  request_id: { accepted: "mine", refused: 1 },
  session_id: { accepted: "s", refused: 1 },
  return_tokens_as_token_ids: {
    accepted: true,
    others: { logprobs: true },
    refused: "x",
    completions: { others: { logprobs: 1 } },
  },
  return_token_ids: { accepted: true, refused: "x" },
  return_weight_versions: { accepted: true, refused: "x" },
  routed_experts_prompt_start: { accepted: 1, refused: -1 },
  return_token_offsets: { accepted: true, refused: "x" },
  return_prompt_text: { accepted: true, refused: "x" },
  mm_payload: { accepted: "none", refused: "x" },
  return_mm_kwargs: { accepted: false, refused: "x" },
  cache_salt: { accepted: "pepper", refused: "" },
  kv_transfer_params: { accepted: { do_remote_decode: true }, refused: 1 },
  ec_transfer_params: { accepted: { x: 1 }, refused: 1 },
  vllm_xargs: { accepted: { a: 1 }, refused: 1 },
  repetition_detection: {
    accepted: { max_pattern_size: 4, min_count: 3 },
    others: { logit_bias: { "5": 100 } },
    refused: { max_pattern_size: 4, min_count: 1 },
  },
  stream_interval: { accepted: 4, others: { stream: true }, refused: 0 },
  suffix: { accepted: null, refused: "the end" },
  prompt_embeds: { accepted: null, refused: "AAAA" },
};

export const messagesExamples: Of<typeof messagesParameters, Example> = {
  model: { accepted: "m", refused: "" },
  messages: {
    accepted: [{ role: "user", content: [{ type: "text", text: "Something longer than before" }] }],
    refused: [],
  },
  max_tokens: { accepted: 3, refused: 0 },
  metadata: { accepted: { user_id: "u" }, refused: 1 },
  output_config: { accepted: { effort: "low" }, refused: { effort: "x" } },
  thinking: { accepted: { type: "adaptive" }, refused: { type: "enabled", budget_tokens: 5 } },
  stop_sequences: { accepted: [" the"], refused: ["a", "b", "c", "d", "e"] },
  stream: { accepted: true, refused: "x" },
  system: { accepted: "Be short.", refused: 1 },
  temperature: { accepted: 0, refused: -1 },
  tool_choice: { accepted: { type: "none" }, refused: { type: "tool" } },
  tools: {
    accepted: [{ name: "f", input_schema: {} }],
    others: { tool_choice: { type: "none" } },
    refused: [{ name: "f" }],
  },
  top_k: { accepted: 5, refused: -2 },
  top_p: { accepted: 0.5, refused: 2 },
  mm_payload: { accepted: "none", refused: "x" },
  return_mm_kwargs: { accepted: false, refused: "x" },
  cache_salt: { accepted: "pepper", refused: "" },
  watermarking: { accepted: true, refused: "x" },
  kv_transfer_params: { accepted: { x: 1 }, refused: 1 },
  ec_transfer_params: { accepted: { x: 1 }, refused: 1 },
  vllm_xargs: { accepted: { a: 1 }, refused: 1 },
  chat_template_kwargs: { accepted: { enable_thinking: false }, refused: { chat_template: "x" } },
};

export const responsesExamples: Of<typeof responsesParameters, Example> = {
  background: { accepted: false, refused: true },
  include: { accepted: ["message.output_text.logprobs"], refused: ["x"] },
  input: {
    accepted: [{ role: "user", content: [{ type: "input_text", text: "Something longer than before" }] }],
    refused: null,
  },
  instructions: { accepted: "Be short.", refused: 1 },
  max_output_tokens: { accepted: 3, refused: 0 },
  max_tool_calls: { accepted: 1, refused: "x" },
  metadata: { accepted: { a: "b" }, refused: 1 },
  model: { accepted: "m", refused: "other" },
  logit_bias: { accepted: { "5": 100 }, refused: { x: 1 } },
  parallel_tool_calls: { accepted: false, refused: "x" },
  previous_response_id: { accepted: null, refused: "resp_0" },
  prompt: { accepted: null, refused: { id: "x" } },
  reasoning: { accepted: { effort: "low" }, refused: { effort: "x" } },
  include_reasoning: { accepted: false, refused: "x" },
  service_tier: { accepted: "flex", refused: "x" },
  store: { accepted: false, refused: "x" },
  stream: { accepted: true, refused: "x" },
  temperature: { accepted: 0, refused: -1 },
  text: { accepted: { format: { type: "text" } }, refused: { format: { type: "json_schema" } } },
  tool_choice: { accepted: "none", refused: "required" },
  tools: { accepted: [], refused: [{ type: "function" }] },
  top_logprobs: { accepted: 2, refused: "x" },
  top_p: { accepted: 0.5, refused: 2 },
  top_k: { accepted: 5, refused: -2 },
  min_p: { accepted: 0.1, refused: 2 },
  truncation: { accepted: "auto", refused: "x" },
  user: { accepted: "somebody", refused: 1 },
  skip_special_tokens: { accepted: false, refused: "x" },
  spaces_between_special_tokens: { accepted: false, refused: "x" },
  include_stop_str_in_output: { accepted: true, refused: "x" },
  presence_penalty: { accepted: 1.5, refused: 3 },
  frequency_penalty: { accepted: 1.5, refused: 3 },
  prompt_cache_key: { accepted: "k", refused: 1 },
  prompt_cache_options: { accepted: { mode: "explicit" }, refused: { mode: "x" } },
  prompt_cache_retention: { accepted: "24h", refused: "x" },
  safety_identifier: { accepted: "s", refused: 1 },
  watermarking: { accepted: true, refused: "x" },
  request_id: { accepted: "mine", refused: 1 },
  session_id: { accepted: "s", refused: 1 },
  media_io_kwargs: { accepted: null, refused: { image: { x: 1 } } },
  mm_processor_kwargs: { accepted: null, refused: { x: 1 } },
  priority: { accepted: -1, refused: "x" },
  mm_payload: { accepted: "none", refused: "x" },
  return_mm_kwargs: { accepted: false, refused: "x" },
  cache_salt: { accepted: "pepper", refused: "" },
  enable_response_messages: { accepted: true, refused: "x" },
  previous_input_messages: { accepted: [{ role: "user", content: "x" }], refused: 1 },
  structured_outputs: { accepted: null, refused: { json: "{}", regex: "a" } },
  repetition_penalty: { accepted: 1.5, refused: 0 },
  seed: { accepted: 5, refused: "x" },
  stop: { accepted: " the", refused: ["a", "b", "c", "d", "e"] },
  stop_token_ids: { accepted: [13], refused: ["x"] },
  ignore_eos: { accepted: true, refused: "x" },
  vllm_xargs: { accepted: { a: 1 }, refused: 1 },
  kv_transfer_params: { accepted: { x: 1 }, refused: 1 },
  ec_transfer_params: { accepted: { x: 1 }, refused: 1 },
  chat_template_kwargs: { accepted: { enable_thinking: false }, refused: { chat_template: "x" } },
};
