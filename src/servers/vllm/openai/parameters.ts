/**
 * What does a client see of each field of a request? One row per field of `fields.ts`, whose types and defaults it goes
 * with: an effect, no effect in vLLM 0.33 either, or no effect here and why. `docs/reference/parameters.md` and the OpenAPI page
 * come from both; `test/conformance/parameters.test.ts` tries every row on a live server.
 */

import {
  here,
  INT64,
  NO_SAMPLER,
  neither,
  type Parameter,
  type ParameterRow,
  RENDER_ONLY,
  refusing,
  seen,
  TEMPLATE,
} from "../../openai/docs/parameter.ts";
import type { chatFields, completionFields } from "./fields.ts";

type Field = keyof typeof chatFields | keyof typeof completionFields;

export const openaiParameters: Readonly<Record<Field, ParameterRow>> = {
  messages: {
    limits: "at least one",
    bounds: { minItems: 1 },
    effect: seen("the prompt: template, token count, blocks in the prefix cache"),
  },
  prompt: {
    limits: "not empty; at most 1,024 prompts; ids inside the vocabulary",
    bounds: { minItems: 1, minLength: 1, maxItems: 1024 },
    effect: seen("the prompt, or several, each with its own choices"),
  },
  model: {
    limits: "a served name or an adapter's; null and empty mean the first served name",
    effect: seen("`model` of the answer; an adapter counts in `max_loras`"),
  },
  echo: {
    effect: seen("the last message, where it has the answer's role, stands in front of the answer"),
    completions: {
      limits: "not with `suffix` or `prompt_embeds`",
      effect: seen("the prompt stands in front of the answer; with `max_tokens` 0 it is the answer"),
    },
  },
  frequency_penalty: { limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 }, effect: NO_SAMPLER },
  presence_penalty: { limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 }, effect: NO_SAMPLER },
  repetition_penalty: { limits: "finite, above 0", bounds: { exclusiveMinimum: 0 }, effect: NO_SAMPLER },
  logit_bias: {
    limits: "keys are token ids inside the vocabulary; values are cut to -100 to 100",
    effect: seen("100 leaves only the tokens that have it, -100 removes its token; what lies between is nothing"),
  },
  logprobs: {
    limits: "at most `--max-logprobs`; -1 is the whole vocabulary",
    effect: seen("log probabilities of the answer's tokens; made up, the same for the same request"),
    completions: { bounds: { minimum: -1 } },
  },
  top_logprobs: {
    limits: "needs `logprobs`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
    effect: seen("so many candidates per token, the sampled one first"),
  },
  max_tokens: {
    limits: "1 to the model's context; cut without a word to what the prompt leaves",
    bounds: { minimum: 1 },
    effect: seen("tokens of the answer at most; `length` where its own end (`--output-tokens`) would come later"),
    completions: {
      limits: "1 to the model's context, or 0 with `echo`; cut without a word to what the prompt leaves",
      bounds: { minimum: 0 },
      effect: seen("tokens of the answer at most"),
    },
  },
  max_completion_tokens: {
    limits: "as `max_tokens`, which it overrules",
    bounds: { minimum: 1 },
    effect: seen("tokens of the answer at most"),
  },
  n: {
    limits: "1 to 16,384; 1 at temperature 0",
    bounds: { minimum: 1, maximum: 16_384 },
    effect: seen("so many choices, each a request of the engine with a seed of its own"),
  },
  response_format: {
    limits: "`json_schema` needs its schema; what vLLM's grammar libraries refuse",
    effect: seen("the answer is JSON that fits, drawn by the seed: docs/how-to/structured-output.md"),
  },
  seed: { limits: INT64, effect: seen("decides the text, with the position alone") },
  stop: {
    limits: "at most 4, none empty",
    effect: seen("the answer ends before the first of them, which `stop_reason` names"),
  },
  stream: { effect: seen("server-sent events") },
  stream_options: {
    limits: "only with `stream`",
    effect: seen("`include_usage`: a last chunk with the usage; `continuous_usage_stats`: usage in every chunk"),
  },
  temperature: {
    limits: "0 to 2",
    bounds: { minimum: 0, maximum: 2 },
    effect: seen("0 without `seed`: the prompt decides the text; else none"),
  },
  top_p: { limits: "above 0, at most 1", bounds: { exclusiveMinimum: 0, maximum: 1 }, effect: NO_SAMPLER },
  top_k: { limits: "-1 or more; 0 and -1 are off", bounds: { minimum: -1 }, effect: NO_SAMPLER },
  min_p: { limits: "0 to 1", bounds: { minimum: 0, maximum: 1 }, effect: NO_SAMPLER },
  tools: {
    limits: "400 with `tool_choice` other than `none` on a server without `--tool-call-parser`",
    bounds: { minItems: 1 },
    effect: seen("stand in the prompt, and may be called: docs/how-to/tools.md"),
  },
  tool_choice: {
    limits: "`auto` when tools are given without it; other than `none`: 400 on a server without `--tool-call-parser`",
    effect: seen("whether a tool is called, must be, or which; `none` lets a request with tools pass"),
  },
  parallel_tool_calls: { effect: neither("without a tool parser; with one, false allows one call") },
  reasoning_effort: { effect: TEMPLATE },
  thinking_token_budget: {
    limits: "0 or more, or -1 for none; 400 without a reasoning parser",
    effect: seen("with a reasoning parser: so many tokens are thought at most; -1 is no limit"),
  },
  include_reasoning: { effect: seen("with a reasoning parser: false leaves what is thought out of the answer") },
  user: { effect: neither("ignored") },
  use_beam_search: {
    limits: "completions: not with `stream`, nor `echo` with `logprobs`; neither takes `logprob_token_ids`",
    effect: here("`n` beams, the best first; here `n` answers as without it"),
  },
  length_penalty: { effect: neither("only weighs beams") },
  watermarking: { effect: neither("without a watermark in the server's configuration") },
  stop_token_ids: {
    limits: "inside the vocabulary",
    effect: seen("the answer ends with such a token, which `stop_reason` names; its text is left out"),
  },
  include_stop_str_in_output: {
    effect: seen("the stop string, or the token that ended the answer, is part of the text"),
  },
  ignore_eos: { effect: seen("the answer does not end by itself: it goes on to its limit") },
  min_tokens: {
    limits: "0 to `max_tokens`",
    bounds: { minimum: 0 },
    effect: seen("no end, stop string or stop token before"),
  },
  skip_special_tokens: { effect: seen("false: special tokens of the answer stand in the text") },
  spaces_between_special_tokens: { effect: neither("byte-level tokenizers put no spaces there") },
  truncate_prompt_tokens: {
    limits: "-1 to the model's context; -1 leaves room for one token of the answer",
    effect: seen("keeps so many tokens of the prompt"),
  },
  truncation_side: { effect: seen("`right` keeps the first tokens, `left` the last (the default)") },
  prompt_logprobs: {
    limits: "not with `stream`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
    effect: seen("log probabilities of the prompt, made up; its blocks are not looked up in the prefix cache"),
  },
  logprob_token_ids: {
    limits: "needs `logprobs`; at most 128, inside the vocabulary; not with beam search",
    bounds: { maxItems: 128 },
    effect: seen("these tokens are the candidates beside the sampled one, all of them"),
  },
  allowed_token_ids: {
    limits: "not empty, inside the vocabulary",
    bounds: { minItems: 1 },
    effect: seen("the answer has no other tokens"),
  },
  bad_words: {
    limits: "none empty; at most 128 after tokenizing",
    effect: seen("the answer has none of them, at its beginning or after a blank"),
  },
  add_generation_prompt: {
    effect: seen("false: the prompt does not ask for an answer, and the last message's role speaks"),
  },
  continue_final_message: {
    limits: "not both true when both are given",
    effect: seen("the last message stays open in the prompt"),
  },
  add_special_tokens: {
    effect: here("special tokens in front of the prompt; the built-in vocabulary has none to put there"),
  },
  documents: { effect: TEMPLATE },
  chat_template: refusing("400: needs a server that trusts its clients' templates"),
  chat_template_kwargs: { limits: "no `chat_template` inside", effect: TEMPLATE },
  media_io_kwargs: refusing("400 unless empty: needs a server that trusts its clients"),
  mm_processor_kwargs: refusing("400 unless empty: needs a server that trusts its clients"),
  structured_outputs: {
    limits: "exactly one of `json`, `regex`, `choice`, `grammar`, `json_object`, `structural_tag`",
    effect: seen("the answer is a text that fits, drawn by the seed: docs/how-to/structured-output.md"),
  },
  priority: {
    limits: INT64,
    effect: seen("smaller runs first, with `--scheduling-policy priority`; header `X-Vllm-Priority` wins"),
  },
  request_id: { effect: seen("the answer's id ends with it; header `X-Request-Id` wins") },
  session_id: { effect: neither("for connectors and routers in front") },
  return_tokens_as_token_ids: { effect: seen("tokens of log probabilities are written `token_id:7`") },
  return_token_ids: { effect: seen("ids of prompt and answer stand in the answer") },
  return_weight_versions: {
    effect: seen("`weight_versions`: the version of the weights for each run of tokens; here always one"),
  },
  routed_experts_prompt_start: {
    limits: "0 to the prompt's length",
    effect: neither("without `--enable-return-routed-experts`"),
  },
  return_token_offsets: { effect: RENDER_ONLY },
  return_prompt_text: { effect: seen("the prompt as the template made it") },
  mm_payload: { effect: RENDER_ONLY },
  return_mm_kwargs: { effect: RENDER_ONLY },
  cache_salt: {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
    bounds: { minLength: 1, maxLength: 128, pattern: "^[^@/\\\\\\x00]+$" },
    effect: seen("requests share blocks of the prefix cache only with those of the same salt"),
  },
  kv_transfer_params: { effect: neither("without a connector; ours has one with `--kv-transfer-time`") },
  ec_transfer_params: { effect: neither("without a connector") },
  vllm_xargs: { limits: "integers within 64 bits", effect: neither("without plugins that read it") },
  repetition_detection: {
    limits: "sizes 0 or more, the smallest not above the largest; `min_count` 2 or more",
    effect: seen("an answer that repeats itself ends, `repetition`; ours do so where tokens are forced or ordered"),
  },
  stream_interval: {
    limits: "1 or more; below `--stream-interval` that counts",
    effect: seen("tokens per chunk, but for the first and the last"),
  },
  suffix: refusing("400: only models that fill in the middle take it"),
  prompt_embeds: refusing("400 without `--enable-prompt-embeds`"),
};

export type ChatKind = "chat" | "completions";

/** The row of a field as it holds in one of the two. */
export function parameterOf(kind: ChatKind, name: keyof typeof openaiParameters): Parameter {
  const { chat, completions, ...row } = openaiParameters[name];
  return { ...row, ...(kind === "chat" ? chat : completions) };
}
