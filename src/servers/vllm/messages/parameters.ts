/**
 * What does a client see of each field of `/v1/messages`? One row per field of `fields.ts`; `docs/reference/parameters.md` and the OpenAPI
 * page come from both, `test/conformance/dialect-parameters.test.ts` tries every row on a live server.
 */
import { NO_SAMPLER, neither, type Parameter, RENDER_ONLY, seen, TEMPLATE } from "../../openai/docs/parameter.ts";
import type { countFields, messagesFields } from "./fields.ts";

export const messagesParameters: Readonly<Record<keyof typeof messagesFields | keyof typeof countFields, Parameter>> = {
  model: {
    limits: "a served name or an adapter's; not empty",
    effect: seen("`model` of the answer; another name is 404"),
  },
  messages: {
    limits: "at least one; roles `user`, `assistant`, `system`",
    effect: seen("the prompt; results of tools become messages of their own, thinking stays in history"),
  },
  max_tokens: {
    limits: "1 to the context's length",
    effect: seen("most output tokens; `stop_reason` is then `max_tokens`"),
  },
  metadata: { effect: neither("ignored") },
  output_config: {
    limits: "`effort` low to max, `format` with a JSON schema",
    effect: seen("as chat's `response_format` and `reasoning_effort`"),
  },
  thinking: {
    limits: "a budget of 1024 or more, below `max_tokens`; 400 without a reasoning parser",
    effect: seen(
      "with `--reasoning-parser`: most tokens of thinking, or none for `disabled` where the parser is qwen3",
    ),
  },
  stop_sequences: { limits: "at most 4", effect: seen("the answer ends in front of one, `stop_sequence` names it") },
  stream: { effect: seen("events `message_start` to `message_stop`") },
  system: { effect: seen("a system message in front") },
  temperature: {
    limits: "0 or more",
    effect: seen("at 0 the prompt decides the text; else " + "no sampler: answers are drawn without a model"),
  },
  tool_choice: {
    limits: "`name` with `tool`; other than `none` it needs a tool parser",
    effect: seen("as chat's: auto, any is required, tool is named"),
  },
  tools: {
    limits: "without `tool_choice` none they need a tool parser",
    effect: seen("stand in the prompt; calls, with a tool parser"),
  },
  top_k: { limits: "0 or more, or -1", effect: NO_SAMPLER },
  top_p: { limits: "above 0, at most 1", effect: NO_SAMPLER },
  mm_payload: { effect: RENDER_ONLY },
  return_mm_kwargs: { effect: RENDER_ONLY },
  cache_salt: {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
    effect: seen("requests share blocks of the prefix cache only with those of the same salt"),
  },
  watermarking: { effect: neither("without a watermark configuration") },
  kv_transfer_params: { effect: neither("without a connector") },
  ec_transfer_params: { effect: neither("without a connector") },
  vllm_xargs: { limits: "integers within 64 bits", effect: neither("without plugins that read it") },
  chat_template_kwargs: { effect: TEMPLATE },
};
