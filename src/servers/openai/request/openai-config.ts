/** The configuration of the APIs that have the shape of OpenAI's. */

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

/** Takes the other options from Starlette's defaults. */
export function completeCors(given: Partial<CorsConfig>): CorsConfig {
  return { origins: [], methods: ALL, headers: ALL, credentials: false, ...given };
}

/** Headers, keys and routes. */
export interface FrontConfig {
  readonly apiKeys: readonly string[];
  readonly cors?: CorsConfig;
  readonly enableRequestIdHeaders: boolean;
  /** All answers carry them; names in lower case. Absent: none. */
  readonly podHeaders?: Readonly<Record<string, string>>;
  /** No `/openapi.json`, `/docs`, `/redoc`. */
  readonly disableFastapiDocs: boolean;
  readonly trackServerLoad?: boolean;
  readonly tokenizerInfo?: boolean;
  /** Scale-out routes were asked for, which are not built: they say so. */
  readonly scaleOut?: boolean;
  /** Routes that change how the server runs: pause, resume, cache resets. */
  readonly devMode: boolean;
  /** `/health/ready` is asked by probes of another stand-in: so long after the start it is. */
  readonly readiness?: { readonly afterUs: number };
}

/** What requests may ask for, and what holds where they ask for nothing. */
export interface RequestsConfig {
  readonly maxLogprobs: number;
  /** Tokens that each image counts; absent: images are refused. */
  readonly imageTokens?: number;
  /** Length of vectors where a request does not say; absent: there are no embeddings. */
  readonly embeddingDimensions?: number;
  /** Responses that are kept; absent or 0: none. */
  readonly responseStore?: number;
  /** `--override-generation-config`. */
  readonly generation?: Readonly<Record<string, unknown>>;
  readonly requestOrders?: RequestOrders;
}

/** What answers contain, and how they are written. */
export interface AnswersConfig {
  readonly streamInterval: number;
  /** Seconds; 0: never. */
  readonly keepAliveS?: number;
  /** The field that holds reasoning; absent: as the real server of the role names it. */
  readonly reasoningField?: ReasoningField;
  /** `--enable-auto-tool-choice`. */
  readonly autoToolChoice?: boolean;
  /** Share of the answers that call a tool where the request leaves that open, 0 to 1; absent: a half. */
  readonly toolCallShare?: number;
  /** Absent: what is open in a schema is drawn from all that it takes. */
  readonly toolHabits?: ToolHabits;
  /** Mean tokens of thinking; absent: 64. */
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
