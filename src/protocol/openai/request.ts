/** A request after validation: every field with its default, nothing left to check but what needs the prompt's length. Types only. */

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
  readonly returnTokensAsTokenIds: boolean;
  readonly truncatePromptTokens: number | null;
  readonly truncationSide: "left" | "right" | null;
  readonly requestId: string | null;
}

export interface ChatMessage {
  readonly role: string;
  /** Text parts joined as vLLM joins them; null when absent. */
  readonly content: string | null;
  readonly name: string | null;
  readonly toolCalls: readonly unknown[] | null;
  readonly toolCallId: string | null;
}

export interface ChatRequest extends CommonRequest {
  readonly kind: "chat";
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | null;
  readonly logprobs: boolean;
  /** -1: the whole vocabulary. */
  readonly topLogprobs: number;
  readonly echo: boolean;
  readonly addGenerationPrompt: boolean;
  readonly continueFinalMessage: boolean;
}

export interface CompletionRequest extends CommonRequest {
  readonly kind: "completion";
  /** At least one; text or token ids. */
  readonly prompts: readonly (string | Uint32Array)[];
  readonly echo: boolean;
  /** null: none asked. */
  readonly logprobs: number | null;
}

/** An answer that ends a request before any generation: exact status, body and what the headers need. */
export interface ErrorAnswer {
  readonly status: number;
  /** The exact JSON text. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What validation needs to know of the server. */
export interface Limits {
  readonly maxModelLen: number;
  readonly maxLogprobs: number;
  readonly vocabularySize: number;
  readonly maxTokenCharacters: number;
  readonly servedModelNames: readonly string[];
}
