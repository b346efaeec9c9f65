/**
 * Checks and converts the fields of requests, from `tensorrt_llm/serve/openai_protocol.py` (version 1.3), which forbids unknown
 * fields. Most fields have the same meaning as in vLLM. `toVllm` changes a body into one of vLLM's, which vLLM's tables then
 * check.
 */

import { type ErrorAnswer, refuse } from "../pydantic/refusals.ts";
import type { LineError } from "../pydantic/types.ts";
import {
  get,
  isDict,
  isList,
  keysOf,
  numberOf,
  type PythonDict,
  type PythonValue,
  remove,
  set,
  truthy,
} from "../pydantic/value.ts";
import { bodyError, flatError, schemaErrors } from "./errors.ts";
import { useSampling } from "./sampling.ts";

/** Fields with the same meaning in chats and completions. */
const COMMON =
  "model frequency_penalty logit_bias logprobs n presence_penalty response_format seed stop stream stream_options temperature " +
  "top_p user prompt_ignore_length best_of use_beam_search top_k top_p_min min_p repetition_penalty length_penalty " +
  "early_stopping stop_token_ids include_stop_str_in_output ignore_eos min_tokens skip_special_tokens " +
  "spaces_between_special_tokens truncate_prompt_tokens lora_request echo add_special_tokens max_tokens " +
  "thinking_token_budget disaggregated_params conversation_params priority understudy";
const names = (text: string) => new Set(`${COMMON} ${text}`.split(" "));

export const CHAT_NAMES: ReadonlySet<string> = names(
  "messages prompt_token_ids prompt_token_ids_b64 top_logprobs max_completion_tokens tools tool_choice " +
    "parallel_tool_calls reasoning_effort thinking add_generation_prompt documents chat_template chat_template_kwargs " +
    "injected_chat_template_kwargs media_io_kwargs cache_salt agent_hierarchy mm_processor_kwargs",
);
export const COMPLETION_NAMES: ReadonlySet<string> = names("prompt suffix return_context_logits detokenize");

/** Accepted fields that have no effect, because the engine has no model weights. */
const WITHOUT_EFFECT = [
  ...["prompt_ignore_length", "best_of", "use_beam_search", "top_p_min", "length_penalty", "early_stopping"],
  "parallel_tool_calls",
  ...["conversation_params", "thinking", "injected_chat_template_kwargs", "agent_hierarchy", "return_context_logits"],
];
/** Fields for features that this server lacks. Every value except null is refused. */
const NOT_HERE = ["lora_request", "disaggregated_params", "prompt_token_ids", "prompt_token_ids_b64"];

/**
 * Value of `max_tokens` for a completion without that field. It is larger than any context, so the context length ends the
 * answer.
 */
const NO_LIMIT = 2 ** 31 - 1;
/** Number of steps into which priorities from 0 to 1 are divided, because the engine uses whole numbers. */
const PRIORITIES = 1_000_000;

/** Changes a body of trtllm-serve into one of vLLM's. `known`: the accepted field names. Throws `RefusedRequest`. */
export function toVllm(body: PythonDict, known: ReadonlySet<string>): void {
  const isChat = known === CHAT_NAMES;
  checkWhole(body, isChat);
  checkNames(body, known, isChat ? ["messages", "model"] : ["model", "prompt"]);
  if (!isChat) usePrompt(body);
  for (const name of NOT_HERE) {
    if ((get(body, name) ?? null) !== null) refuse(flatError(`${name} is not supported by this server`));
    remove(body, name);
  }
  useSampling(body);
  for (const name of WITHOUT_EFFECT) remove(body, name);
  const options = get(body, "stream_options");
  // `checkWhole` has refused stream_options without a stream, except an empty object, which has no effect.
  if (isDict(options) && get(options, "include_usage") === undefined && truthy(get(body, "stream")))
    set(options, "include_usage", true);
  usePriority(body);
  useFormat(body);
  if (isChat) {
    checkSalt(get(body, "cache_salt"));
    useTools(body);
    return;
  }
  remove(body, "suffix");
  if ((get(body, "max_tokens") ?? null) === null) set(body, "max_tokens", NO_LIMIT);
  if (get(body, "detokenize") === false) set(body, "return_token_ids", true);
  remove(body, "detokenize");
}

/**
 * Checks the body as a whole, before single fields are checked. Keeps pydantic's order, in which the validator defined last
 * runs first.
 */
function checkWhole(body: PythonDict, isChat: boolean): void {
  if (truthy(get(body, "suffix"))) refuse(bodyError("suffix is not supported", body));
  if (isChat) {
    if ((get(body, "top_logprobs") ?? null) !== null && !truthy(get(body, "logprobs")))
      refuse(bodyError("logprobs must be true when using top_logprobs", body));
    checkToolChoice(body);
  }
  if (truthy(get(body, "stream"))) return;
  const options = get(body, "stream_options");
  if (isChat && (options ?? null) !== null) refuse(bodyError("stream_options can only be set if stream is true", body));
  if (!isChat && truthy(options)) refuse(bodyError("Stream options can only be defined when stream is true.", body));
}

/** Checks `prompt`. An empty list gets the message of the IndexError that the real server raises when it reads the first item. */
function usePrompt(body: PythonDict): void {
  const prompt = get(body, "prompt");
  if (prompt === null) refuse(schemaErrors(["list", "list", "string", "list"].map(noPrompt)));
  if (isList(prompt) && prompt.length === 0) refuse(flatError("list index out of range"));
  if (prompt === "") set(body, "prompt", [""]);
}

function noPrompt(type: string): LineError {
  return { type: `${type}_type`, loc: ["body", "prompt"], message: `Input should be a valid ${type}`, input: null };
}

/** Sets `tool_choice` to "auto" if there are tools. Without tools, refuses a choice that needs a tool. */
function checkToolChoice(body: PythonDict): void {
  const hasTools = truthy(get(body, "tools"));
  if (hasTools && get(body, "tool_choice") === undefined) set(body, "tool_choice", "auto");
  const choice = get(body, "tool_choice");
  if (hasTools || choice === undefined || choice === "none" || choice === "auto") return;
  refuse(bodyError("When using `tool_choice`, `tools` must be set.", body));
}

/** Removes an empty list of tools, and treats a `tool_choice` of null as "auto". */
function useTools(body: PythonDict): void {
  const tools = get(body, "tools") ?? null;
  if (tools === null || (isList(tools) && tools.length === 0)) {
    remove(body, "tools");
    remove(body, "tool_choice");
  } else if (get(body, "tool_choice") === null) set(body, "tool_choice", "auto");
}

function checkSalt(salt: PythonValue | undefined): void {
  if (typeof salt !== "string" || salt.trim() !== "") return;
  const raised = "Parameter 'cache_salt' must be a non-empty string if provided.";
  refuse(
    schemaErrors([
      { type: "value_error", loc: ["body", "cache_salt"], message: `Value error, ${raised}`, input: salt, raised },
    ]),
  );
}

/** Refuses missing and unknown fields. `known`: accepted names; null accepts every name. Throws `RefusedRequest`. */
export function checkNames(body: PythonDict, known: ReadonlySet<string> | null, needed: readonly string[]): void {
  const missing = needed.filter((name) => get(body, name) === undefined);
  const extra = keysOf(body).filter((name) => known?.has(name) === false);
  if (missing.length + extra.length === 0) return;
  refuse(
    schemaErrors([
      ...missing.map((name) => ({ type: "missing", loc: ["body", name], message: "Field required", input: body })),
      ...extra.map((name) => ({
        type: "extra_forbidden",
        loc: ["body", name],
        message: "Extra inputs are not permitted",
        input: get(body, name)!,
      })),
    ]),
  );
}

/** Converts a priority from 0 to 1, where 1 runs first, to a whole number for the engine, where 0 runs first. */
function usePriority(body: PythonDict): void {
  const value = get(body, "priority");
  if ((value ?? null) === null) {
    remove(body, "priority");
    return;
  }
  const priority = numberOf(value);
  if (priority === undefined) return; // the table of fields refuses a priority that is not a number
  if (!(priority >= 0 && priority <= 1)) {
    const [type, sign, bound] = priority < 0 ? ["greater_than_equal", "greater", 0] : ["less_than_equal", "less", 1];
    const message = `Input should be ${sign} than or equal to ${bound}`;
    refuse(schemaErrors([{ type: `${type}`, loc: ["body", "priority"], message, input: value! }]));
  }
  set(body, "priority", Math.round((1 - priority) * PRIORITIES));
}

/** Describes each type of `response_format`: the member that contains the format, and its name in vLLM's `structured_outputs`. */
const FORMATS = new Map<PythonValue | undefined, readonly [member: string, structured: string | null]>([
  ["json", ["schema", null]],
  ["json_schema", ["json_schema", null]],
  ["regex", ["regex", "regex"]],
  ["ebnf", ["ebnf", "grammar"]],
]);

/** Converts `response_format` to the form that vLLM expects. */
function useFormat(body: PythonDict): void {
  const format = get(body, "response_format");
  if (!isDict(format)) return;
  const type = get(format, "type");
  const [member, structured] = FORMATS.get(type) ?? [];
  if (member === undefined) return;
  const value = get(format, member) ?? null;
  if (value === null)
    refuse(flatError(`response_format.${member} is required for response_format.type == '${type}', but got None.`));
  if (!structured && !isDict(value)) refuse(noDict(member, value));
  if (structured) {
    remove(body, "response_format");
    set(body, "structured_outputs", { [structured]: value });
  } else
    set(body, "response_format", {
      type: "json_schema",
      json_schema: { name: "schema", schema: type === "json" ? value : schemaOf(value) },
    });
}

function noDict(member: string, input: PythonValue): ErrorAnswer {
  const loc = ["body", "response_format", member];
  return schemaErrors([{ type: "dict_type", loc, message: "Input should be a valid dictionary", input }]);
}

/** Returns the schema inside OpenAI's wrapper. A schema without the wrapper is accepted, too. */
function schemaOf(value: PythonValue): PythonValue {
  return (isDict(value) && get(value, "schema")) || value;
}
