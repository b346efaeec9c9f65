/**
 * Makes requests of checked fields: resolves defaults, and makes the checks of vLLM between validation and tokenizing, in its
 * order. Source: vLLM 0.33, `renderers/online_renderer.py`, `chat_completion/serving.py` and `completion/serving.py`.
 */

import type { Pieces } from "../../../base/pieces.ts";
import { checkModel } from "../../openai/front/models.ts";
import { thresholdOf } from "../../openai/pipeline/cache-threshold.ts";
import type { ChatChanges } from "../../openai/pipeline/dialect.ts";
import {
  constraintError,
  resolveConstraints,
  type StructuredOutputs,
  structureOf,
} from "../../openai/request/constraints.ts";
import { badRequest, refuseValue } from "../../openai/request/errors.ts";
import { kvTransferOf } from "../../openai/request/kv-transfer.ts";
import { badWordsOf, NO_BAD_WORDS } from "../../openai/request/lists.ts";
import { orderOf, repetitionOf } from "../../openai/request/order-fields.ts";
import type {
  ChatMessage,
  ChatRequest,
  CommonRequest,
  CompletionRequest,
  Limits,
  SamplingFields,
} from "../../openai/request/request.ts";
import { checkContext } from "../../openai/request/sampling.ts";
import { thinksWith } from "../../openai/tool-calls/reasoning-rules.ts";
import { RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { get, type Int, isDict, type PythonDict, type PythonValue, truthy } from "../../pydantic/value.ts";
import {
  type ChatParts,
  chatPartPieces,
  chatParts,
  checkToolCalls,
  isHuge,
  type LongParts,
  longParts,
  readMessages,
} from "./content.ts";
import type { ChatValues, CompletionValues } from "./fields.ts";

type ChatInput = [values: ChatValues, body: PythonDict, limits: Limits, exact: boolean, changes?: ChatChanges];

/** Makes the request of a chat. `exact`: true if Python's parser read the body, so that errors can quote it. Throws `RefusedRequest`. */
export function toChat(...input: ChatInput): ChatRequest {
  checkChat(...input);
  const [values, , limits, exact] = input;
  return chatOf(chatParts(values, limits, exact), ...input);
}

/** Like `toChat`, in pieces. */
export function* toChatPieces(...input: ChatInput): Pieces<ChatRequest> {
  checkChat(...input);
  const [values, , limits, exact] = input;
  return chatOf(yield* chatPartPieces(values, limits, exact), ...input);
}

/** Makes the checks that need no conversion, so that a hundred thousand tools are not converted for nothing. Throws `RefusedRequest`. */
function checkChat(...[values, body, limits, , changes = {}]: ChatInput): void {
  checkToolCalls(values.messages, get(body, "messages") as readonly PythonValue[]);
  if (values.model) checkModel(values.model, limits);
  if (limits.parsesTools !== true && changes.tools !== "free") checkToolChoice(values.tool_choice);
  checkTemplate(values);
}

/** Makes the request of a chat whose large values were converted. Throws `RefusedRequest`. */
function chatOf(parts: ChatParts, ...[values, body, limits, exact, changes = {}]: ChatInput): ChatRequest {
  const { tools, names } = parts;
  const messages = get(body, "messages") as readonly PythonValue[];
  const topLogprobs = values.top_logprobs;
  const wantsLogprobs = values.logprobs === true;
  const byId = (values.logprob_token_ids ?? []).length > 0;
  const preferred = values.max_completion_tokens;
  const sampling = samplingOf(values, limits, exact, parts.long, {
    n: values.n ?? 1,
    maxTokens: preferred ?? values.max_tokens,
    maxTokensParam: changes.maxTokensParam ?? (preferred === null ? "max_tokens" : "max_completion_tokens"),
    logprobs: wantsLogprobs && !byId ? topLogprobs : null,
    promptLogprobs: values.prompt_logprobs ?? (values.echo ? topLogprobs : null),
    oversizedTokenId: null,
  });
  const tooLong = checkContext(sampling, limits);
  if (tooLong !== null) refuse(tooLong);
  const request = common(values, body, limits, sampling, exact) as Writable<ChatRequest>;
  request.kind = "chat";
  request.messages = markCalls(readMessages(values.messages, messages, limits), changes);
  request.tools = tools;
  request.toolChoice = toolChoiceOf(values.tool_choice);
  request.parallelToolCalls = values.parallel_tool_calls !== false;
  request.logprobs = wantsLogprobs;
  request.topLogprobs = Number(topLogprobs);
  request.echo = values.echo;
  request.addGenerationPrompt = values.add_generation_prompt;
  request.continueFinalMessage = values.continue_final_message;
  request.templateNames = names;
  request.thinks = (names === null && limits.reasoning === undefined) || thinksWith(limits.reasoning ?? null, names);
  request.includeReasoning = values.include_reasoning;
  request.returnPromptText = values.return_prompt_text === true;
  return request;
}

/** A request whose members can be set in place, because a copy with `...` would cost six times as much. */
type Writable<R> = { -readonly [K in keyof R]: R[K] };

/** Marks the messages of the Responses API, whose tool calls keep the order of their members in the prompt. */
function markCalls(messages: readonly ChatMessage[], { tools }: ChatChanges): readonly ChatMessage[] {
  return tools === "free" ? messages.map((message) => ({ ...message, callsAsMade: true })) : messages;
}

function toolChoiceOf(choice: ChatValues["tool_choice"]): ChatRequest["toolChoice"] {
  if (typeof choice === "string") return choice as "none" | "auto" | "required";
  return choice === null ? null : { name: get(get(choice, "function") as PythonDict, "name") as string };
}

/** Refuses the tool choices that need a tool parser. Throws `RefusedRequest`. */
function checkToolChoice(choice: ChatValues["tool_choice"]): void {
  if (choice === null || choice === "none") return;
  if (choice === "auto")
    refuse(badRequest('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'));
  const named = isDict(choice as PythonValue) ? (get(choice as PythonDict, "function") as PythonDict) : null;
  const shown = named === null ? `"${choice}"` : `function "${get(named, "name")}"`;
  refuse(badRequest(`tool_choice=${shown} requires --tool-call-parser to be set`));
}

/** Refuses a template, media settings or reserved variables that the client sends. Throws `RefusedRequest`. */
export function checkTemplate(
  values: Pick<ChatValues, "chat_template" | "chat_template_kwargs" | "mm_processor_kwargs" | "media_io_kwargs">,
): void {
  const inside =
    values.chat_template_kwargs === null ? null : (get(values.chat_template_kwargs, "chat_template") ?? null);
  if (values.chat_template !== null || inside !== null)
    refuse(
      badRequest(
        "Chat template is passed with request, but --trust-request-chat-template is not set. " +
          "Refused request with untrusted chat template.",
      ),
    );
  checkMultimodal(values.mm_processor_kwargs, values.media_io_kwargs);
  for (const [name, message] of RESERVED_NAMES)
    if (values.chat_template_kwargs !== null && (get(values.chat_template_kwargs, name) ?? null) !== null)
      refuse(badRequest(message));
}

/** Refuses settings of media. They may have any type, because `/tokenize` of a text has no fields for them. Throws `RefusedRequest`. */
export function checkMultimodal(processor: PythonValue | undefined, media: PythonValue | undefined): void {
  if (truthy(processor ?? null))
    refuseValue(
      "Per-request mm_processor_kwargs are disabled by default because they can change multimodal preprocessing resource usage. " +
        "Start the server with --trust-request-mm-kwargs only when clients are trusted.",
      "mm_processor_kwargs",
    );
  if (truthy(media ?? null))
    refuseValue(
      "Per-request media_io_kwargs are disabled by default because they can change multimodal media loading resource usage. " +
        "Start the server with --trust-request-mm-kwargs only when clients are trusted.",
      "media_io_kwargs",
    );
}

/** Names of variables that vLLM sets itself, with Python's error for a second value. */
const RESERVED_NAMES = [
  ["conversation", "safe_apply_chat_template() got multiple values for argument 'conversation'"],
  ["messages", "jinja2.environment.Template.render() got multiple values for keyword argument 'messages'"],
] as const;

/** Makes the request of a completion. Throws `RefusedRequest`. */
export function toCompletion(
  values: CompletionValues,
  body: PythonDict,
  limits: Limits,
  exact: boolean,
): CompletionRequest {
  if (values.stream === true && values.use_beam_search)
    refuse(badRequest("Streaming is not currently supported with beam search"));
  if (values.model) checkModel(values.model, limits);
  checkSuffix(values);
  const echo = values.echo === true;
  const byId = (values.logprob_token_ids ?? []).length > 0;
  const { prompts, oversized } = readPrompts(values.prompt);
  const sampling = samplingOf(values, limits, exact, longParts(values, limits, exact), {
    n: values.n,
    maxTokens: values.max_tokens,
    maxTokensParam: "max_tokens",
    logprobs: byId ? null : values.logprobs,
    promptLogprobs: values.prompt_logprobs ?? (echo ? values.logprobs : null),
    oversizedTokenId: oversized,
  });
  const tooLong = checkContext(sampling, limits);
  if (tooLong !== null) refuse(tooLong);
  const embeds = values.prompt_embeds;
  if (embeds !== null && embeds.length > 0)
    refuseValue("You must set `--enable-prompt-embeds` to input `prompt_embeds`.", "prompt_embeds");
  if (prompts.length === 0) refuseValue("You must pass at least one prompt", "prompt");
  const request = common(values, body, limits, sampling, exact) as Writable<CompletionRequest>;
  request.kind = "completion";
  request.prompts = prompts;
  request.echo = echo;
  request.logprobs = values.logprobs === null ? null : Number(values.logprobs);
  return request;
}

function checkSuffix(values: CompletionValues): void {
  const bad: (message: string, param?: string) => never = (...why) => refuse(badRequest(...why));
  const embeds = values.prompt_embeds !== null;
  if (values.suffix !== null) {
    if (values.echo === true) bad("Echo is unsupported with suffix.", "suffix");
    if (embeds) bad("suffix is not supported with prompt_embeds", "suffix");
    if (values.truncate_prompt_tokens !== null) bad("suffix is not supported with truncate_prompt_tokens", "suffix");
    const { prompt } = values;
    const isText =
      typeof prompt === "string" || (Array.isArray(prompt) && prompt.every((item) => typeof item === "string"));
    if (!isText) bad("suffix requires text prompt input for FIM completion rendering", "suffix");
    if (prompt.length > 0) bad("suffix is only supported for models with FIM completion rendering", "suffix");
  }
  if (values.echo === true && embeds) bad("Echo is unsupported with prompt embeds.");
  if (values.prompt_logprobs !== null && embeds) bad("prompt_logprobs is not compatible with prompt embeds.");
}

/** Largest token ID that is kept. */
const MAX_ID = 0xffffffff;

/** Converts the prompts of a body. `oversized`: the largest ID of more than 32 bits, or null. Such IDs become 2^32 - 1. */
export function readPrompts(prompt: CompletionValues["prompt"]): {
  prompts: (string | Uint32Array)[];
  oversized: Int | null;
} {
  let oversized: Int | null = null;
  const ids = (list: readonly Int[]): Uint32Array => {
    const view = new Uint32Array(list.length);
    for (let i = 0; i < list.length; i++) {
      const id = list[i] as Int;
      view[i] = id > MAX_ID ? MAX_ID : Number(id);
      if (id > MAX_ID && (oversized === null || id > oversized)) oversized = id;
    }
    return view;
  };
  if (prompt === null) return { prompts: [], oversized };
  if (typeof prompt === "string") return { prompts: [prompt], oversized };
  if (prompt.length > 0 && typeof prompt[0] !== "string" && !Array.isArray(prompt[0]))
    return { prompts: [ids(prompt as Int[])], oversized };
  const prompts = (prompt as (string | Int[])[]).map((item) => (typeof item === "string" ? item : ids(item)));
  return { prompts, oversized };
}

/** Fields that chats and completions have under different names. */
type KindFields = Pick<
  SamplingFields,
  "n" | "maxTokens" | "maxTokensParam" | "logprobs" | "promptLogprobs" | "oversizedTokenId"
>;

/** Returns the fields that later checks need. One literal, because copying objects into it would cost more than all the rest. */
function samplingOf(
  values: ChatValues | CompletionValues,
  limits: Limits,
  exact: boolean,
  { lists: ids, extraArgsTooLarge }: LongParts,
  kindFields: KindFields,
): SamplingFields {
  const { structured_outputs: structured, response_format: format } = values;
  const constraints = structured === null && format === null ? NO_CONSTRAINTS : resolve(structured, format, exact);
  return {
    n: kindFields.n,
    maxTokens: kindFields.maxTokens,
    maxTokensParam: kindFields.maxTokensParam,
    logprobs: kindFields.logprobs,
    promptLogprobs: kindFields.promptLogprobs,
    oversizedTokenId: kindFields.oversizedTokenId,
    minTokens: values.min_tokens,
    topP: values.top_p ?? limits.topP ?? 1,
    topK: values.top_k ?? limits.topK ?? 0,
    minP: values.min_p ?? limits.minP ?? 0,
    presencePenalty: values.presence_penalty ?? 0,
    frequencyPenalty: values.frequency_penalty ?? 0,
    repetitionPenalty: values.repetition_penalty ?? limits.repetitionPenalty ?? 1,
    logitBias: ids.logitBias,
    biasKeysError: ids.biasKeysError,
    stopTokenIds: ids.stopTokenIds,
    allowedTokenIds: ids.allowedTokenIds,
    idsError: ids.idsError,
    badWords: values.bad_words.length === 0 ? NO_BAD_WORDS : badWordsOf(values.bad_words),
    logprobTokenIds: ids.logprobTokenIds,
    logprobIdsError: ids.logprobIdsError,
    thinkingTokenBudget: values.thinking_token_budget,
    routedExpertsPromptStart: values.routed_experts_prompt_start,
    truncatePromptTokens: values.truncate_prompt_tokens,
    beamSearch: values.use_beam_search,
    tooLargeForEngine: isHuge(values.top_k, exact) || isHuge(values.stream_interval, exact),
    extraArgsTooLarge,
    constraintRefusal: constraints.constraintRefusal,
    constraintError: constraints.constraintError,
    structure: constraints.structure,
  };
}

type Constraints = Pick<SamplingFields, "constraintRefusal" | "constraintError" | "structure">;
const NO_CONSTRAINTS: Constraints = { constraintRefusal: null, constraintError: null, structure: null };

function resolve(structured: StructuredOutputs | null, format: PythonDict | null, exact: boolean): Constraints {
  try {
    const constraints = resolveConstraints(structured, format);
    const error = constraintError(constraints);
    return {
      constraintRefusal: null,
      constraintError: error,
      structure: error === null ? structureOf(constraints) : null,
    };
  } catch (refusal) {
    if (!exact || !(refusal instanceof RefusedRequest)) throw refusal;
    return { constraintRefusal: refusal.answer, constraintError: null, structure: null };
  }
}

const NO_STOP: readonly string[] = [];

/** Returns the members that chats and completions have in common. */
function common(
  values: ChatValues | CompletionValues,
  body: PythonDict,
  limits: Limits,
  sampling: SamplingFields,
  exact: boolean,
): CommonRequest {
  const { stop, stream_options: options, repetition_detection: detection, kv_transfer_params: transfer } = values;
  const order = get(body, "understudy") ?? null;
  const includeUsage = options?.get("include_usage") === true;
  const orNull = (value: Int | null) => (value === null ? null : Number(value));
  return {
    model: values.model,
    n: Number(sampling.n),
    temperature: values.temperature ?? limits.temperature ?? 1,
    maxTokens: orNull(sampling.maxTokens),
    minTokens: Number(values.min_tokens),
    stop: stop === null ? NO_STOP : typeof stop === "string" ? [stop] : stop,
    includeStopStrInOutput: values.include_stop_str_in_output,
    stopTokenIds: sampling.stopTokenIds,
    ignoreEos: values.ignore_eos,
    seed: values.seed === -1 ? null : orNull(values.seed),
    stream: values.stream === true,
    includeUsage,
    continuousUsageStats: includeUsage && options?.get("continuous_usage_stats") === true,
    streamInterval: orNull(values.stream_interval),
    skipSpecialTokens: values.skip_special_tokens ?? true,
    priority: Number(values.priority),
    cacheSalt: values.cache_salt,
    promptLogprobs: orNull(sampling.promptLogprobs),
    returnTokenIds: values.return_token_ids === true,
    returnTokensAsTokenIds: values.return_tokens_as_token_ids,
    weightVersions: values.return_weight_versions,
    truncatePromptTokens: orNull(values.truncate_prompt_tokens),
    truncationSide: values.truncation_side,
    requestId: values.request_id,
    addSpecialTokens: values.add_special_tokens,
    order: order === null ? null : orderOf(order, exact),
    cacheHitThreshold: limits.judgesCache === true ? thresholdOf(body) : null,
    kvTransfer:
      transfer !== null && limits.transfersKv === true ? kvTransferOf(transfer, values.stream === true) : null,
    repetition: detection === null ? null : repetitionOf(detection, values.min_tokens),
    sampling,
  };
}
