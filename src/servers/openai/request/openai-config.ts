/** Types of the configuration of all OpenAI-shaped APIs. */

import type { Kernel } from "../../../kernel/kernel.ts";
import type { KernelConfig } from "../../../kernel/kernel-config.ts";
import type { ReasoningField } from "../../../text/grammar/parsers.ts";
import type { ToolHabits } from "../../../text/grammar/tool-habits.ts";
import type { RequestOrders } from "./request-orders.ts";

/** Options of Starlette's CORS middleware; "*" stands for all. */
export interface CorsConfig {
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  readonly headers: readonly string[];
  readonly credentials: boolean;
}

const ALL = ["*"];

/** Adds Starlette's defaults for options that are absent. */
export function completeCors(options: Partial<CorsConfig>): CorsConfig {
  return { origins: [], methods: ALL, headers: ALL, credentials: false, ...options };
}

/** Options about headers, keys and routes. */
export interface FrontConfig {
  readonly apiKeys: readonly string[];
  readonly cors?: CorsConfig;
  readonly enableRequestIdHeaders: boolean;
  /** Values of headers that are added to every answer, by name in lower case. Absent if no headers are added. */
  readonly podHeaders?: Readonly<Record<string, string>>;
  /** True if `/openapi.json`, `/docs` and `/redoc` are not served. */
  readonly disableFastapiDocs: boolean;
  readonly trackServerLoad?: boolean;
  readonly tokenizerInfo?: boolean;
  /** True if scale-out routes were switched on. They answer that they are not built. */
  readonly scaleOut?: boolean;
  /** True if routes that pause and resume the server or reset its caches are served. */
  readonly devMode: boolean;
  /** Serves `/health/ready`, the probe of another stand-in. `afterUs`: time from the start until it answers 200. */
  readonly readiness?: { readonly afterUs: number };
}

/** Limits and defaults of requests. */
export interface RequestsConfig {
  readonly maxLogprobs: number;
  /** Prompt tokens of an image. Absent: images are refused. */
  readonly imageTokens?: number;
  /** Length of embedding vectors unless a request sets it. Absent: embeddings are not served. */
  readonly embeddingDimensions?: number;
  /** Most responses of `/v1/responses` that are stored. Absent or 0: none. */
  readonly responseStore?: number;
  /** Object of `--override-generation-config`. */
  readonly generation?: Readonly<Record<string, unknown>>;
  readonly requestOrders?: RequestOrders;
}

/** Options about the contents and the format of answers. */
export interface AnswersConfig {
  /** Output tokens per event of a stream. */
  readonly streamInterval: number;
  /** Seconds of silence after which a stream gets a comment. 0: never. */
  readonly keepAliveS?: number;
  /** Name of the field that holds reasoning. Absent: the name that the real server uses. */
  readonly reasoningField?: ReasoningField;
  /** Value of `--enable-auto-tool-choice`. */
  readonly autoToolChoice?: boolean;
  /** Share of answers that call a tool if the request leaves it open, 0 to 1. Absent: 0.5. */
  readonly toolCallShare?: number;
  /** Values that a model prefers in tool calls. Absent: open values are drawn from all that a schema accepts. */
  readonly toolHabits?: ToolHabits;
  /** Mean tokens of thinking. Absent: 64. */
  readonly meanReasoningTokens?: number;
  readonly responseRole?: string;
  readonly fingerprintMode?: "full" | "hash" | "custom" | "none";
  readonly fingerprintValue?: string;
  readonly perRequestMetrics?: boolean;
  readonly tokensAsIds?: boolean;
  readonly enablePromptTokensDetails: boolean;
  readonly enableForceIncludeUsage: boolean;
}

export interface OpenAiConfig {
  readonly front: FrontConfig;
  readonly requests: RequestsConfig;
  readonly answers: AnswersConfig;
}

/** Configuration of the kernel and of the OpenAI-shaped APIs above it. */
export interface OpenAiServerConfig extends KernelConfig {
  readonly openai: OpenAiConfig;
}

/** The kernel as the OpenAI-shaped APIs receive it. */
export type OpenAiKernel = Kernel<OpenAiServerConfig>;
