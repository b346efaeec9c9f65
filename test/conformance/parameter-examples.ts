/**
 * Example values that show the effect of each request field, for docs/reference/parameters.md and for the tests that try each one on a
 * live server.
 */
import type { messagesParameters } from "../../src/servers/vllm/messages/parameters.ts";
import type { ChatKind, openaiParameters } from "../../src/servers/vllm/openai/parameters.ts";
import type { responsesParameters } from "../../src/servers/vllm/responses/parameters.ts";

export interface Example {
  /** An accepted value. If the field has an effect, this value shows it. */
  readonly taken: unknown;
  /** Other fields that the example needs. */
  readonly beside?: Readonly<Record<string, unknown>>;
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
  messages: { taken: [{ role: "user", content: "Something longer than before" }], refused: [] },
  prompt: { taken: ["Hello", "Something longer than before"], refused: "" },
  model: { taken: "m", refused: "other" },
  echo: {
    taken: true,
    refused: "x",
    chat: { beside: { messages: [{ role: "assistant", content: "So" }], add_generation_prompt: true } },
  },
  frequency_penalty: { taken: 1.5, refused: 3 },
  presence_penalty: { taken: 1.5, refused: 3 },
  repetition_penalty: { taken: 1.5, refused: 0 },
  logit_bias: { taken: { "5": 100 }, refused: { x: 1 } },
  logprobs: { taken: true, refused: "x", completions: { taken: 2, refused: -2 } },
  top_logprobs: { taken: 3, beside: { logprobs: true }, refused: -2 },
  max_tokens: { taken: 3, refused: -1 },
  max_completion_tokens: { taken: 3, refused: 0 },
  n: { taken: 2, refused: 0 },
  response_format: { taken: { type: "json_object" }, refused: { type: "xml" } },
  seed: { taken: 6, refused: "x" },
  stop: { taken: " ", refused: [""] },
  stream: { taken: true, refused: "x" },
  stream_options: { taken: { include_usage: true }, beside: { stream: true }, refused: { include_usage: true } },
  temperature: { taken: 0, beside: { seed: null }, refused: -1 },
  top_p: { taken: 0.5, refused: 0 },
  top_k: { taken: 3, refused: -2 },
  min_p: { taken: 0.5, refused: 2 },
  tools: { taken: [{ type: "function", function: { name: "weather" } }], beside: { tool_choice: "none" }, refused: [] },
  tool_choice: {
    taken: "none",
    beside: { tools: [{ type: "function", function: { name: "weather" } }] },
    refused: "some",
  },
  parallel_tool_calls: { taken: false, refused: "x" },
  reasoning_effort: { taken: "high", refused: "x" },
  thinking_token_budget: { taken: -1, refused: 5 },
  include_reasoning: { taken: false, refused: "x" },
  user: { taken: "somebody", refused: 1 },
  use_beam_search: { taken: true, refused: "x" },
  length_penalty: { taken: 0.5, refused: "x" },
  watermarking: { taken: true, refused: "x" },
  stop_token_ids: { taken: null, refused: [-1] },
  include_stop_str_in_output: { taken: true, beside: { stop: " " }, refused: "x" },
  ignore_eos: { taken: true, beside: { max_tokens: 600 }, refused: "x" },
  min_tokens: { taken: 8, beside: { stop: " " }, refused: -1 },
  skip_special_tokens: { taken: false, beside: { allowed_token_ids: [200_006], max_tokens: 2 }, refused: "x" },
  spaces_between_special_tokens: { taken: false, refused: "x" },
  truncate_prompt_tokens: { taken: 2, refused: -2 },
  truncation_side: { taken: "right", beside: { truncate_prompt_tokens: 2, return_token_ids: true }, refused: "middle" },
  prompt_logprobs: { taken: 1, refused: -2 },
  logprob_token_ids: {
    taken: [5, 7],
    beside: { logprobs: true },
    refused: [-1],
    completions: { beside: { logprobs: 1 } },
  },
  allowed_token_ids: { taken: [5, 7], refused: [] },
  bad_words: { taken: ["river"], refused: [""] },
  add_generation_prompt: { taken: false, refused: "x" },
  continue_final_message: { taken: true, beside: { add_generation_prompt: false }, refused: "x" },
  add_special_tokens: { taken: true, refused: "x", completions: { taken: false } },
  documents: { taken: [{ title: "x", text: "y" }], refused: 1 },
  chat_template: { taken: null, refused: "{{ messages }}" },
  chat_template_kwargs: { taken: { enable_thinking: false }, refused: { chat_template: "x" } },
  media_io_kwargs: { taken: null, refused: { image: { x: 1 } } },
  mm_processor_kwargs: { taken: null, refused: { x: 1 } },
  structured_outputs: { taken: { regex: "[0-9]+" }, refused: { json: "{}", regex: "a" } },
  priority: { taken: -1, refused: "x" },
  request_id: { taken: "mine", refused: 1 },
  session_id: { taken: "s", refused: 1 },
  return_tokens_as_token_ids: {
    taken: true,
    beside: { logprobs: true },
    refused: "x",
    completions: { beside: { logprobs: 1 } },
  },
  return_token_ids: { taken: true, refused: "x" },
  return_weight_versions: { taken: true, refused: "x" },
  routed_experts_prompt_start: { taken: 1, refused: -1 },
  return_token_offsets: { taken: true, refused: "x" },
  return_prompt_text: { taken: true, refused: "x" },
  mm_payload: { taken: "none", refused: "x" },
  return_mm_kwargs: { taken: false, refused: "x" },
  cache_salt: { taken: "pepper", refused: "" },
  kv_transfer_params: { taken: { do_remote_decode: true }, refused: 1 },
  ec_transfer_params: { taken: { x: 1 }, refused: 1 },
  vllm_xargs: { taken: { a: 1 }, refused: 1 },
  repetition_detection: {
    taken: { max_pattern_size: 4, min_count: 3 },
    beside: { logit_bias: { "5": 100 } },
    refused: { max_pattern_size: 4, min_count: 1 },
  },
  stream_interval: { taken: 4, beside: { stream: true }, refused: 0 },
  suffix: { taken: null, refused: "the end" },
  prompt_embeds: { taken: null, refused: "AAAA" },
};

export const messagesExamples: Of<typeof messagesParameters, Example> = {
  model: { taken: "m", refused: "" },
  messages: {
    taken: [{ role: "user", content: [{ type: "text", text: "Something longer than before" }] }],
    refused: [],
  },
  max_tokens: { taken: 3, refused: 0 },
  metadata: { taken: { user_id: "u" }, refused: 1 },
  output_config: { taken: { effort: "low" }, refused: { effort: "x" } },
  thinking: { taken: { type: "adaptive" }, refused: { type: "enabled", budget_tokens: 5 } },
  stop_sequences: { taken: [" the"], refused: ["a", "b", "c", "d", "e"] },
  stream: { taken: true, refused: "x" },
  system: { taken: "Be short.", refused: 1 },
  temperature: { taken: 0, refused: -1 },
  tool_choice: { taken: { type: "none" }, refused: { type: "tool" } },
  tools: {
    taken: [{ name: "f", input_schema: {} }],
    beside: { tool_choice: { type: "none" } },
    refused: [{ name: "f" }],
  },
  top_k: { taken: 5, refused: -2 },
  top_p: { taken: 0.5, refused: 2 },
  mm_payload: { taken: "none", refused: "x" },
  return_mm_kwargs: { taken: false, refused: "x" },
  cache_salt: { taken: "pepper", refused: "" },
  watermarking: { taken: true, refused: "x" },
  kv_transfer_params: { taken: { x: 1 }, refused: 1 },
  ec_transfer_params: { taken: { x: 1 }, refused: 1 },
  vllm_xargs: { taken: { a: 1 }, refused: 1 },
  chat_template_kwargs: { taken: { enable_thinking: false }, refused: { chat_template: "x" } },
};

export const responsesExamples: Of<typeof responsesParameters, Example> = {
  background: { taken: false, refused: true },
  include: { taken: ["message.output_text.logprobs"], refused: ["x"] },
  input: {
    taken: [{ role: "user", content: [{ type: "input_text", text: "Something longer than before" }] }],
    refused: null,
  },
  instructions: { taken: "Be short.", refused: 1 },
  max_output_tokens: { taken: 3, refused: 0 },
  max_tool_calls: { taken: 1, refused: "x" },
  metadata: { taken: { a: "b" }, refused: 1 },
  model: { taken: "m", refused: "other" },
  logit_bias: { taken: { "5": 100 }, refused: { x: 1 } },
  parallel_tool_calls: { taken: false, refused: "x" },
  previous_response_id: { taken: null, refused: "resp_0" },
  prompt: { taken: null, refused: { id: "x" } },
  reasoning: { taken: { effort: "low" }, refused: { effort: "x" } },
  include_reasoning: { taken: false, refused: "x" },
  service_tier: { taken: "flex", refused: "x" },
  store: { taken: false, refused: "x" },
  stream: { taken: true, refused: "x" },
  temperature: { taken: 0, refused: -1 },
  text: { taken: { format: { type: "text" } }, refused: { format: { type: "json_schema" } } },
  tool_choice: { taken: "none", refused: "required" },
  tools: { taken: [], refused: [{ type: "function" }] },
  top_logprobs: { taken: 2, refused: "x" },
  top_p: { taken: 0.5, refused: 2 },
  top_k: { taken: 5, refused: -2 },
  min_p: { taken: 0.1, refused: 2 },
  truncation: { taken: "auto", refused: "x" },
  user: { taken: "somebody", refused: 1 },
  skip_special_tokens: { taken: false, refused: "x" },
  spaces_between_special_tokens: { taken: false, refused: "x" },
  include_stop_str_in_output: { taken: true, refused: "x" },
  presence_penalty: { taken: 1.5, refused: 3 },
  frequency_penalty: { taken: 1.5, refused: 3 },
  prompt_cache_key: { taken: "k", refused: 1 },
  prompt_cache_options: { taken: { mode: "explicit" }, refused: { mode: "x" } },
  prompt_cache_retention: { taken: "24h", refused: "x" },
  safety_identifier: { taken: "s", refused: 1 },
  watermarking: { taken: true, refused: "x" },
  request_id: { taken: "mine", refused: 1 },
  session_id: { taken: "s", refused: 1 },
  media_io_kwargs: { taken: null, refused: { image: { x: 1 } } },
  mm_processor_kwargs: { taken: null, refused: { x: 1 } },
  priority: { taken: -1, refused: "x" },
  mm_payload: { taken: "none", refused: "x" },
  return_mm_kwargs: { taken: false, refused: "x" },
  cache_salt: { taken: "pepper", refused: "" },
  enable_response_messages: { taken: true, refused: "x" },
  previous_input_messages: { taken: [{ role: "user", content: "x" }], refused: 1 },
  structured_outputs: { taken: null, refused: { json: "{}", regex: "a" } },
  repetition_penalty: { taken: 1.5, refused: 0 },
  seed: { taken: 5, refused: "x" },
  stop: { taken: " the", refused: ["a", "b", "c", "d", "e"] },
  stop_token_ids: { taken: [13], refused: ["x"] },
  ignore_eos: { taken: true, refused: "x" },
  vllm_xargs: { taken: { a: 1 }, refused: 1 },
  kv_transfer_params: { taken: { x: 1 }, refused: 1 },
  ec_transfer_params: { taken: { x: 1 }, refused: 1 },
  chat_template_kwargs: { taken: { enable_thinking: false }, refused: { chat_template: "x" } },
};
