/**
 * Describes the effect of each field of `/v1/messages`, one row per field of `fields.ts`. `docs/reference/parameters.md` and the OpenAPI
 * document are generated from both. `test/conformance/dialect-parameters.test.ts` tries each row on a live server.
 */
import { IN_RESPONSES_AND_MESSAGES, neither, type Parameter, seen } from "../../openai/docs/parameter.ts";
import type { countFields, messagesFields } from "./fields.ts";

export const messagesParameters: Readonly<Record<keyof typeof messagesFields | keyof typeof countFields, Parameter>> = {
  ...IN_RESPONSES_AND_MESSAGES,
  model: seen("`model` of the answer; 404 for other names", { limits: "a served name or an adapter's; not empty" }),
  messages: seen("the prompt; each result of a tool becomes its own message, thinking stays in the history", {
    limits: "at least one; roles `user`, `assistant`, `system`",
  }),
  max_tokens: seen("most output tokens; at this limit `stop_reason` is `max_tokens`", {
    limits: "1 to the context's length",
  }),
  metadata: neither("ignored"),
  output_config: seen("as `response_format` and `reasoning_effort` of chat", {
    limits: "`effort` low to max, `format` with a JSON schema",
  }),
  thinking: seen("with `--reasoning-parser`: most tokens of thinking; with `disabled` and the parser qwen3 none", {
    limits: "a budget of 1024 or more, below `max_tokens`; 400 without a reasoning parser",
  }),
  stop_sequences: seen("the answer ends before the first of them, which `stop_sequence` names", {
    limits: "at most 4",
  }),
  stream: seen("the answer is a stream of events, `message_start` to `message_stop`"),
  system: seen("a system message at the start of the prompt"),
  tool_choice: seen("as in chat: `any` means `required`, `tool` names a tool", {
    limits: "`name` with `tool`; other than `none` it needs a tool parser",
  }),
  tools: seen("added to the prompt; called, with a tool parser", {
    limits: "without `tool_choice` none they need a tool parser",
  }),
};
