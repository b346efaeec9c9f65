/** Types of a request after validation: all fields have their defaults, and only checks of the prompt's length are left. */

import type { Order } from "../../../text/canned/script.ts";
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { Int } from "../../pydantic/value.ts";
import type { SamplingDefaults } from "./sampling-defaults.ts";

/** Lists in a request that name tokens by id, as `lists.ts` leaves them: checked and shortened. */
export interface IdLists {
  /** Effect of `logit_bias`. Null: absent. */
  readonly logitBias: LogitBias | null;
  /** The engine's refusal of keys of `logit_bias` that are not integers. Null: all are. */
  readonly biasKeysError: ErrorAnswer | null;
  /** Value of `stop_token_ids`, each id once. */
  readonly stopTokenIds: readonly number[];
  /** Value of `allowed_token_ids`, each id once. Null: all tokens are allowed. */
  readonly allowedTokenIds: readonly number[] | null;
  /** The engine's refusal of ids outside the vocabulary in these three lists, which are then empty. Null: all are valid. */
  readonly idsError: ErrorAnswer | null;
  /** Value of `logprob_token_ids`, cut to the largest permitted number. */
  readonly logprobTokenIds: readonly Int[] | null;
  /** The engine's refusal of `logprob_token_ids`. Null: they are valid. */
  readonly logprobIdsError: ErrorAnswer | null;
}

/** Fields that vLLM checks later (`sampling.ts`). Most have no effect on the answer here. Nulls are replaced by defaults. */
export interface SamplingFields extends IdLists {
  readonly n: Int;
  readonly maxTokens: Int | null;
  readonly maxTokensParam: "max_tokens" | "max_completion_tokens" | "max_output_tokens";
  readonly minTokens: Int;
  readonly topP: number;
  readonly topK: Int;
  readonly minP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly repetitionPenalty: number;
  readonly badWords: BadWords;
  /** Log probabilities per output token. Null: none. */
  readonly logprobs: Int | null;
  readonly promptLogprobs: Int | null;
  readonly thinkingTokenBudget: Int | null;
  readonly routedExpertsPromptStart: Int;
  readonly truncatePromptTokens: Int | null;
  readonly beamSearch: boolean;
  /** True if `vllm_xargs` or the transfer parameters contain an integer beyond 64 bits. */
  readonly extraArgsTooLarge: boolean;
  /** True if an integer is too large for MessagePack, so that the engine refuses the request. */
  readonly tooLargeForEngine: boolean;
  /** The refusal if `structured_outputs` and `response_format` together have more than one constraint, or none. */
  readonly constraintRefusal: ErrorAnswer | null;
  /** The engine's refusal of the structured output. Null: it is valid so far. */
  readonly constraintError: string | null;
  /** The form that the answer's text must have. Null or absent: the text is free. */
  readonly structure?: Structure | null;
  /** A token id of a prompt that does not fit into 32 bits, as sent. Null: all fit. */
  readonly oversizedTokenId: Int | null;
}

/** `forced`: the only ids that `logit_bias` leaves possible. `never`: ids that it excludes. */
export interface LogitBias {
  readonly forced: readonly number[];
  readonly never: readonly number[];
}

export interface BadWords {
  /** Values of `bad_words`. If these are far too many, only as many as cause the refusal. */
  readonly list: readonly string[];
  /** All bad words, each once, as Python prints them, if `list` is shortened. Otherwise null. */
  readonly shown: string | null;
}

/** Fields that chats and completions share. Names follow the fields of the body. */
export interface CommonRequest {
  /** Name of the model as sent. Null or "" stands for the base model. */
  readonly model: string | null;
  readonly n: number;
  readonly temperature: number;
  /** Value of `max_tokens`; a chat prefers `max_completion_tokens`. Null: the rest of the context. Completions default to 16. */
  readonly maxTokens: number | null;
  readonly minTokens: number;
  readonly stop: readonly string[];
  readonly includeStopStrInOutput: boolean;
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  readonly seed: number | null;
  readonly stream: boolean;
  /** Values of `stream_options.include_usage` and `.continuous_usage_stats`. */
  readonly includeUsage: boolean;
  readonly continuousUsageStats: boolean;
  /** Value of `stream_interval`. Null, or less than the server's: the server's applies. */
  readonly streamInterval: number | null;
  readonly skipSpecialTokens: boolean;
  readonly priority: number;
  readonly cacheSalt: string | null;
  /** Value of `prompt_logprobs`. A request with a number here does not read the prefix cache. */
  readonly promptLogprobs: number | null;
  readonly returnTokenIds: boolean;
  /** Value of `return_tokens_as_token_ids`. Null: the server's option decides. */
  readonly returnTokensAsTokenIds: boolean | null;
  /** Value of `return_weight_versions`. */
  readonly weightVersions: boolean;
  readonly truncatePromptTokens: number | null;
  readonly truncationSide: "left" | "right" | null;
  readonly requestId: string | null;
  /** Value of `add_special_tokens`. Default: true for completions, false for chats. */
  readonly addSpecialTokens: boolean;
  /** The order in the field `understudy`, or its error. Null: absent. */
  readonly order: Order | { readonly broken: string } | null;
  /** Value of `cache_hit_threshold`. Null: absent, or the server ignores it. */
  readonly cacheHitThreshold: number | null;
  /** Value of `kv_transfer_params`. Null: nothing is done on another server, or this server ignores it. */
  readonly kvTransfer: KvTransfer | null;
  readonly repetition: Repetition | null;
  readonly sampling: SamplingFields;
}

/** Parts of a request that another server does. */
export interface KvTransfer {
  readonly remotePrefill: boolean;
  readonly remoteDecode: boolean;
}

/**
 * Values of `repetition_detection`: an answer ends after a pattern of `minPattern` to `maxPattern` tokens, `minCount` times in a
 * row.
 */
export interface Repetition {
  readonly minPattern: number;
  readonly maxPattern: number;
  readonly minCount: number;
  /** Fewest output tokens before that end. */
  readonly minTokens: number;
}

export interface ChatMessage {
  readonly role: string;
  /** Text of the message, its parts joined as vLLM joins them. Null: absent. */
  readonly content: string | null;
  readonly name: string | null;
  readonly toolCalls: readonly unknown[] | null;
  readonly toolCallId: string | null;
  /** True if its calls come from items of a response. Templates then get the keys of a call in another order. */
  readonly callsAsMade?: boolean;
}

export interface ChatRequest extends CommonRequest {
  readonly kind: "chat";
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | null;
  /** Value of `tool_choice`. Null: the body has null. */
  readonly toolChoice: "none" | "auto" | "required" | { readonly name: string } | null;
  /** True unless `parallel_tool_calls` is false. */
  readonly parallelToolCalls: boolean;
  readonly logprobs: boolean;
  /** Value of `top_logprobs`: candidates per token. -1: the whole vocabulary. */
  readonly topLogprobs: number;
  readonly echo: boolean;
  readonly addGenerationPrompt: boolean;
  readonly continueFinalMessage: boolean;
  /** Values for the chat template: `chat_template_kwargs`, `documents`, `reasoning_effort`. Null: none. */
  readonly templateNames: Readonly<Record<string, unknown>> | null;
  /** True if `chat_template_kwargs` leave reasoning on, in the view of the reasoning parser. */
  readonly thinks: boolean;
  readonly includeReasoning: boolean;
  /** Ordered number of tokens of thinking. Absent: drawn. */
  readonly reasoningTokens?: number;
  /** Value of `return_prompt_text`. */
  readonly returnPromptText: boolean;
  /** Conversations of a batch. `messages` is the first one. */
  readonly conversations?: readonly (readonly ChatMessage[])[];
}

export interface CompletionRequest extends CommonRequest {
  readonly kind: "completion";
  /** One or more prompts, each as text or token ids. */
  readonly prompts: readonly (string | Uint32Array)[];
  readonly echo: boolean;
  /** Value of `logprobs`: candidates per token. Null: no log probabilities. */
  readonly logprobs: number | null;
}

/** A request for generated text. */
export type GenerationRequest = ChatRequest | CompletionRequest;

/** Facts about the server that validation needs. */
export interface Limits extends SamplingDefaults {
  readonly maxModelLen: number;
  readonly maxLogprobs: number;
  readonly vocabularySize: number;
  readonly maxTokenCharacters: number;
  readonly servedModelNames: readonly string[];
  /** Names of LoRA adapters, which requests may use instead of a model's. An adapter's number is its index plus one. */
  readonly loraNames: readonly string[];
  /** Format of the reasoning parser. Absent: there is none. */
  readonly reasoning?: ReasoningFormat;
  /** True if images are accepted. */
  readonly takesImages?: boolean;
  /** True if there is a parser of tool calls. */
  readonly parsesTools?: boolean;
  /** True if `cache_hit_threshold` has an effect. */
  readonly judgesCache?: boolean;
  /** True if `kv_transfer_params` have an effect. */
  readonly transfersKv?: boolean;
  /** True if any name of a model is accepted. */
  readonly takesAnyModel?: boolean;
  /** Returns the refusal of a prompt of this length, before all other checks, or null. Absent: only vLLM's limits apply. */
  readonly refusesPrompt?: (tokens: number) => ErrorAnswer | null;
}
