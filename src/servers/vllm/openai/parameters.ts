/**
 * Describes the effect of each field of chats and completions, one row per field of `fields.ts`. A field has an effect, or none
 * in vLLM 0.33 either, or none here for a reason. `docs/reference/parameters.md` and the OpenAPI document are generated from both files.
 * `test/conformance/parameters.test.ts` tries each row on a live server.
 */

import {
  here,
  IN_CHATS_AND_RESPONSES,
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
  ...IN_CHATS_AND_RESPONSES,
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
    effect: seen("the answer starts with the last message, if that has the answer's role"),
    completions: {
      limits: "not with `suffix` or `prompt_embeds`",
      effect: seen("the answer starts with the prompt; with `max_tokens` 0 it is only the prompt"),
    },
  },
  frequency_penalty: { limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 }, effect: NO_SAMPLER },
  presence_penalty: { limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 }, effect: NO_SAMPLER },
  repetition_penalty: { limits: "finite, above 0", bounds: { exclusiveMinimum: 0 }, effect: NO_SAMPLER },
  logit_bias: {
    limits: "keys are token ids inside the vocabulary; values are limited to -100 to 100",
    effect: seen("100 allows only the tokens with this value, -100 forbids its token; other values have no effect"),
  },
  logprobs: {
    limits: "at most `--max-logprobs`; -1 is the whole vocabulary",
    effect: seen("log probabilities of the answer's tokens; made up, equal for equal requests"),
    completions: { bounds: { minimum: -1 } },
  },
  top_logprobs: {
    limits: "needs `logprobs`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
    effect: seen("number of candidates per token, the sampled one first"),
  },
  max_tokens: {
    limits: "1 to the model's context; silently reduced to what the prompt leaves",
    bounds: { minimum: 1 },
    effect: seen(
      "most tokens of the answer; `finish_reason` is `length` if its own end (`--output-tokens`) would come later",
    ),
    completions: {
      limits: "1 to the model's context, or 0 with `echo`; silently reduced to what the prompt leaves",
      bounds: { minimum: 0 },
      effect: seen("most tokens of the answer"),
    },
  },
  max_completion_tokens: {
    limits: "as `max_tokens`, which it overrides",
    bounds: { minimum: 1 },
    effect: seen("most tokens of the answer"),
  },
  n: {
    limits: "1 to 16,384; 1 at temperature 0",
    bounds: { minimum: 1, maximum: 16_384 },
    effect: seen("number of choices, each a request of the engine with its own seed"),
  },
  response_format: {
    limits: "`json_schema` needs its schema; vLLM's grammar libraries refuse some schemas",
    effect: seen("the answer is JSON that fits, chosen by the seed: docs/how-to/structured-output.md"),
  },
  seed: { limits: INT64, effect: seen("with the position it alone decides the text") },
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
    effect: seen("0 without `seed`: the prompt decides the text; otherwise no effect"),
  },
  top_p: { limits: "above 0, at most 1", bounds: { exclusiveMinimum: 0, maximum: 1 }, effect: NO_SAMPLER },
  top_k: { limits: "-1 or more; 0 and -1 are off", bounds: { minimum: -1 }, effect: NO_SAMPLER },
  min_p: { limits: "0 to 1", bounds: { minimum: 0, maximum: 1 }, effect: NO_SAMPLER },
  tools: {
    limits: "400 with `tool_choice` other than `none` on a server without `--tool-call-parser`",
    bounds: { minItems: 1 },
    effect: seen("added to the prompt, and may be called: docs/how-to/tools.md"),
  },
  tool_choice: {
    limits: "`auto` when tools are given without it; other than `none`: 400 on a server without `--tool-call-parser`",
    effect: seen("whether a tool may or must be called, and which; with `none` every server accepts tools"),
  },
  parallel_tool_calls: { effect: neither("without a tool parser; with one, false allows one call") },
  reasoning_effort: { effect: TEMPLATE },
  thinking_token_budget: {
    limits: "0 or more, or -1 for none; 400 without a reasoning parser",
    effect: seen("with a reasoning parser: most tokens of reasoning; -1 is no limit"),
  },
  include_reasoning: { effect: seen("with a reasoning parser: false leaves the reasoning out of the answer") },
  user: { effect: neither("ignored") },
  use_beam_search: {
    limits: "completions: not with `stream`, nor `echo` with `logprobs`; neither takes `logprob_token_ids`",
    effect: here("returns the best `n` beams; here `n` answers as without it"),
  },
  length_penalty: { effect: neither("only weighs beams") },
  watermarking: { effect: neither("without a watermark in the server's configuration") },
  stop_token_ids: {
    limits: "inside the vocabulary",
    effect: seen("the answer ends with such a token, which `stop_reason` names, without its text"),
  },
  include_stop_str_in_output: {
    effect: seen("the stop string, or the token that ended the answer, is part of the text"),
  },
  min_tokens: {
    limits: "0 to `max_tokens`",
    bounds: { minimum: 0 },
    effect: seen("the answer cannot end before; stop tokens do not occur until then, and stop strings do not end it"),
  },
  skip_special_tokens: { effect: seen("false: the text includes special tokens") },
  spaces_between_special_tokens: { effect: neither("byte-level tokenizers put no spaces there") },
  truncate_prompt_tokens: {
    limits: "-1 to the model's context; -1 leaves room for one token of the answer",
    effect: seen("number of tokens of the prompt that are kept"),
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
    effect: seen("the candidates are exactly these tokens and the sampled one"),
  },
  allowed_token_ids: {
    limits: "not empty, inside the vocabulary",
    bounds: { minItems: 1 },
    effect: seen("the answer has no other tokens"),
  },
  bad_words: {
    limits: "none empty; at most 128 after tokenizing",
    effect: seen("the answer has none of them at its start or after a space"),
  },
  add_generation_prompt: {
    effect: seen("false: the prompt has no start of an answer, and the answer has the last message's role"),
  },
  continue_final_message: {
    limits: "not true together with a given `add_generation_prompt` of true",
    effect: seen("the prompt leaves the last message open for the answer to continue"),
  },
  add_special_tokens: {
    effect: here("adds special tokens at the start of the prompt; the built-in vocabulary has none"),
  },
  documents: { effect: TEMPLATE },
  chat_template: refusing("400: needs a server that trusts its clients' templates"),
  chat_template_kwargs: { limits: "no `chat_template` inside", effect: TEMPLATE },
  structured_outputs: {
    limits: "exactly one of `json`, `regex`, `choice`, `grammar`, `json_object`, `structural_tag`",
    effect: seen("the answer is a text that fits, chosen by the seed: docs/how-to/structured-output.md"),
  },
  request_id: { effect: seen("the answer's id ends with it; header `X-Request-Id` overrides it") },
  return_tokens_as_token_ids: { effect: seen("tokens of log probabilities are written `token_id:7`") },
  return_token_ids: { effect: seen("the answer includes the token ids of the prompt and of itself") },
  return_weight_versions: {
    effect: seen("`weight_versions`: the version of the weights for each run of tokens; here always one"),
  },
  routed_experts_prompt_start: {
    limits: "0 to the prompt's length",
    effect: neither("without `--enable-return-routed-experts`"),
  },
  return_token_offsets: { effect: RENDER_ONLY },
  return_prompt_text: { effect: seen("the answer includes the prompt that the template made") },
  cache_salt: {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
    bounds: { minLength: 1, maxLength: 128, pattern: "^[^@/\\\\\\x00]+$" },
    effect: seen("requests share blocks of the prefix cache only with requests of the same salt"),
  },
  kv_transfer_params: { effect: neither("without a connector; ours has one with `--kv-transfer-time`") },
  repetition_detection: {
    limits: "sizes 0 or more, the smallest not above the largest; `min_count` 2 or more",
    effect: seen(
      "an answer that repeats itself ends with `repetition`; here only forced or ordered tokens can repeat so",
    ),
  },
  stream_interval: {
    limits: "1 or more; raised to `--stream-interval` if below",
    effect: seen("tokens per chunk, except the first and the last"),
  },
  suffix: refusing("400: only models that fill in the middle accept it"),
  prompt_embeds: refusing("400 without `--enable-prompt-embeds`"),
};

export type ChatKind = "chat" | "completions";

/** Returns a field's row, as it holds for chats or for completions. */
export function parameterOf(kind: ChatKind, name: keyof typeof openaiParameters): Parameter {
  const { chat, completions, ...row } = openaiParameters[name];
  return { ...row, ...(kind === "chat" ? chat : completions) };
}
