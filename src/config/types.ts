/** Configuration as every other room reads it: resolved, validated, every default filled in. Types only. */

import type { HistogramBuckets } from "./buckets.ts";
import type { FailureType } from "./failures.ts";
import type { FakeMetrics } from "./fake-metrics.ts";
import type { FrontLimits, TlsConfig } from "./front-limits.ts";
import type { KvCacheDtype } from "./kv-cache-dtypes.ts";
import type { MetricsProfile } from "./metrics-profiles.ts";
import type { OutputLengths } from "./output-lengths.ts";
import type { ReasoningField, ReasoningFormat, ToolFormat } from "./parsers.ts";
import type { RequestOrders } from "./request-orders.ts";
import type { RoleName } from "./roles.ts";
import type { StreamWritesOrder } from "./stream-writes.ts";
import type { ToolHabits } from "./tool-habits.ts";
import type { TritonMetricsConfig } from "./triton-metrics.ts";
import type { TritonServerConfig } from "./triton-server.ts";
import type { TrtllmConfig, TrtllmServeConfig } from "./trtllm.ts";

/** How long a step takes. Sources and forms: the compiled presets in `profiles/`. All times in microseconds. */
export type Timing =
  | {
      /** Steps take no time. */
      readonly kind: "none";
    }
  | {
      /** Steps take the same time, whatever is in them. */
      readonly kind: "constant";
      /** From the arrival to the first token on an idle server. */
      readonly ttftUs: number;
      /** Every step of decoding. */
      readonly itlUs: number;
    }
  | {
      /** By what is in the step. */
      readonly kind: "linear";
      /** Any step. */
      readonly baseUs: number;
      /** Per prompt token in it. */
      readonly prefillUs: number;
      /** Per sequence in it that decodes. */
      readonly decodeUs: number;
      /** As below. */
      readonly requestOverheadUs?: number;
    }
  | {
      /** A preset: measured on a real engine. */
      readonly kind: "table";
      /** The preset's. */
      readonly name: string;
      /** Piecewise linear: tokens in the step -> microseconds; below the first point its value, above the last the last slope. */
      readonly linearTokens: readonly number[];
      /** At those points. */
      readonly linearUs: readonly number[];
      /** Prefill attention, paid when the step has prompt tokens: a0 + new·P + prefix·Σprefix + pairs·Σpairs. */
      readonly prefill: {
        /** a0 */
        readonly baseUs: number;
        /** Per new prompt token. */
        readonly newUs: number;
        /** Per token before them in the context. */
        readonly prefixUs: number;
        /** Per pair of a new token and one that it looks at. */
        readonly pairsUs: number;
      };
      /** Decode attention, paid when the step decodes: b0 + seq·D + ctx·Σcontext. */
      readonly decode: {
        /** b0 */
        readonly baseUs: number;
        /** Per sequence that decodes. */
        readonly seqUs: number;
        /** Per token of their contexts. */
        readonly ctxUs: number;
      };
      /** Mixed steps pay max(prefill base, decode base) once instead of both (form constant+new+pairs+…). */
      readonly sharedBase: boolean;
      /** All of that times this: another GPU. */
      readonly scale: number;
      /** Added to each step. */
      readonly overheadUs: number;
      /**
       * What API server, tokenizer and the like take of each request: it has arrived and does not wait yet. Absent: nothing.
       */
      readonly requestOverheadUs?: number;
    };

/** How steps stray from their formula, drawn from the seed. Each absent: not at all. */
export interface StepNoise {
  /** Each step is multiplied by a log-normal factor of mean 1: the standard deviation of its logarithm. */
  readonly jitterSigma?: number;
  /** What a request waits before the queue is multiplied by a normal factor of mean 1 with this deviation, 0.3 to 1.7. */
  readonly overheadSigma?: number;
  /** This share of the steps is multiplied by a Pareto factor (least 1, at most 1000) with this exponent. */
  readonly tail?: {
    /** 0 to 1. */
    readonly share: number;
    /** The smaller, the heavier the tail. */
    readonly alpha: number;
  };
  /** A step that goes on at a multiple of `everyUs` since the first one takes so much longer. */
  readonly pause?: {
    /** From one to the next. */
    readonly everyUs: number;
    /** So much longer. */
    readonly forUs: number;
  };
}

/** Known defects of the real server's metrics, each of which `--fix` repairs. */
export const FIX_NAMES = ["abort-counted", "abort-times", "preemptions-at-once", "responses-counted"] as const;
export type FixName = (typeof FIX_NAMES)[number];

/** Documented defects of other versions and servers, each of which `--bug` brings back: `metrics/bugs/`. */
export const BUG_NAMES = [
  "stuck-kv-usage",
  "stuck-requests",
  "recomputed-hits",
  "repeated-first-tokens",
  "negative-delta",
  "ensemble-pending",
  "failures-succeed",
  "gauge-total",
  "counter-gauge",
  "stale-gauges",
  "open-leak",
  "worker-saw-tooth",
  "duplicate-series",
  "fraction-blocks",
] as const;
export type BugName = (typeof BUG_NAMES)[number];

/** The scheduler's options under vLLM's names. */
export interface EngineConfig {
  /** Longest prompt plus answer, in tokens. */
  readonly maxModelLen: number;
  /** Most sequences in one step. */
  readonly maxNumSeqs: number;
  /** Limit of running requests that admission uses; <= maxNumSeqs. */
  readonly maxNumActiveSeqs: number;
  /** Most tokens in one step. */
  readonly maxNumBatchedTokens: number;
  /** Token budget of a step; <= maxNumBatchedTokens. */
  readonly maxNumScheduledTokens: number;
  /** Tokens of a KV block. */
  readonly blockSize: number;
  /** Block 0 is the null block: usable are numGpuBlocks - 1. */
  readonly numGpuBlocks: number;
  /** Prompts that begin alike share blocks. */
  readonly enablePrefixCaching: boolean;
  /** A long prompt may be spread over several steps. */
  readonly enableChunkedPrefill: boolean;
  /** The next step is planned while one runs. */
  readonly asyncScheduling: boolean;
  /** Who runs first: by arrival, or by the request's priority. */
  readonly schedulingPolicy: "fcfs" | "priority";
  /** Most prompt tokens of one request per step while others wait or run; 0 is off. */
  readonly longPrefillTokenThreshold: number;
  /** That threshold is never less than a fair share of the token budget. */
  readonly longPrefillTokenThresholdAdaptive: boolean;
  /** Prefill only in every n-th step; those between decode alone. */
  readonly prefillScheduleInterval: number;
  /** A request is admitted where its whole prompt fits. */
  readonly schedulerReserveFullIsl: boolean;
  /** Share of the pool that admission leaves free, 0 to 1. */
  readonly watermark: number;
  /** Different LoRA adapters that may run at once; 0 is LoRA off. */
  readonly maxLoras: number;
  /** Seed of all that is drawn. */
  readonly seed: number;
  /** How long steps take. */
  readonly timing: Timing;
  /** How steps stray from it. Absent: not at all. */
  readonly noise?: StepNoise;
  /** All times of `timing` and `noise` are divided by it. Absent: 1. */
  readonly speed?: number;
  /** `--custom-histogram-buckets`. Absent: vLLM's bounds. */
  readonly histogramBuckets?: HistogramBuckets;
  /** Defects of vLLM's metrics that are repaired. */
  readonly fixes?: readonly FixName[];
  /** TensorRT-LLM's schedulers in place of vLLM's: the fields above are then its limits of the same meaning. */
  readonly trtllm?: TrtllmConfig;
}

/** `--kv-transfer-time`: until the KV cache of a prompt that was computed elsewhere is here. */
export interface KvTransferTime {
  readonly baseUs: number;
  /** Per token of the prompt. */
  readonly tokenUs: number;
  /** Deviation of a normal distribution, cut at 0.3 and 1.7 times the mean. */
  readonly deviationUs: number;
  /** What of it the first step takes anyway: it is not waited for. */
  readonly stepUs: number;
}

/** `--lora-modules`: a model name of its own. */
export interface LoraModule {
  readonly name: string;
  readonly path: string;
  /** The parent in the list of models; null: the first served name. */
  readonly baseModelName: string | null;
}

/** `--truth-log`: where the truth about each request is written, and how much of it is kept. */
export interface TruthLogConfig {
  readonly file: string;
  /** Largest size of one file. */
  readonly maxBytes: number;
  /** Files kept, the one being written included. */
  readonly files: number;
  /** With the bytes of answers that a plan of faults disturbed; absent: without. */
  readonly wire?: boolean;
}

/** What shapes answers on the wire; each absent means vLLM's default. */
export interface WireConfig {
  /** A model's folder, for its tokenizer. */
  readonly tokenizer?: string;
  /** A file of scripted answers. */
  readonly script?: string;
  /** Whoever orders nothing gets back what was said last. */
  readonly echo?: boolean;
  /** True if prompts that ask for JSON in words get it. */
  readonly promptedJson?: boolean;
  /** The format of reasoning; absent: no reasoning parser. */
  readonly reasoningParser?: ReasoningFormat;
  /** The field that holds reasoning; absent: as the real server of the role names it. */
  readonly reasoningField?: ReasoningField;
  /** The format of tool calls; absent: no tool parser. */
  readonly toolCallParser?: ToolFormat;
  /** `--enable-auto-tool-choice`. */
  readonly autoToolChoice?: boolean;
  /** So many of a hundred requests fail; absent: none. Absent types: any. */
  readonly failureRate?: number;
  readonly failureTypes?: readonly FailureType[];
  /** So many of a hundred answers are disturbed; absent: none. Absent types: any that reaches its own answer alone. */
  readonly faultRate?: number;
  readonly faultTypes?: readonly string[];
  /** Times of recorded answers; absent: their own. */
  readonly replayTiming?: "recorded" | "scheduled";
  /** A file of rules by which answers are disturbed. */
  readonly faultPlan?: string;
  /** A request may say by `X-Return-Error` that it fails. */
  readonly errorHeader?: boolean;
  /** Share of the answers that call a tool where the request leaves that open, 0 to 1; absent: a half. */
  readonly toolCallShare?: number;
  /** Absent: what is open in a schema is drawn from all that it takes. */
  readonly toolHabits?: ToolHabits;
  /** Share of its prompt that a request must find in the prefix cache; absent: requests may not ask for it either. */
  readonly cacheHitThreshold?: number;
  /** Absent: whatever requests say of remote prefill and decode means nothing. */
  readonly kvTransferTime?: KvTransferTime;
  /** Mean tokens of thinking; absent: 64. */
  readonly meanReasoningTokens?: number;
  /** Tokens that each image counts; absent: images are refused. */
  readonly imageTokens?: number;
  /** Length of vectors where a request does not say; absent: there are no embeddings. */
  readonly embeddingDimensions?: number;
  /** Responses that are kept; absent or 0: none. */
  readonly responseStore?: number;
  /** A folder of answers to requests of some kind. */
  readonly fixtures?: string;
  /** A table of answers by the hash of their prompt. */
  readonly dataset?: { readonly file: string; readonly table: string; readonly inMemory: boolean };
  readonly requestOrders?: RequestOrders;
  readonly responseRole?: string;
  readonly fingerprintMode?: "full" | "hash" | "custom" | "none";
  readonly fingerprintValue?: string;
  readonly trackServerLoad?: boolean;
  readonly tokenizerInfo?: boolean;
  /** Scale-out routes were asked for, which are not built: they say so. */
  readonly scaleOut?: boolean;
  readonly perRequestMetrics?: boolean;
  readonly tokensAsIds?: boolean;
  /** Seconds; 0: never. */
  readonly keepAliveS?: number;
  readonly cors?: CorsConfig;
  readonly maxNumQueuedReqs?: number;
  readonly maxNumQueuedTokens?: number;
  /** `--override-generation-config`. */
  readonly generation?: Readonly<Record<string, unknown>>;
}

/** Options of Starlette's CORS middleware; "*" stands for all. */
export interface CorsConfig {
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  readonly headers: readonly string[];
  readonly credentials: boolean;
}

export interface ServeConfig {
  readonly role: RoleName;
  /** `--seed`, where it was given: ids and the seeds of requests that bring none repeat. null: they are drawn by chance. */
  readonly seed: number | null;
  readonly engine: EngineConfig;
  /** Engines of that configuration behind the server, at least 1. */
  readonly dataParallelSize: number;
  /** Processes that serve on the port, each with that many engines; at least 1. */
  readonly workers: number;
  readonly model: string;
  /** At least one; the first is the one that answers carry. */
  readonly servedModelNames: readonly string[];
  /** An adapter's number is its place here, from 1. */
  readonly loraModules: readonly LoraModule[];
  readonly host: string;
  readonly port: number;
  /** For HTTP/2; absent: none. */
  readonly http2Port?: number;
  readonly apiKeys: readonly string[];
  /** Absent: plain HTTP. */
  readonly tls?: TlsConfig | "self-signed";
  /** Absent: the defaults of `config/front-limits.ts`. */
  readonly frontLimits?: FrontLimits;
  readonly streamInterval: number;
  /** Absent: auto. */
  readonly streamWrites?: StreamWritesOrder;
  readonly shutdownTimeoutS: number;
  readonly maxBodyBytes: number;
  readonly maxLogprobs: number;
  readonly enableRequestIdHeaders: boolean;
  /** All answers carry them; names in lower case. Absent: none. */
  readonly podHeaders?: Readonly<Record<string, string>>;
  readonly disableAccessLog: boolean;
  /** No warnings about HTTP itself: what is not HTTP, or another protocol. */
  readonly disableWarnings: boolean;
  /** No `/openapi.json`, `/docs`, `/redoc`. */
  readonly disableFastapiDocs: boolean;
  readonly disableLogStats: boolean;
  /** Whose names `/metrics` shows, and whether the hidden ones among them too. */
  readonly metricsProfile: MetricsProfile;
  readonly showHiddenMetrics: boolean;
  /** Defects that the metrics have on purpose. */
  readonly bugs: readonly BugName[];
  /** Metrics that show something else than what is so. */
  readonly fakeMetrics?: FakeMetrics;
  readonly enablePromptTokensDetails: boolean;
  readonly enableForceIncludeUsage: boolean;
  readonly enableLogRequests: boolean;
  /** When answers end by themselves. */
  readonly outputTokens: OutputLengths;
  /** The measured engine (a name of `profiles/`) that gave the defaults, whatever the timing. */
  readonly preset: string;
  /** Where the model's name chose the preset: those measured for it, `preset` first; empty: none, `preset` is the default one. */
  readonly presetsOfModel?: readonly string[];
  /** Blocks of the default preset's pool, which was enlarged to hold one request of full length; absent: it was not. */
  readonly poolGrownFrom?: number;
  /** 0 to 1, as given; the pool's size already follows it. Shown in `cache_config_info`. */
  readonly gpuMemoryUtilization: number;
  /** As given; the pool's size already follows it. Shown in `cache_config_info`. Absent: auto. */
  readonly kvCacheDtype?: KvCacheDtype;
  /** As given, for `cache_config_info`; `engine.numGpuBlocks` already follows it. */
  readonly numGpuBlocksOverride: number | null;
  readonly truthLog: TruthLogConfig | null;
  /** Generations that ended whose truth is kept in memory; 0: none. */
  readonly truthRequests: number;
  /** What clients sent is kept for whoever asks over HTTP. */
  readonly keepBodies: boolean;
  /** What the Triton and TensorRT-LLM dialects show, and whether they have a port of their own. */
  readonly triton: TritonMetricsConfig;
  /** What the role triton alone has. */
  readonly tritonServer?: TritonServerConfig;
  /** What the role trtllm-serve alone has. */
  readonly trtllmServe?: TrtllmServeConfig;
  /** Hosts whose requests are answered, on every HTTP port. Absent: all. */
  readonly allowedHosts?: readonly string[];
  /** Routes that change how the server runs: pause, resume, cache resets. */
  readonly devMode: boolean;
  /** Adapters may be loaded and unloaded by request. */
  readonly runtimeLora?: boolean;
  /** `/health/ready` is asked by probes of another stand-in: so long after the start it is. */
  readonly readiness?: { readonly afterUs: number };
  readonly wire?: WireConfig;
  /** Flags of `vllm serve` that were given and mean nothing here. */
  readonly ignoredFlags: readonly string[];
}
