/**
 * Which fields does a request have, and what do they mean here? Names of `openai_protocol.py` (1.3 line), where unknown ones
 * are forbidden; most mean what they mean for vLLM, whose tables check them. `toVllm` makes such a body of one.
 */
import { Refused } from "../python/errors.ts";
import { get, isDict, keysOf, numberOf, type PythonDict, remove, set, truthy } from "../python/value.ts";
import { bodyError, flatError, schemaErrors } from "./errors.ts";
import { useSampling } from "./sampling.ts";

/** Those that chats and completions share under one meaning. */
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

/** They change nothing of what an engine without weights does. */
const WITHOUT_EFFECT = [
  ...["prompt_ignore_length", "best_of", "use_beam_search", "top_p_min", "length_penalty", "early_stopping"],
  ...["conversation_params", "thinking", "injected_chat_template_kwargs", "agent_hierarchy", "return_context_logits"],
];
/** Refused where they say something: they name what does not exist here. */
const NOT_HERE = ["lora_request", "disaggregated_params", "prompt_token_ids", "prompt_token_ids_b64"];

/** More than any context: the answer goes on to its end. */
const NO_LIMIT = 2 ** 31 - 1;
/** Steps of the engine's priorities between 0 and 1. */
const PRIORITIES = 1_000_000;

/** Throws `Refused`; changes the body. */
export function toVllm(body: PythonDict, known: ReadonlySet<string>): void {
  const isChat = known === CHAT_NAMES;
  checkWhole(body, isChat);
  checkNames(body, known, ["model", isChat ? "messages" : "prompt"]);
  for (const name of NOT_HERE) {
    if ((get(body, name) ?? null) !== null) throw new Refused(flatError(`${name} is not supported by this server`));
    remove(body, name);
  }
  useSampling(body);
  for (const name of WITHOUT_EFFECT) remove(body, name);
  const options = get(body, "stream_options");
  if (isDict(options) && get(options, "include_usage") === undefined) set(options, "include_usage", true);
  usePriority(body);
  useFormat(body);
  if (isChat) return;
  remove(body, "suffix");
  if ((get(body, "max_tokens") ?? null) === null) set(body, "max_tokens", NO_LIMIT);
  if (get(body, "detokenize") === false) set(body, "return_token_ids", true);
  remove(body, "detokenize");
}

/** What validators of the whole body say, before any field is looked at. */
function checkWhole(body: PythonDict, isChat: boolean): void {
  if (!isChat && truthy(get(body, "suffix"))) throw new Refused(bodyError("suffix is not supported", body));
  if (truthy(get(body, "stream"))) return;
  const options = get(body, "stream_options");
  if (isChat && (options ?? null) !== null)
    throw new Refused(bodyError("stream_options can only be set if stream is true", body));
  if (!isChat && truthy(options))
    throw new Refused(bodyError("Stream options can only be defined when stream is true.", body));
}

function checkNames(body: PythonDict, known: ReadonlySet<string>, needed: readonly string[]): void {
  const missing = needed.filter((name) => get(body, name) === undefined);
  const extra = keysOf(body).filter((name) => !known.has(name));
  if (missing.length + extra.length === 0) return;
  throw new Refused(
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

/** From 0 to 1, the larger first; the engine takes whole numbers, the smaller first. */
function usePriority(body: PythonDict): void {
  const given = get(body, "priority");
  if ((given ?? null) === null) {
    remove(body, "priority");
    return;
  }
  const priority = numberOf(given);
  if (priority === undefined) return; // the table says what is wrong
  if (!(priority >= 0 && priority <= 1)) {
    const [type, sign, bound] = priority < 0 ? ["greater_than_equal", "greater", 0] : ["less_than_equal", "less", 1];
    const message = `Input should be ${sign} than or equal to ${bound}`;
    throw new Refused(schemaErrors([{ type: `${type}`, loc: ["body", "priority"], message, input: given! }]));
  }
  set(body, "priority", Math.round((1 - priority) * PRIORITIES));
}

/** vLLM has other names for three of the formats. */
function useFormat(body: PythonDict): void {
  const format = get(body, "response_format");
  if (!isDict(format)) return;
  const type = get(format, "type");
  const structured = (key: string, value: string) => {
    const pattern = get(format, value);
    if ((pattern ?? null) === null)
      throw new Refused(
        flatError(`The ${value} field is required when response_format.type is '${value}', but got None.`),
      );
    remove(body, "response_format");
    set(body, "structured_outputs", { [key]: pattern! });
  };
  if (type === "regex") structured("regex", "regex");
  else if (type === "ebnf") structured("grammar", "ebnf");
  else if (type === "json") {
    const schema = get(format, "schema");
    if (!isDict(schema))
      throw new Refused(flatError("The schema field is required when response_format.type is 'json', but got None."));
    set(body, "response_format", { type: "json_schema", json_schema: { name: "schema", schema } });
  }
}
