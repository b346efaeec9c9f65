/**
 * What does a client see of each field of a request? One row per field of `fields.ts`, whose types and defaults it goes
 * with: an effect, no effect in vLLM 0.33 either, or no effect here and why. `docs/parameters.md` and the OpenAPI page
 * come from both; `test/conformance/parameters.test.ts` tries every row on a live server.
 */
import type { chatFields, completionFields } from "./fields.ts";
import { here, neither, type Parameter, type Row, seen } from "./parameter.ts";

const NO_SAMPLER = here("changes what is sampled; answers are drawn without a model");
const RENDER_ONLY = neither("for the render routes; ignored where an answer is generated");
const TEMPLATE = here("a variable of the model's chat template; the built-in template has none");
const INT64 = "64 bits, signed";

export const parameters: Readonly<Record<keyof typeof chatFields | keyof typeof completionFields, Row>> = {
  messages: {
    limits: "at least one",
    bounds: { minItems: 1 },
    effect: seen("the prompt: template, token count, blocks in the prefix cache"),
    taken: [{ role: "user", content: "Something longer than before" }],
    refused: [],
  },
  prompt: {
    limits: "not empty; at most 1,024 prompts; ids inside the vocabulary",
    bounds: { minItems: 1, minLength: 1, maxItems: 1024 },
    effect: seen("the prompt, or several, each with its own choices"),
    taken: ["Hello", "Something longer than before"],
    refused: "",
  },
  model: {
    limits: "a served name or an adapter's; null and empty mean the first served name",
    effect: seen("`model` of the answer; an adapter counts in `max_loras`"),
    taken: "m",
    refused: "other",
  },
  echo: {
    effect: seen("the last message, where it has the answer's role, stands in front of the answer"),
    taken: true,
    refused: "x",
    chat: { beside: { messages: [{ role: "assistant", content: "So" }], add_generation_prompt: true } },
    completions: {
      limits: "not with `suffix` or `prompt_embeds`",
      effect: seen("the prompt stands in front of the answer; with `max_tokens` 0 it is the answer"),
    },
  },
  frequency_penalty: {
    limits: "-2 to 2",
    bounds: { minimum: -2, maximum: 2 },
    effect: NO_SAMPLER,
    taken: 1.5,
    refused: 3,
  },
  presence_penalty: {
    limits: "-2 to 2",
    bounds: { minimum: -2, maximum: 2 },
    effect: NO_SAMPLER,
    taken: 1.5,
    refused: 3,
  },
  repetition_penalty: {
    limits: "finite, above 0",
    bounds: { exclusiveMinimum: 0 },
    effect: NO_SAMPLER,
    taken: 1.5,
    refused: 0,
  },
  logit_bias: {
    limits: "keys are token ids inside the vocabulary; values are cut to -100 to 100",
    effect: seen("100 leaves only the tokens that have it, -100 removes its token; what lies between is nothing"),
    taken: { "5": 100 },
    refused: { x: 1 },
  },
  logprobs: {
    limits: "at most `--max-logprobs`; -1 is the whole vocabulary",
    effect: seen("log probabilities of the answer's tokens; made up, the same for the same request"),
    taken: true,
    refused: "x",
    completions: { bounds: { minimum: -1 }, taken: 2, refused: -2 },
  },
  top_logprobs: {
    limits: "needs `logprobs`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
    effect: seen("so many candidates per token, the sampled one first"),
    taken: 3,
    beside: { logprobs: true },
    refused: -2,
  },
  max_tokens: {
    limits: "1 to the model's context; cut without a word to what the prompt leaves",
    bounds: { minimum: 1 },
    effect: seen("tokens of the answer at most; without it the length is drawn (`--mean-output-tokens`)"),
    taken: 3,
    refused: -1,
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
    taken: 3,
    refused: 0,
  },
  n: {
    limits: "1 to 16,384; 1 at temperature 0",
    bounds: { minimum: 1, maximum: 16_384 },
    effect: seen("so many choices, each a request of the engine with a seed of its own"),
    taken: 2,
    refused: 0,
  },
  response_format: {
    limits: "`json_schema` needs its schema",
    effect: here("a grammar for the answer; here prose comes"),
    taken: { type: "json_object" },
    refused: { type: "xml" },
  },
  seed: { limits: INT64, effect: seen("decides the text, with the position alone"), taken: 6, refused: "x" },
  stop: {
    limits: "at most 4, none empty",
    effect: seen("the answer ends before the first of them, which `stop_reason` names"),
    taken: " ",
    refused: [""],
  },
  stream: { effect: seen("server-sent events"), taken: true, refused: "x" },
  stream_options: {
    limits: "only with `stream`",
    effect: seen("`include_usage`: a last chunk with the usage; `continuous_usage_stats`: usage in every chunk"),
    taken: { include_usage: true },
    beside: { stream: true },
    refused: { include_usage: true },
  },
  temperature: {
    limits: "0 to 2",
    bounds: { minimum: 0, maximum: 2 },
    effect: seen("0 without `seed`: the prompt decides the text; else none"),
    taken: 0,
    beside: { seed: null },
    refused: -1,
  },
  top_p: {
    limits: "above 0, at most 1",
    bounds: { exclusiveMinimum: 0, maximum: 1 },
    effect: NO_SAMPLER,
    taken: 0.5,
    refused: 0,
  },
  top_k: { limits: "-1 or more; 0 and -1 are off", bounds: { minimum: -1 }, effect: NO_SAMPLER, taken: 3, refused: -2 },
  min_p: { limits: "0 to 1", bounds: { minimum: 0, maximum: 1 }, effect: NO_SAMPLER, taken: 0.5, refused: 2 },
  tools: {
    limits: "400 with `tool_choice` other than `none`, as on a server without a tool parser",
    bounds: { minItems: 1 },
    effect: seen("stand in the prompt"),
    taken: [{ type: "function", function: { name: "weather" } }],
    beside: { tool_choice: "none" },
    refused: [],
  },
  tool_choice: {
    limits: "`auto` when tools are given without it; other than `none`: 400, as on a server without a tool parser",
    effect: seen("`none` lets a request with tools pass"),
    taken: "none",
    beside: { tools: [{ type: "function", function: { name: "weather" } }] },
    refused: "some",
  },
  parallel_tool_calls: { effect: neither("without a tool parser"), taken: false, refused: "x" },
  reasoning_effort: { effect: TEMPLATE, taken: "high", refused: "x" },
  thinking_token_budget: {
    limits: "0 or more, or -1 for none; 400 without a reasoning parser",
    effect: neither("-1 is none; any other value is refused without a reasoning parser"),
    taken: -1,
    refused: 5,
  },
  include_reasoning: { effect: neither("without a reasoning parser"), taken: false, refused: "x" },
  user: { effect: neither("ignored"), taken: "somebody", refused: 1 },
  use_beam_search: {
    limits: "completions: not with `stream`, nor `echo` with `logprobs`; neither takes `logprob_token_ids`",
    effect: here("`n` beams, the best first; here `n` answers as without it"),
    taken: true,
    refused: "x",
  },
  length_penalty: { effect: neither("only weighs beams"), taken: 0.5, refused: "x" },
  watermarking: {
    effect: neither("without a watermark in the server's configuration"),
    taken: true,
    refused: "x",
  },
  stop_token_ids: {
    limits: "inside the vocabulary",
    effect: seen("the answer ends with such a token, which `stop_reason` names; its text is left out"),
    taken: null,
    refused: [-1],
  },
  include_stop_str_in_output: {
    effect: seen("the stop string, or the token that ended the answer, is part of the text"),
    taken: true,
    beside: { stop: " " },
    refused: "x",
  },
  ignore_eos: {
    effect: seen("the answer does not end before its limit"),
    taken: true,
    beside: { max_tokens: null },
    refused: "x",
    completions: {
      effect: seen("none: a completion has a limit (16), and ours does not end before it"),
      beside: {},
    },
  },
  min_tokens: {
    limits: "0 to `max_tokens`",
    bounds: { minimum: 0 },
    effect: seen("no end, stop string or stop token before"),
    taken: 8,
    beside: { stop: " " },
    refused: -1,
  },
  skip_special_tokens: {
    effect: seen("false: special tokens of the answer stand in the text"),
    taken: false,
    beside: { allowed_token_ids: [200_006], max_tokens: 2 },
    refused: "x",
  },
  spaces_between_special_tokens: {
    effect: neither("byte-level tokenizers put no spaces there"),
    taken: false,
    refused: "x",
  },
  truncate_prompt_tokens: {
    limits: "-1 to the model's context; -1 leaves room for one token of the answer",
    effect: seen("keeps so many tokens of the prompt"),
    taken: 2,
    refused: -2,
  },
  truncation_side: {
    effect: seen("`right` keeps the first tokens, `left` the last (the default)"),
    taken: "right",
    beside: { truncate_prompt_tokens: 2, return_token_ids: true },
    refused: "middle",
  },
  prompt_logprobs: {
    limits: "not with `stream`; at most `--max-logprobs`; -1 is the whole vocabulary",
    bounds: { minimum: -1 },
    effect: seen("log probabilities of the prompt, made up; its blocks are not looked up in the prefix cache"),
    taken: 1,
    refused: -2,
  },
  logprob_token_ids: {
    limits: "needs `logprobs`; at most 128, inside the vocabulary; not with beam search",
    bounds: { maxItems: 128 },
    effect: seen("these tokens are the candidates beside the sampled one, all of them"),
    taken: [5, 7],
    beside: { logprobs: true },
    refused: [-1],
    completions: { beside: { logprobs: 1 } },
  },
  allowed_token_ids: {
    limits: "not empty, inside the vocabulary",
    bounds: { minItems: 1 },
    effect: seen("the answer has no other tokens"),
    taken: [5, 7],
    refused: [],
  },
  bad_words: {
    limits: "none empty; at most 128 after tokenizing",
    effect: seen("the answer has none of them, at its beginning or after a blank"),
    taken: ["river"],
    refused: [""],
  },
  add_generation_prompt: {
    effect: seen("false: the prompt does not ask for an answer, and the last message's role speaks"),
    taken: false,
    refused: "x",
  },
  continue_final_message: {
    limits: "not both true when both are given",
    effect: seen("the last message stays open in the prompt"),
    taken: true,
    beside: { add_generation_prompt: false },
    refused: "x",
  },
  add_special_tokens: {
    effect: here("special tokens in front of the prompt; the built-in vocabulary has none to put there"),
    taken: true,
    refused: "x",
    completions: { taken: false },
  },
  documents: { effect: TEMPLATE, taken: [{ title: "x", text: "y" }], refused: 1 },
  chat_template: {
    limits: "400: needs a server that trusts its clients' templates",
    effect: seen("the refusal"),
    taken: null,
    refused: "{{ messages }}",
  },
  chat_template_kwargs: {
    limits: "no `chat_template` inside",
    effect: TEMPLATE,
    taken: { enable_thinking: false },
    refused: { chat_template: "x" },
  },
  media_io_kwargs: {
    limits: "400 unless empty: needs a server that trusts its clients",
    effect: seen("the refusal"),
    taken: null,
    refused: { image: { x: 1 } },
  },
  mm_processor_kwargs: {
    limits: "400 unless empty: needs a server that trusts its clients",
    effect: seen("the refusal"),
    taken: null,
    refused: { x: 1 },
  },
  structured_outputs: {
    limits: "exactly one of `json`, `regex`, `choice`, `grammar`, `json_object`, `structural_tag`",
    effect: here("a grammar for the answer; here prose comes"),
    taken: { regex: "[0-9]+" },
    refused: { json: "{}", regex: "a" },
  },
  priority: {
    limits: INT64,
    effect: seen("smaller runs first, with `--scheduling-policy priority`; header `X-Vllm-Priority` wins"),
    taken: -1,
    refused: "x",
  },
  request_id: {
    effect: seen("the answer's id ends with it; header `X-Request-Id` wins"),
    taken: "mine",
    refused: 1,
  },
  session_id: { effect: neither("for connectors and routers in front"), taken: "s", refused: 1 },
  return_tokens_as_token_ids: {
    effect: seen("tokens of log probabilities are written `token_id:7`"),
    taken: true,
    beside: { logprobs: true },
    refused: "x",
    completions: { beside: { logprobs: 1 } },
  },
  return_token_ids: { effect: seen("ids of prompt and answer stand in the answer"), taken: true, refused: "x" },
  return_weight_versions: {
    effect: neither("null until weights are updated while the server runs"),
    taken: true,
    refused: "x",
  },
  routed_experts_prompt_start: {
    limits: "0 to the prompt's length",
    effect: neither("without `--enable-return-routed-experts`"),
    taken: 1,
    refused: -1,
  },
  return_token_offsets: { effect: RENDER_ONLY, taken: true, refused: "x" },
  return_prompt_text: { effect: seen("the prompt as the template made it"), taken: true, refused: "x" },
  mm_payload: { effect: RENDER_ONLY, taken: "none", refused: "x" },
  return_mm_kwargs: { effect: RENDER_ONLY, taken: false, refused: "x" },
  cache_salt: {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
    bounds: { minLength: 1, maxLength: 128, pattern: "^[^@/\\\\\\x00]+$" },
    effect: seen("requests share blocks of the prefix cache only with those of the same salt"),
    taken: "pepper",
    refused: "",
  },
  kv_transfer_params: {
    effect: neither("without a connector"),
    taken: { do_remote_decode: true },
    refused: 1,
  },
  ec_transfer_params: { effect: neither("without a connector"), taken: { x: 1 }, refused: 1 },
  vllm_xargs: {
    limits: "integers within 64 bits",
    effect: neither("without plugins that read it"),
    taken: { a: 1 },
    refused: 1,
  },
  repetition_detection: {
    limits: "sizes 0 or more, the smallest not above the largest; `min_count` 2 or more",
    effect: here("may end an answer with `repetition`; no answer of ours repeats itself"),
    taken: { max_pattern_size: 4, min_count: 2 },
    refused: { max_pattern_size: 4, min_count: 1 },
  },
  stream_interval: {
    limits: "1 or more; below `--stream-interval` that counts",
    effect: seen("tokens per chunk, but for the first and the last"),
    taken: 4,
    beside: { stream: true },
    refused: 0,
  },
  suffix: {
    limits: "400: only models that fill in the middle take it",
    effect: seen("the refusal"),
    taken: null,
    refused: "the end",
  },
  prompt_embeds: {
    limits: "400 without `--enable-prompt-embeds`",
    effect: seen("the refusal"),
    taken: null,
    refused: "AAAA",
  },
};

export type Kind = "chat" | "completions";

/** The row of a field as it holds in one of the two. */
export function parameterOf(kind: Kind, name: keyof typeof parameters): Parameter {
  const { chat, completions, ...row } = parameters[name];
  return { ...row, ...(kind === "chat" ? chat : completions) };
}
