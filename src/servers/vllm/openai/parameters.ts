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
  messages: seen("the prompt: template, token count, blocks in the prefix cache", {
    limits: "at least one",
    bounds: { minItems: 1 },
  }),
  prompt: seen("the prompt, or several, each with its own choices", {
    limits: "not empty; at most 1,024 prompts; ids inside the vocabulary",
    bounds: { minItems: 1, minLength: 1, maxItems: 1024 },
  }),
  model: seen("`model` of the answer; an adapter counts in `max_loras`", {
    limits: "a served name or an adapter's; null and empty mean the first served name",
  }),
  echo: seen("the answer starts with the last message, if that has the answer's role", {
    completions: seen("the answer starts with the prompt; with `max_tokens` 0 it is only the prompt", {
      limits: "not with `suffix` or `prompt_embeds`",
    }),
  }),
  frequency_penalty: { ...NO_SAMPLER, limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 } },
  presence_penalty: { ...NO_SAMPLER, limits: "-2 to 2", bounds: { minimum: -2, maximum: 2 } },
  repetition_penalty: { ...NO_SAMPLER, limits: "finite, above 0", bounds: { exclusiveMinimum: 0 } },
  logit_bias: seen("100 allows only the tokens with this value, -100 forbids its token; other values have no effect", {
    limits: "keys are token ids inside the vocabulary; values are limited to -100 to 100",
  }),
  logprobs: seen("log probabilities of the answer's tokens; made up, equal for equal requests", {
    limits: "at most `--max-logprobs`; -1 is the whole vocabulary",
    completions: { bounds: { minimum: -1 } },
  }),
  top_logprobs: seen("number of candidates per token, the sampled one first", {
    limits: "needs `logprobs`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
  }),
  max_tokens: seen(
    "most tokens of the answer; `finish_reason` is `length` if its own end (`--output-tokens`) would come later",
    {
      limits: "1 to the model's context; silently reduced to what the prompt leaves",
      bounds: { minimum: 1 },
      completions: seen("most tokens of the answer", {
        limits: "1 to the model's context, or 0 with `echo`; silently reduced to what the prompt leaves",
        bounds: { minimum: 0 },
      }),
    },
  ),
  max_completion_tokens: seen("most tokens of the answer", {
    limits: "as `max_tokens`, which it overrides",
    bounds: { minimum: 1 },
  }),
  n: seen("number of choices, each a request of the engine with its own seed", {
    limits: "1 to 16,384; 1 at temperature 0",
    bounds: { minimum: 1, maximum: 16_384 },
  }),
  response_format: seen("the answer is JSON that fits, chosen by the seed: docs/how-to/structured-output.md", {
    limits: "`json_schema` needs its schema; vLLM's grammar libraries refuse some schemas",
  }),
  seed: seen("with the position it alone decides the text", { limits: INT64 }),
  stop: seen("the answer ends before the first of them, which `stop_reason` names", {
    limits: "at most 4, none empty",
  }),
  stream: seen("server-sent events"),
  stream_options: seen("`include_usage`: a last chunk with the usage; `continuous_usage_stats`: usage in every chunk", {
    limits: "only with `stream`",
  }),
  temperature: seen("0 without `seed`: the prompt decides the text; otherwise no effect", {
    limits: "0 to 2",
    bounds: { minimum: 0, maximum: 2 },
  }),
  top_p: { ...NO_SAMPLER, limits: "above 0, at most 1", bounds: { exclusiveMinimum: 0, maximum: 1 } },
  top_k: { ...NO_SAMPLER, limits: "-1 or more; 0 and -1 are off", bounds: { minimum: -1 } },
  min_p: { ...NO_SAMPLER, limits: "0 to 1", bounds: { minimum: 0, maximum: 1 } },
  tools: seen("added to the prompt, and may be called: docs/how-to/tools.md", {
    limits: "400 with `tool_choice` other than `none` on a server without `--tool-call-parser`",
    bounds: { minItems: 1 },
  }),
  tool_choice: seen("whether a tool may or must be called, and which; with `none` every server accepts tools", {
    limits: "`auto` when tools are given without it; other than `none`: 400 on a server without `--tool-call-parser`",
  }),
  parallel_tool_calls: neither("without a tool parser; with one, false allows one call"),
  reasoning_effort: TEMPLATE,
  thinking_token_budget: seen("with a reasoning parser: most tokens of reasoning; -1 is no limit", {
    limits: "0 or more, or -1 for none; 400 without a reasoning parser",
  }),
  include_reasoning: seen("with a reasoning parser: false leaves the reasoning out of the answer"),
  user: neither("ignored"),
  use_beam_search: here("returns the best `n` beams; here `n` answers as without it", {
    limits: "completions: not with `stream`, nor `echo` with `logprobs`; neither takes `logprob_token_ids`",
  }),
  length_penalty: neither("only weighs beams"),
  watermarking: neither("without a watermark in the server's configuration"),
  stop_token_ids: seen("the answer ends with such a token, which `stop_reason` names, without its text", {
    limits: "inside the vocabulary",
  }),
  include_stop_str_in_output: seen("the stop string, or the token that ended the answer, is part of the text"),
  min_tokens: seen(
    "the answer cannot end before; stop tokens do not occur until then, and stop strings do not end it",
    { limits: "0 to `max_tokens`", bounds: { minimum: 0 } },
  ),
  skip_special_tokens: seen("false: the text includes special tokens"),
  spaces_between_special_tokens: neither("byte-level tokenizers put no spaces there"),
  truncate_prompt_tokens: seen("number of tokens of the prompt that are kept", {
    limits: "-1 to the model's context; -1 leaves room for one token of the answer",
  }),
  truncation_side: seen("`right` keeps the first tokens, `left` the last (the default)"),
  prompt_logprobs: seen("log probabilities of the prompt, made up; its blocks are not looked up in the prefix cache", {
    limits: "not with `stream`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
  }),
  logprob_token_ids: seen("the candidates are exactly these tokens and the sampled one", {
    limits: "needs `logprobs`; at most 128, inside the vocabulary; not with beam search",
    bounds: { maxItems: 128 },
  }),
  allowed_token_ids: seen("the answer has no other tokens", {
    limits: "not empty, inside the vocabulary",
    bounds: { minItems: 1 },
  }),
  bad_words: seen("the answer has none of them at its start or after a space", {
    limits: "none empty; at most 128 after tokenizing",
  }),
  add_generation_prompt: seen(
    "false: the prompt has no start of an answer, and the answer has the last message's role",
  ),
  continue_final_message: seen("the prompt leaves the last message open for the answer to continue", {
    limits: "not true together with a given `add_generation_prompt` of true",
  }),
  add_special_tokens: here("adds special tokens at the start of the prompt; the built-in vocabulary has none"),
  documents: TEMPLATE,
  chat_template: refusing("400: needs a server that trusts its clients' templates"),
  chat_template_kwargs: { ...TEMPLATE, limits: "no `chat_template` inside" },
  structured_outputs: seen("the answer is a text that fits, chosen by the seed: docs/how-to/structured-output.md", {
    limits: "exactly one of `json`, `regex`, `choice`, `grammar`, `json_object`, `structural_tag`",
  }),
  request_id: seen("the answer's id ends with it; header `X-Request-Id` overrides it"),
  return_tokens_as_token_ids: seen("tokens of log probabilities are written `token_id:7`"),
  return_token_ids: seen("the answer includes the token ids of the prompt and of itself"),
  return_weight_versions: seen("`weight_versions`: the version of the weights for each run of tokens; here always one"),
  routed_experts_prompt_start: neither("without `--enable-return-routed-experts`", {
    limits: "0 to the prompt's length",
  }),
  return_token_offsets: RENDER_ONLY,
  return_prompt_text: seen("the answer includes the prompt that the template made"),
  cache_salt: seen("requests share blocks of the prefix cache only with requests of the same salt", {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
    bounds: { minLength: 1, maxLength: 128, pattern: "^[^@/\\\\\\x00]+$" },
  }),
  kv_transfer_params: neither("without a connector; ours has one with `--kv-transfer-time`"),
  repetition_detection: seen(
    "an answer that repeats itself ends with `repetition`; here only forced or ordered tokens can repeat so",
    { limits: "sizes 0 or more, the smallest not above the largest; `min_count` 2 or more" },
  ),
  stream_interval: seen("tokens per chunk, except the first and the last", {
    limits: "1 or more; raised to `--stream-interval` if below",
  }),
  suffix: refusing("400: only models that fill in the middle accept it"),
  prompt_embeds: refusing("400 without `--enable-prompt-embeds`"),
};

export type ChatKind = "chat" | "completions";

/** Returns a field's row, as it holds for chats or for completions. */
export function parameterOf(kind: ChatKind, name: keyof typeof openaiParameters): Parameter {
  const { chat, completions, ...row } = openaiParameters[name];
  return { ...row, ...(kind === "chat" ? chat : completions) };
}
