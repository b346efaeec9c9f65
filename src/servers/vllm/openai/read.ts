/**
 * Reads bodies as chats or completions. The rules for several fields come first: vLLM's `mode="before"` validators, which see
 * the raw body. They run in reverse order of definition, and the first that fails throws `RefusedRequest`. Source: vLLM 0.33,
 * `chat_completion/protocol.py` and `completion/protocol.py`.
 */

import type { Pieces } from "../../../base/pieces.ts";
import type { ChatChanges } from "../../openai/pipeline/dialect.ts";
import type { BodyReader, Form } from "../../openai/pipeline/form.ts";
import { badRequest, refuseValue, unexpectedError } from "../../openai/request/errors.ts";
import type { ChatRequest, CompletionRequest, GenerationRequest, Limits } from "../../openai/request/request.ts";
import { type BodyKind, type ReadBody, readerOf } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { repr, str } from "../../pydantic/repr.ts";
import { FAIL, State } from "../../pydantic/types.ts";
import { validator } from "../../pydantic/validate.ts";
import {
  codePoints,
  get,
  isDict,
  isList,
  iterate,
  numberOf,
  type PythonDict,
  type PythonValue,
  remove,
  set,
  truthy,
  typeName,
} from "../../pydantic/value.ts";
import { anyStructuralTag } from "./field-types.ts";
import { type ChatValues, type CompletionValues, chatFields, completionFields } from "./fields.ts";
import { ChatForm, CompletionForm } from "./form.ts";
import { toChat, toChatPieces, toCompletion } from "./translate.ts";

const chat: BodyKind<typeof chatFields, ChatRequest, Limits> = {
  validator: validator(chatFields),
  rules: applyChatRules,
  translate: (values, body, limits, exact) => toChat(values as ChatValues, body, limits, exact),
  translatePieces: (values, body, limits, exact) => toChatPieces(values as ChatValues, body, limits, exact),
};
const completion: BodyKind<typeof completionFields, CompletionRequest, Limits> = {
  validator: validator(completionFields),
  rules: applyCompletionRules,
  translate: (values, body, limits, exact) => toCompletion(values as CompletionValues, body, limits, exact),
};

/** Read a body of `/v1/chat/completions`. Return the request with all defaults, or vLLM's error. */
export const { read: readChat, pieces: chatPieces } = readerOf(chat, (read) => read);
/** Read a body of `/v1/completions`. Return the request with all defaults, or vLLM's error. */
export const { read: readCompletion, pieces: completionPieces } = readerOf(completion, (read) => read);

export const chatReader: BodyReader = { ...readerOf(chat, withForm), thread: "chat", formOf };
export const completionReader: BodyReader = { ...readerOf(completion, withForm), thread: "completion", formOf };

/** Adds the form of the answer to a request that was read. */
export function withForm(read: ReadBody<GenerationRequest>): ReturnType<BodyReader["read"]> {
  if ("error" in read) return read;
  const { request } = read;
  return { request, form: formOf(request) };
}

/** Returns the form of the answer to a request. */
export function formOf(request: GenerationRequest): Form {
  return request.kind === "chat" ? new ChatForm(request) : new CompletionForm(request);
}

/**
 * Makes a request of a chat's body that another API made. If `exact` is false, throws anything for a wrong body. Otherwise
 * throws `RefusedRequest` with vLLM's error.
 */
export function* chatValuePieces(
  body: PythonDict,
  limits: Limits,
  exact: boolean,
  changes?: ChatChanges,
): Pieces<ChatRequest> {
  applyChatRules(body, changes?.tools === undefined);
  yield;
  const values = yield* chat.validator.pieces(body, exact);
  if (values === FAIL) throw new NotPlain();
  yield;
  if (Object.hasOwn(values, "error")) refuse((values as { readonly error: ErrorAnswer }).error);
  return yield* toChatPieces(values as ChatValues, body, limits, exact, changes);
}

/** Thrown to leave the fast path. The exact parser then decides. */
class NotPlain {}

/** Most prompts of a completion: vLLM's VLLM_MAX_COMPLETION_PROMPTS. */
const MAX_PROMPTS = 1024;
/** Most code points of `cache_salt`. */
const MAX_CACHE_SALT = 128;

/** Applies the rules of chats. Sets `tool_choice` to auto if only tools are given. Replaces old names in messages. */
function applyChatRules(body: PythonDict, withTools = true): void {
  const messages = get(body, "messages");
  checkMessages(messages);
  if (truthy(get(body, "continue_final_message")) && truthy(get(body, "add_generation_prompt")))
    refuseValue("Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
  if (withTools) checkTools(body);
  checkConstraints(body, true);
  checkChatLogprobs(body);
  checkStreamOptions(body);
  checkResponseFormat(body);
  normalizeMessages(messages);
  checkCacheSalt(get(body, "cache_salt"));
}

/** Applies the rules of completions. Removes a null `max_tokens`, so that the default applies. */
export function applyCompletionRules(body: PythonDict): void {
  const prompt = get(body, "prompt");
  if (
    isList(prompt) &&
    prompt.length > MAX_PROMPTS &&
    !(typeName(prompt[0] as PythonValue) === "int" || typeof prompt[0] === "boolean")
  )
    refuseValue(
      `prompt list length ${prompt.length} exceeds the maximum allowed count of ${MAX_PROMPTS}. ` +
        "To increase this limit, set the VLLM_MAX_COMPLETION_PROMPTS environment variable.",
      "prompt",
    );
  const embeds = get(body, "prompt_embeds");
  if ((prompt ?? "") === "" && ((embeds ?? null) === null || (isList(embeds) && embeds.length === 0)))
    refuseValue("Either prompt or prompt_embeds must be provided and non-empty.", "prompt");
  checkStreamOptions(body);
  checkCompletionLogprobs(body);
  checkConstraints(body, false);
  checkResponseFormat(body);
  if (get(body, "max_tokens") === null) remove(body, "max_tokens");
  checkCacheSalt(get(body, "cache_salt"));
}

/** Throws `RefusedRequest` if the messages are not iterable. */
export function checkMessages(messages: PythonValue | undefined): void {
  if (messages !== undefined && iterate(messages) === undefined) throw notIterable(messages);
}

function notIterable(value: PythonValue): RefusedRequest {
  return new RefusedRequest(badRequest(`'${typeName(value)}' object is not iterable`));
}

function checkStreamOptions(body: PythonDict): void {
  if (truthy(get(body, "stream_options")) && !truthy(get(body, "stream")))
    refuseValue("Stream options can only be defined when `stream=True`.", "stream_options");
}

/** Refuses fields that are not numbers. vLLM compares them before it coerces them, so texts of digits are refused too. */
function checkNumbers(body: PythonDict, names: readonly string[]): void {
  for (const name of names) {
    const value = get(body, name) ?? null;
    if (value !== null && numberOf(value) === undefined)
      refuseValue(`\`${name}\` must be an integer.`, name, str(value));
  }
}

/** Refuses a negative number other than -1. */
function checkCount(body: PythonDict, name: string): void {
  const value = get(body, name) ?? null;
  if (value === null) return;
  const count = numberOf(value) as number;
  if (count < 0 && count !== -1) refuseValue(`\`${name}\` must be a positive value or -1.`, name, str(value));
}

function checkPromptLogprobs(body: PythonDict): void {
  const count = numberOf(get(body, "prompt_logprobs"));
  if (truthy(get(body, "stream")) && count !== undefined && (count > 0 || count === -1))
    refuseValue("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs");
  checkCount(body, "prompt_logprobs");
}

function checkLogprobTokenIds(body: PythonDict): void {
  if (truthy(get(body, "logprob_token_ids")) && truthy(get(body, "use_beam_search")))
    refuseValue("`logprob_token_ids` is not supported with beam search.", "logprob_token_ids");
}

/** Checks the fields of a chat about log probabilities. Throws `RefusedRequest`. */
export function checkChatLogprobs(body: PythonDict): void {
  checkLogprobTokenIds(body);
  if (truthy(get(body, "logprob_token_ids")) && !truthy(get(body, "logprobs")))
    refuseValue("when using `logprob_token_ids`, `logprobs` must be set to true.", "logprob_token_ids");
  checkNumbers(body, ["prompt_logprobs", "top_logprobs"]);
  checkPromptLogprobs(body);
  checkCount(body, "top_logprobs");
  const count = numberOf(get(body, "top_logprobs"));
  if (count !== undefined && (count === -1 || count > 0) && !truthy(get(body, "logprobs")))
    refuseValue("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs");
}

function checkCompletionLogprobs(body: PythonDict): void {
  checkLogprobTokenIds(body);
  const logprobs = get(body, "logprobs") ?? null;
  const echo = truthy(get(body, "echo"));
  if (truthy(get(body, "use_beam_search")) && echo && logprobs !== null)
    refuseValue(
      "`echo` with `logprobs` is not supported with beam search because beam search does not compute prompt logprobs.",
      "echo",
    );
  const ids = truthy(get(body, "logprob_token_ids"));
  if (ids && echo && numberOf(get(body, "max_tokens")) === 0)
    refuseValue(
      "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output tokens are generated.",
      "logprob_token_ids",
    );
  if (ids && logprobs === null)
    refuseValue("when using `logprob_token_ids`, `logprobs` must be set.", "logprob_token_ids");
  checkNumbers(body, ["prompt_logprobs", "logprobs"]);
  checkPromptLogprobs(body);
  checkCount(body, "logprobs");
}

function checkCacheSalt(salt: PythonValue | undefined): void {
  if (salt === undefined || salt === null) return;
  if (typeof salt !== "string" || salt === "")
    refuseValue("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt");
  if (codePoints(salt) > MAX_CACHE_SALT || /[@/\\\0]/.test(salt))
    refuseValue(
      "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL.",
      "cache_salt",
    );
}

function checkResponseFormat(body: PythonDict): void {
  const format = get(body, "response_format");
  if (!isDict(format)) return;
  const type = get(format, "type");
  if (type === "json_schema" && (get(format, "json_schema") ?? null) === null)
    refuseValue(
      "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
      "response_format",
    );
  if (type === "structural_tag" && anyStructuralTag.check(format, new State(false)) === FAIL)
    refuseValue("Invalid response_format structural_tag specification.", "response_format");
}

function checkConstraints(body: PythonDict, chat: boolean): void {
  const constraints = get(body, "structured_outputs") ?? null;
  if (constraints === null) return;
  if (!isDict(constraints)) refuse(unexpectedError(`'${typeName(constraints)}' object has no attribute 'get'`));
  const count = ["json", "regex", "choice"].filter((name) => (get(constraints, name) ?? null) !== null).length;
  if (count > 1)
    refuseValue(
      "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
      chat ? undefined : "structured_outputs",
    );
  const choice = get(body, "tool_choice") === undefined ? "none" : get(body, "tool_choice");
  if (chat && count > 0 && choice !== "none" && choice !== "auto" && choice !== "required")
    refuseValue("You can only either use constraints for structured outputs or tools, not both.");
  const tag = get(constraints, "structural_tag") ?? null;
  if (tag !== null && (typeof tag !== "string" || tag === ""))
    refuseValue("Invalid structured_outputs structural_tag specification.", "structured_outputs");
}

const CORRECT_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`';

function checkTools(body: PythonDict): void {
  const tools = get(body, "tools");
  if (isList(tools) && tools.length === 0)
    refuseValue(
      "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
      "tools",
    );
  if (get(body, "tool_choice") === undefined && truthy(tools)) set(body, "tool_choice", "auto");
  const choice = get(body, "tool_choice") ?? null;
  if (choice === "none" || choice === null) return;
  if (tools === undefined || tools === null)
    refuseValue("When using `tool_choice`, `tools` must be set.", "tool_choice");
  if (choice !== "auto" && choice !== "required" && !isDict(choice))
    refuseValue(
      `Invalid value for \`tool_choice\`: ${str(choice)}! Only named tools, "none", "auto" or "required" are supported.`,
      "tool_choice",
    );
  if (isDict(choice)) checkNamedTool(choice, tools);
}

function checkNamedTool(choice: PythonDict, tools: PythonValue): void {
  const named = get(choice, "function") ?? null;
  if (!isDict(named))
    refuseValue(
      `Invalid value for \`function\`: \`${str(named)}\` in \`tool_choice\`! ${CORRECT_USAGE}`,
      "tool_choice.function",
    );
  const name = get(named, "name");
  if (name === undefined)
    refuseValue(
      `Expected field \`name\` in \`function\` in \`tool_choice\`! ${CORRECT_USAGE}`,
      "tool_choice.function.name",
    );
  if (typeof name !== "string" || name === "")
    refuseValue(
      `Invalid \`name\` in \`function\`: \`${str(name)}\` in \`tool_choice\`! ${CORRECT_USAGE}`,
      "tool_choice.function.name",
    );
  const all = iterate(tools);
  if (all === undefined) throw notIterable(tools);
  for (const tool of all) if (item(item(tool, "function"), "name") === name) return;
  refuseValue("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice");
}

/** Returns Python's `value[key]`. Throws `RefusedRequest` with the error that Python raises. */
function item(value: PythonValue, key: string): PythonValue {
  if (isDict(value)) {
    const found = get(value, key);
    if (found === undefined) refuse(unexpectedError(repr(key)));
    return found;
  }
  if (typeof value === "string") refuse(badRequest("string indices must be integers, not 'str'"));
  if (isList(value)) refuse(badRequest("list indices must be integers or slices, not str"));
  refuse(badRequest(`'${typeName(value)}' object is not subscriptable`));
}

/** UTF-16 units of the longest `tool_calls` that is a text. Each of its characters becomes an invalid tool call. */
const CALLS_TEXT_MOST = 65_536;

/** Renames `reasoning_content`, the old name of `reasoning`, and makes tool calls a list, in place. Throws `RefusedRequest`. */
export function normalizeMessages(messages: PythonValue | undefined): void {
  if (!isList(messages)) return;
  for (const message of messages) {
    if (!isDict(message)) continue;
    const calls = get(message, "tool_calls") ?? null;
    if (calls !== null && !isList(calls)) {
      const items = iterate(calls);
      if (items === undefined) throw notIterable(calls);
      if (typeof calls === "string" && calls.length > CALLS_TEXT_MOST)
        refuse(badRequest(`understudy: tool_calls is a text of more than ${CALLS_TEXT_MOST} characters`));
      set(message, "tool_calls", [...items]);
    }
    const old = get(message, "reasoning_content");
    if (old === undefined) continue;
    remove(message, "reasoning_content");
    if (old !== null && (get(message, "reasoning") ?? null) === null) set(message, "reasoning", old);
  }
}
