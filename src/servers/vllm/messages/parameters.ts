/**
 * Describes the effect of each field of `/v1/messages`, one row per field of `fields.ts`. `docs/reference/parameters.md` and the OpenAPI
 * document are generated from both. `test/conformance/dialect-parameters.test.ts` tries each row on a live server.
 */
import { IN_RESPONSES_AND_MESSAGES, neither, type Parameter, seen } from "../../openai/docs/parameter.ts";
import type { countFields, messagesFields } from "./fields.ts";

export const messagesParameters: Readonly<Record<keyof typeof messagesFields | keyof typeof countFields, Parameter>> = {
  ...IN_RESPONSES_AND_MESSAGES,
  model: {
    limits: "a served name or an adapter's; not empty",
    effect: seen("`model` of the answer; 404 for other names"),
  },
  messages: {
    limits: "at least one; roles `user`, `assistant`, `system`",
    effect: seen("the prompt; each result of a tool becomes its own message, thinking stays in the history"),
  },
  max_tokens: {
    limits: "1 to the context's length",
    effect: seen("most output tokens; at this limit `stop_reason` is `max_tokens`"),
  },
  metadata: { effect: neither("ignored") },
  output_config: {
    limits: "`effort` low to max, `format` with a JSON schema",
    effect: seen("as `response_format` and `reasoning_effort` of chat"),
  },
  thinking: {
    limits: "a budget of 1024 or more, below `max_tokens`; 400 without a reasoning parser",
    effect: seen("with `--reasoning-parser`: most tokens of thinking; with `disabled` and the parser qwen3 none"),
  },
  stop_sequences: {
    limits: "at most 4",
    effect: seen("the answer ends before the first of them, which `stop_sequence` names"),
  },
  stream: { effect: seen("the answer is a stream of events, `message_start` to `message_stop`") },
  system: { effect: seen("a system message at the start of the prompt") },
  tool_choice: {
    limits: "`name` with `tool`; other than `none` it needs a tool parser",
    effect: seen("as in chat: `any` means `required`, `tool` names a tool"),
  },
  tools: {
    limits: "without `tool_choice` none they need a tool parser",
    effect: seen("added to the prompt; called, with a tool parser"),
  },
};
