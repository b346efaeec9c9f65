/** A request after validation: every field with its default, nothing left to check but what needs the prompt's length. Types only. */

import type { Order } from "../../../text/canned/script.ts";
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { Int } from "../../pydantic/value.ts";
import type { SamplingDefaults } from "./sampling-defaults.ts";

/** What only vLLM's later checks look at (`sampling.ts`); no effect on the answer here. Nulls are resolved to defaults. */
export interface SamplingFields {
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
  /** null: none is given. */
  readonly logitBias: LogitBias | null;
  /** Keys of `logit_bias` that are no numbers, as the engine refuses them; null: all are. */
  readonly biasKeysError: ErrorAnswer | null;
  /** Each once. */
  readonly stopTokenIds: readonly number[];
  /** Each once; null: all are. */
  readonly allowedTokenIds: readonly number[] | null;
  /** What the engine says of an id in one of these three that is none of its own; then they are empty. null: all are. */
  readonly idsError: ErrorAnswer | null;
  readonly badWords: BadWords;
  /** Log probabilities per output token; null: none asked. */
  readonly logprobs: Int | null;
  readonly promptLogprobs: Int | null;
  /** The first, as many as there may be. */
  readonly logprobTokenIds: readonly Int[] | null;
  /** What the engine says of them; null: nothing. */
  readonly logprobIdsError: ErrorAnswer | null;
  readonly thinkingTokenBudget: Int | null;
  readonly routedExpertsPromptStart: Int;
  readonly truncatePromptTokens: Int | null;
  readonly beamSearch: boolean;
  /** An integer beyond 64 bits in `vllm_xargs` or the transfer parameters. */
  readonly extraArgsTooLarge: boolean;
  /** An integer that MessagePack cannot carry is refused by the engine. */
  readonly tooLargeForEngine: boolean;
  /** The refusal of two constraints at once, or none, across `structured_outputs` and `response_format`. */
  readonly constraintRefusal: ErrorAnswer | null;
  /** What the engine will say of the structured output; null: nothing. */
  readonly constraintError: string | null;
  /** What the answer's text must be; null or absent: anything. */
  readonly structure?: Structure | null;
  /** A token id of a prompt that is no 32-bit number, as sent; null: all are. */
  readonly oversizedTokenId: Int | null;
}

/** Ids that `logit_bias` leaves alone, and those that it takes away; each once. */
export interface LogitBias {
  readonly forced: readonly number[];
  readonly never: readonly number[];
}

export interface BadWords {
  /** Where there are more than a request may have, those that show it. */
  readonly list: readonly string[];
  /** All of them, each once, as Python prints them, where the list has not all. */
  readonly shown: string | null;
}

/** What chat and completions share. Names follow the body's fields. */
export interface CommonRequest {
  /** Name as sent; null or "" is the base model. */
  readonly model: string | null;
  readonly n: number;
  readonly temperature: number;
  /** `max_tokens` (chat prefers `max_completion_tokens`); null: the rest of the context. Completions default to 16. */
  readonly maxTokens: number | null;
  readonly minTokens: number;
  readonly stop: readonly string[];
  readonly includeStopStrInOutput: boolean;
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  readonly seed: number | null;
  readonly stream: boolean;
  /** `stream_options.include_usage` and `.continuous_usage_stats`. */
  readonly includeUsage: boolean;
  readonly continuousUsageStats: boolean;
  /** null: the server's; else it can only raise the server's. */
  readonly streamInterval: number | null;
  readonly skipSpecialTokens: boolean;
  readonly priority: number;
  readonly cacheSalt: string | null;
  /** `prompt_logprobs` asked for; such a request does not read the prefix cache. */
  readonly promptLogprobs: number | null;
  readonly returnTokenIds: boolean;
  /** null: as the server has it. */
  readonly returnTokensAsTokenIds: boolean | null;
  /** `return_weight_versions`. */
  readonly weightVersions: boolean;
  readonly truncatePromptTokens: number | null;
  readonly truncationSide: "left" | "right" | null;
  readonly requestId: string | null;
  /** `add_special_tokens`: completions true, chat false unless asked. */
  readonly addSpecialTokens: boolean;
  /** The field `understudy`, or what is wrong with it; null: absent. */
  readonly order: Order | { readonly broken: string } | null;
  /** `cache_hit_threshold`, where the server looks at it; null: nothing that counts. */
  readonly cacheHitThreshold: number | null;
  /** `kv_transfer_params`, where the server looks at them; null: nothing is done elsewhere. */
  readonly kvTransfer: KvTransfer | null;
  readonly repetition: Repetition | null;
  readonly sampling: SamplingFields;
}

/** What of a request another server does. */
export interface KvTransfer {
  readonly remotePrefill: boolean;
  readonly remoteDecode: boolean;
}

/** `repetition_detection`: the output ends in a pattern of so many tokens that comes so often in a row. */
export interface Repetition {
  readonly minPattern: number;
  readonly maxPattern: number;
  readonly minCount: number;
  /** Not before so many tokens. */
  readonly minTokens: number;
}

export interface ChatMessage {
  readonly role: string;
  /** Text parts joined as vLLM joins them; null when absent. */
  readonly content: string | null;
  readonly name: string | null;
  readonly toolCalls: readonly unknown[] | null;
  readonly toolCallId: string | null;
  /** For templates: its calls were made of a response's items. */
  readonly callsAsMade?: boolean;
}

export interface ChatRequest extends CommonRequest {
  readonly kind: "chat";
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | null;
  /** null: the body says null. */
  readonly toolChoice: "none" | "auto" | "required" | { readonly name: string } | null;
  /** `parallel_tool_calls` is not false. */
  readonly parallelToolCalls: boolean;
  readonly logprobs: boolean;
  /** -1: the whole vocabulary. */
  readonly topLogprobs: number;
  readonly echo: boolean;
  readonly addGenerationPrompt: boolean;
  readonly continueFinalMessage: boolean;
  /** What a model's template may read: `chat_template_kwargs`, `documents`, `reasoning_effort`; null: nothing. */
  readonly templateNames: Readonly<Record<string, unknown>> | null;
  /** The request leaves reasoning on, as the reasoning parser reads `chat_template_kwargs`. */
  readonly thinks: boolean;
  readonly includeReasoning: boolean;
  /** Tokens of thinking that are ordered; absent: drawn. */
  readonly reasoningTokens?: number;
  /** `return_prompt_text`. */
  readonly returnPromptText: boolean;
  /** Conversations of a batch; `messages` is the first. */
  readonly conversations?: readonly (readonly ChatMessage[])[];
}

export interface CompletionRequest extends CommonRequest {
  readonly kind: "completion";
  /** At least one; text or token ids. */
  readonly prompts: readonly (string | Uint32Array)[];
  readonly echo: boolean;
  /** null: none asked. */
  readonly logprobs: number | null;
}

/** What validation needs to know of the server. */
export interface Limits extends SamplingDefaults {
  readonly maxModelLen: number;
  readonly maxLogprobs: number;
  readonly vocabularySize: number;
  readonly maxTokenCharacters: number;
  readonly servedModelNames: readonly string[];
  /** Names of LoRA adapters, which stand for a model as well; an adapter's number is its place, from 1. */
  readonly loraNames: readonly string[];
  /** The format of the reasoning parser; absent: there is none. */
  readonly reasoning?: ReasoningFormat;
  /** Images are taken, and counted. */
  readonly takesImages?: boolean;
  /** There is a parser of tool calls. */
  readonly parsesTools?: boolean;
  /** Requests may say how much of their prompt the prefix cache must have. */
  readonly judgesCache?: boolean;
  /** They may be shared with another server. */
  readonly transfersKv?: boolean;
  /** Any name of a model is taken. */
  readonly takesAnyModel?: boolean;
  /** What a server says of a prompt of so many tokens before anything else; null: it fits. Absent: vLLM's limits alone. */
  readonly refusesPrompt?: (tokens: number) => ErrorAnswer | null;
}
