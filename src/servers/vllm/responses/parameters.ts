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
  background: {
    limits: "400 unless responses are stored (`--response-store`)",
    effect: seen(
      "the answer at once has status `queued` and is generated meanwhile; with `stream` its events can be read again",
    ),
  },
  include: {
    limits: "OpenAI's names",
    effect: seen("`message.output_text.logprobs`: log probabilities; other names have no effect in vLLM either"),
  },
  input: {
    limits: "a text, or items: messages, calls of functions and their outputs, thinking",
    effect: seen("the prompt"),
  },
  instructions: { effect: seen("a system message at the start of the prompt") },
  max_output_tokens: {
    limits: "1 to the context's length",
    effect: seen("most output tokens; at this limit the status is `incomplete`"),
  },
  max_tool_calls: { effect: neither("counts calls of tools that the server runs") },
  metadata: { effect: REPEATED },
  model: {
    limits: "a served name or an adapter's; null means the first served name",
    effect: seen("`model` of the answer"),
  },
  logit_bias: {
    limits: "ids inside the vocabulary, -100 to 100",
    effect: seen("100 allows only the tokens with this value, -100 forbids its token"),
  },
  parallel_tool_calls: { effect: seen("false: at most one call") },
  previous_response_id: {
    limits: "ID of a stored response; else 404",
    effect: seen("the prompt starts with its messages and its answer"),
  },
  prompt: refusing("400: templates are not supported"),
  reasoning: { effect: seen("`effort` as `reasoning_effort` of chat") },
  include_reasoning: { effect: seen("with `--reasoning-parser`, false leaves the reasoning out of the answer") },
  service_tier: { effect: REPEATED },
  store: { effect: seen("false: the response is not stored") },
  stream: { effect: seen("the answer is a stream of events, numbered from 0") },
  text: { limits: "`format` of type text, json_object or json_schema", effect: seen("as `response_format` of chat") },
  tool_choice: { limits: "with `tools`; other than `none` it needs a tool parser", effect: seen("as in chat") },
  tools: {
    limits: "functions; other tools are accepted, but not added to the prompt",
    effect: seen("added to the prompt; called, with a tool parser"),
  },
  top_logprobs: { limits: "0 to `--max-logprobs`", effect: seen("candidates per token, with `include`") },
  min_p: { limits: "0 to 1", effect: NO_SAMPLER },
  truncation: { effect: seen("auto: cuts the start of a prompt that is too long") },
  user: { effect: REPEATED },
  skip_special_tokens: { effect: seen("false: special tokens are part of the text") },
  spaces_between_special_tokens: { effect: neither("with fast tokenizers") },
  include_stop_str_in_output: { effect: seen("the stop string stays in the text") },
  presence_penalty: { limits: "-2 to 2", effect: NO_SAMPLER },
  frequency_penalty: { limits: "-2 to 2", effect: NO_SAMPLER },
  prompt_cache_key: { effect: REPEATED },
  prompt_cache_options: { effect: REPEATED },
  prompt_cache_retention: { effect: REPEATED },
  safety_identifier: { effect: REPEATED },
  request_id: { effect: seen("the answer's id") },
  enable_response_messages: { effect: here("adds raw prompts and outputs to the answer; here both stay null") },
  previous_input_messages: { limits: "not with `previous_response_id`", effect: neither("for gpt-oss models only") },
  structured_outputs: { limits: "as in chat; not with `text.format`", effect: seen("as in chat") },
  repetition_penalty: { limits: "above 0", effect: NO_SAMPLER },
  seed: { limits: INT64, effect: seen("the same seed gives the same text") },
  stop: { limits: "at most 4, none empty", effect: seen("the answer ends before the first of them") },
  stop_token_ids: { limits: "ids inside the vocabulary", effect: seen("the answer ends with such a token") },
};
