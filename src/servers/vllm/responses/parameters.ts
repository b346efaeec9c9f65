/**
 * Describes the effect of each field of `/v1/responses`, one row per field of `fields.ts`. `docs/reference/parameters.md` and the OpenAPI
 * document are generated from both. `test/conformance/dialect-parameters.test.ts` tries each row on a live server.
 */
import {
  here,
  IN_CHATS_AND_RESPONSES,
  IN_RESPONSES_AND_MESSAGES,
  INT64,
  NO_SAMPLER,
  neither,
  type Parameter,
  refusing,
  seen,
} from "../../openai/docs/parameter.ts";
import type { responsesFields } from "./fields.ts";

const REPEATED = neither("repeated in the answer");

export const responsesParameters: Readonly<Record<keyof typeof responsesFields, Parameter>> = {
  ...IN_CHATS_AND_RESPONSES,
  ...IN_RESPONSES_AND_MESSAGES,
  background: seen(
    "the answer at once has status `queued` and is generated meanwhile; with `stream` its events can be read again",
    { limits: "400 unless responses are stored (`--response-store`)" },
  ),
  include: seen("`message.output_text.logprobs`: log probabilities; other names have no effect in vLLM either", {
    limits: "OpenAI's names",
  }),
  input: seen("the prompt", { limits: "a text, or items: messages, calls of functions and their outputs, thinking" }),
  instructions: seen("a system message at the start of the prompt"),
  max_output_tokens: seen("most output tokens; at this limit the status is `incomplete`", {
    limits: "1 to the context's length",
  }),
  max_tool_calls: neither("counts calls of tools that the server runs"),
  metadata: REPEATED,
  model: seen("`model` of the answer", { limits: "a served name or an adapter's; null means the first served name" }),
  logit_bias: seen("100 allows only the tokens with this value, -100 forbids its token", {
    limits: "ids inside the vocabulary, -100 to 100",
  }),
  parallel_tool_calls: seen("false: at most one call"),
  previous_response_id: seen("the prompt starts with its messages and its answer", {
    limits: "ID of a stored response; else 404",
  }),
  prompt: refusing("400: templates are not supported"),
  reasoning: seen("`effort` as `reasoning_effort` of chat"),
  include_reasoning: seen("with `--reasoning-parser`, false leaves the reasoning out of the answer"),
  service_tier: REPEATED,
  store: seen("false: the response is not stored"),
  stream: seen("the answer is a stream of events, numbered from 0"),
  text: seen("as `response_format` of chat", { limits: "`format` of type text, json_object or json_schema" }),
  tool_choice: seen("as in chat", { limits: "with `tools`; other than `none` it needs a tool parser" }),
  tools: seen("added to the prompt; called, with a tool parser", {
    limits: "functions; other tools are accepted, but not added to the prompt",
  }),
  top_logprobs: seen("candidates per token, with `include`", { limits: "0 to `--max-logprobs`" }),
  min_p: { ...NO_SAMPLER, limits: "0 to 1" },
  truncation: seen("auto: cuts the start of a prompt that is too long"),
  user: REPEATED,
  skip_special_tokens: seen("false: special tokens are part of the text"),
  spaces_between_special_tokens: neither("with fast tokenizers"),
  include_stop_str_in_output: seen("the stop string stays in the text"),
  presence_penalty: { ...NO_SAMPLER, limits: "-2 to 2" },
  frequency_penalty: { ...NO_SAMPLER, limits: "-2 to 2" },
  prompt_cache_key: REPEATED,
  prompt_cache_options: REPEATED,
  prompt_cache_retention: REPEATED,
  safety_identifier: REPEATED,
  request_id: seen("the answer's id"),
  enable_response_messages: here("adds raw prompts and outputs to the answer; here both stay null"),
  previous_input_messages: neither("for gpt-oss models only", { limits: "not with `previous_response_id`" }),
  structured_outputs: seen("as in chat", { limits: "as in chat; not with `text.format`" }),
  repetition_penalty: { ...NO_SAMPLER, limits: "above 0" },
  seed: seen("the same seed gives the same text", { limits: INT64 }),
  stop: seen("the answer ends before the first of them", { limits: "at most 4, none empty" }),
  stop_token_ids: seen("the answer ends with such a token", { limits: "ids inside the vocabulary" }),
};
