/**
 * Which options does a program give a server? The flags of `understudy serve` in camel case. Written by
 * scripts/option-types.ts from the table of options, whose texts and defaults these are.
 */
import type { EngineOptions, HumanNumber } from "./engine-option-types.ts";
import type { ForeignOptions } from "./foreign-option-types.ts";

/** A LoRA adapter; the path need not exist. */
export interface LoraAdapter {
  /** By which requests ask for it. */
  readonly name: string;
  /** Where it would be. */
  readonly path: string;
  /** Parent in the list of models; default: the first served name. */
  readonly base_model_name?: string;
}

/** Sampling defaults, under vLLM's names. */
export interface GenerationConfig {
  /** The most output tokens, also of requests that ask for more. */
  readonly max_new_tokens?: number;
  /** From 0. */
  readonly temperature?: number;
  /** 0 to 1. */
  readonly top_p?: number;
  /** Tokens; 0 and -1 are all. */
  readonly top_k?: number;
  /** 0 to 1. */
  readonly min_p?: number;
  /** Above 0; 1 is none. */
  readonly repetition_penalty?: number;
}

/** The flags of `understudy serve`, but that the port is a free one unless given, and the log is silent. */
export interface ServerOptions extends EngineOptions, ForeignOptions {
  /** Model to stand in for; also the first positional argument. Its name chooses the preset of --timing: docs/timing.md. Default: the preset's model. */
  readonly model?: string | undefined;
  /** Names that requests may use. The first one stands in answers and metrics, in those of Triton for its ensemble. Default: the model. */
  readonly servedModelName?: readonly string[] | undefined;
  /** Most log probabilities that a request may ask for; -1 is no limit. Default: 20. */
  readonly maxLogprobs?: number | undefined;
  /** Address to listen on. vLLM listens on all interfaces; we do so only with --host 0.0.0.0. Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0 takes a free one. Default: 8000. */
  readonly port?: number | undefined;
  /** Port for HTTP/2, beside the other: without upgrade, or by ALPN with --ssl-certfile; 0 takes a free one. Default: none. */
  readonly http2Port?: number | undefined;
  /** Answer 400 to requests whose Host header names another host, on every HTTP port, against DNS rebinding: docs/admin.md. Default: *: any. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Requests to /v1 and the like must carry one of these keys. Also taken from VLLM_API_KEY. Default: none. */
  readonly apiKey?: readonly string[] | undefined;
  /** Private key of --ssl-certfile. Default: none. */
  readonly sslKeyfile?: string | undefined;
  /** Certificate, with its chain: the server speaks HTTPS. May hold the private key too. Default: none. */
  readonly sslCertfile?: string | undefined;
  /** The server speaks HTTPS with a certificate that it makes at the start; each worker process makes its own. Default: false. */
  readonly selfSignedCerts?: boolean | undefined;
  /** Authorities whose client certificates are accepted. Default: none. */
  readonly sslCaCerts?: string | undefined;
  /** Client certificates: 0 none, 2 one of --ssl-ca-certs is required. vLLM's 1 (optional) is not built. Default: 0. */
  readonly sslCertReqs?: 0 | 2 | undefined;
  /** Largest head of a request in bytes; above it 431. In vLLM, which uses another parser, it has no effect. Default: 4194304. */
  readonly h11MaxIncompleteEventSize?: number | undefined;
  /** Seconds after which an idle connection is closed. Also taken from VLLM_HTTP_TIMEOUT_KEEP_ALIVE. Default: 5. */
  readonly timeoutKeepAlive?: number | undefined;
  /** Seconds that a request's body may take to arrive; then 408. 0 is no limit, as in vLLM. Default: 300. */
  readonly bodyTimeout?: number | undefined;
  /** Seconds that an answer may take; then 504, or an error as the last event of its stream. 0 is no limit. Default: 0. */
  readonly requestTimeout?: number | undefined;
  /** Most generation requests that are served at once; beyond it as --overload-status says. 0 is no limit. Default: 0. */
  readonly limitConcurrency?: number | undefined;
  /** Most event streams at once; beyond it as --overload-status says. 0 is no limit. Default: 0. */
  readonly maxStreams?: number | undefined;
  /** Status of refusals because the server is full: docs/admission.md. Default: 503. */
  readonly overloadStatus?: 503 | "503" | 429 | "429" | undefined;
  /** Refusals because the server is full ask the client to come again after so many seconds. Default: none. */
  readonly retryAfter?: number | undefined;
  /** How --retry-after is said: Retry-After in seconds or as a date, or retry-after-ms. Default: seconds. */
  readonly retryAfterForm?: readonly ("seconds" | "date" | "ms")[] | undefined;
  /** Answers carry X-Request-Id. Default: false. */
  readonly enableRequestIdHeaders?: boolean | undefined;
  /** No /openapi.json, /docs and /redoc. Default: false. */
  readonly disableFastapiDocs?: boolean | undefined;
  /** No line of statistics every 10 s, and none of vLLM's engine metrics, as in vLLM. Default: false. */
  readonly disableLogStats?: boolean | undefined;
  /** Show metrics hidden since this version, if it is the minor version before the profile's. 0.33 has none. Default: none. */
  readonly showHiddenMetricsForVersion?: string | undefined;
  /** Usage says how many prompt tokens came from the prefix cache. Default: false. */
  readonly enablePromptTokensDetails?: boolean | undefined;
  /** Every stream ends with usage. Default: false. */
  readonly enableForceIncludeUsage?: boolean | undefined;
  /** Tokens per streamed chunk; the first token always leaves alone. Default: 1. */
  readonly streamInterval?: number | undefined;
  /** How the plain tokens of a step leave: by one native call (batched: Linux, no TLS), one call each, or auto, as can be. Default: auto. */
  readonly streamWrites?: "auto" | "batched" | "single" | undefined;
  /** Seconds that running requests get after SIGTERM; 0 aborts them. Default: 0. */
  readonly shutdownTimeout?: number | undefined;
  /** Largest request body in MiB; above it 413. vLLM has no limit. Default: 64. */
  readonly maxBodyMb?: number | undefined;
  /** Engines behind this server, each with its own queue and KV pool; requests are balanced as vLLM does. Also -dp. Default: 1. */
  readonly dataParallelSize?: number | undefined;
  /** Adapters as name=path or JSON; a request names one in place of the model. The path need not exist. Default: none. */
  readonly loraModules?: readonly (string | LoraAdapter)[] | undefined;
  /** GPUs of one engine: among the presets measured for the model, the one with so many is taken. Also -tp. Default: the preset's. */
  readonly tensorParallelSize?: number | undefined;
  /** GET /tokenizer_info says what the tokenizer's configuration says. Default: false. */
  readonly enableTokenizerInfoEndpoint?: boolean | undefined;
  /** Not built: /inference/v1/generate and the render routes then say so with 501, without it vLLM's 403. Default: false. */
  readonly enableScaleOut?: boolean | undefined;
  /** What requests that order nothing are answered with: seeded prose; what the user said last; JSON if the prompt asks for it in words, else prose: docs/structured-output.md. Default: prose. */
  readonly answers?: "prose" | "echo" | "prompted-json" | undefined;
  /** Take the flags, environment and YAML keys of another stand-in: docs/migrating.md. Default: none. */
  readonly compat?: "llm-d-inference-sim" | undefined;
  /** Whoever has it may change timing, admission, failures, fixtures and logs of the running server: docs/admin.md. Default: none: /admin/config is no path. */
  readonly adminKey?: string | undefined;
  /** The server to stand in for: vllm (vLLM's OpenAI-compatible server), triton (Triton Inference Server, with options of its own: --role triton --help), trtllm-serve (TensorRT-LLM's trtllm-serve). Default: vllm. */
  readonly role?: "vllm" | "trtllm-serve" | undefined;
  /** The version of vLLM whose metrics are shown, names and labels: docs/metrics.md. Default: vllm-0.33. */
  readonly metricsProfile?:
    | "vllm-0.6"
    | "vllm-0.7"
    | "vllm-0.8"
    | "vllm-0.9"
    | "vllm-0.10"
    | "vllm-0.11"
    | "vllm-0.12"
    | "vllm-0.14"
    | "vllm-0.16"
    | "vllm-0.18"
    | "vllm-0.22"
    | "vllm-0.26"
    | "vllm-0.30"
    | "vllm-0.33"
    | undefined;
  /** Known defects of the real server's metrics to repair: docs/metrics.md. Default: none. */
  readonly fix?: readonly ("abort-counted" | "abort-times" | "preemptions-at-once" | "responses-counted")[] | undefined;
  /** Defects that the metrics get on purpose, so that a checker finds them: docs/bug-modes.md. Default: none. */
  readonly bug?:
    | readonly (
        | "stuck-kv-usage"
        | "stuck-requests"
        | "recomputed-hits"
        | "repeated-first-tokens"
        | "negative-delta"
        | "ensemble-pending"
        | "failures-succeed"
        | "gauge-total"
        | "counter-gauge"
        | "stale-gauges"
        | "open-leak"
        | "worker-saw-tooth"
        | "duplicate-series"
        | "fraction-blocks"
      )[]
    | undefined;
  /** What some of vLLM's metrics show instead of what is so: docs/bug-modes.md. Default: none. */
  readonly fakeMetrics?: Readonly<Record<string, unknown>> | undefined;
  /** Write what each request really experienced to this file, as JSON Lines: docs/truth-log.md. Default: none. */
  readonly truthLog?: string | undefined;
  /** Size in MiB at which the truth log goes on in a new file; the one before becomes FILE.1. Default: 256. */
  readonly truthLogMaxMb?: number | undefined;
  /** Files of the truth log that are kept, the one being written included. Default: 4. */
  readonly truthLogFiles?: number | undefined;
  /** The bytes of answers that a plan of faults disturbed stand in the truth log, too: docs/truth-log.md. Default: off. */
  readonly truthWire?: boolean | undefined;
  /** Generations whose truth is kept for GET /understudy/requests after they have ended; 0: none. docs/truth-log.md. Default: 1000. */
  readonly truthRequests?: number | undefined;
  /** Keeps what clients sent, the last 1,000 requests with bodies, for GET /understudy/requests?sent=1: docs/truth-log.md. Default: false. */
  readonly keepBodies?: boolean | undefined;
  /** The model's own tokenizer and chat template: counts, prompts, cache hits and pieces are those of the model. Default: the built-in vocabulary. */
  readonly tokenizer?: string | undefined;
  /** Sampling defaults (temperature, top_p, top_k, min_p, repetition_penalty), and with max_new_tokens the most output tokens. Default: {}. */
  readonly overrideGenerationConfig?: GenerationConfig | undefined;
  /** Answers on order: docs/scripts.md. Default: none. */
  readonly script?: string | undefined;
  /** Chat answers begin with reasoning, which this parser splits off. Any name of vLLM's: docs/reasoning.md. Default: none. */
  readonly reasoningParser?: string | undefined;
  /** The parser that finds tool calls in the generated text. Any name of vLLM's: docs/tools.md. Default: none. */
  readonly toolCallParser?: string | undefined;
  /** Requests may leave open whether a tool is called; needs --tool-call-parser. Default: false. */
  readonly enableAutoToolChoice?: boolean | undefined;
  /** Share of the answers that call a tool where the request leaves that open. Default: 0.5. */
  readonly toolCallShare?: number | undefined;
  /** What arguments of tool calls are drawn from where their schema leaves it open: docs/tools.md. Default: none. */
  readonly toolArguments?: string | undefined;
  /** Field of chat messages and deltas that holds reasoning, as clients of older versions expect it: docs/reasoning.md. Default: reasoning; with --role trtllm-serve reasoning_content. */
  readonly reasoningField?: "reasoning" | "reasoning_content" | "both" | undefined;
  /** A request that finds less of its prompt in the prefix cache, from 0 to 1, ends without a token: docs/migrating.md. Default: none: nor do requests name one. */
  readonly cacheHitThreshold?: number | undefined;
  /** How long a prompt with do_remote_prefill takes to come from elsewhere; answers to do_remote_decode say that they go on elsewhere: docs/migrating.md. Default: none: kv_transfer_params mean nothing. */
  readonly kvTransferTime?: string | undefined;
  /** Mean length of the thinking with --reasoning-parser. Default: 64. */
  readonly meanReasoningTokens?: number | undefined;
  /** Images are taken, and each counts as so many tokens of its prompt. Default: none: images are refused, as by a model of text. */
  readonly imageTokens?: number | undefined;
  /** POST /v1/embeddings gives vectors of so many numbers where a request does not say: docs/dialects.md. Default: none: /v1/embeddings is no path, as with a model that writes. */
  readonly embeddingDimensions?: number | undefined;
  /** Most responses of /v1/responses that are kept, the oldest go first; 0 keeps none. Default: 0, or 10000 with VLLM_ENABLE_RESPONSES_API_STORE=1. */
  readonly responseStore?: number | undefined;
  /** Answers to the requests that match, read anew when a file changes: docs/fixtures.md. Default: none. */
  readonly fixtures?: string | undefined;
  /** When fixtures that a proxy has recorded say what they say: at their own times, or as the engine makes it. Default: recorded. */
  readonly replayTiming?: "recorded" | "scheduled" | undefined;
  /** Rows that answer the prompts whose hash they have, and others with one that fits: docs/dataset.md. Default: none. */
  readonly dataset?: string | undefined;
  /** The table of --dataset. Default: llmd. */
  readonly datasetTable?: string | undefined;
  /** The file of --dataset is read into memory at the start, and not looked at again. Default: false. */
  readonly datasetInMemory?: boolean | undefined;
  /** What a request may order: nothing; its own answer; also an engine that stands still or dies: docs/scripts.md. Default: answers. */
  readonly allowRequestOrders?: "none" | "answers" | "all" | undefined;
  /** So many of a hundred requests fail, drawn from the seed: docs/fixtures.md. Default: 0. */
  readonly failureInjectionRate?: number | undefined;
  /** How they fail: rate_limit, invalid_api_key, context_length, server_error, invalid_request, model_not_found. Default: all. */
  readonly failureTypes?:
    | readonly (
        | "rate_limit"
        | "invalid_api_key"
        | "context_length"
        | "server_error"
        | "invalid_request"
        | "model_not_found"
      )[]
    | undefined;
  /** So many of a hundred answers are disturbed by one fault, drawn from the seed: docs/faults.md. Default: 0. */
  readonly faultRate?: number | undefined;
  /** By which: ids of docs/faults.md, or B* for those of a letter. Default: those of streams that reach their own answer alone. */
  readonly faultTypes?: readonly string[] | undefined;
  /** A YAML file of rules: which answers are disturbed, and how. Read again when it changes. Default: none. */
  readonly faultPlan?: string | undefined;
  /** Who speaks in chat answers. Default: assistant. */
  readonly responseRole?: string | undefined;
  /** What system_fingerprint says: version, parallelism and hash; the same without parallelism; fingerprintValue; nothing. Default: full. */
  readonly fingerprintMode?: "full" | "hash" | "custom" | "none" | undefined;
  /** The system_fingerprint with --fingerprint-mode custom. Default: none. */
  readonly fingerprintValue?: string | undefined;
  /** Log probabilities name tokens by id where the request does not say. Default: false. */
  readonly returnTokensAsTokenIds?: boolean | undefined;
  /** /load counts what is being served. Default: false. */
  readonly enableServerLoadTracking?: boolean | undefined;
  /** Answers with one choice carry their own times. Default: false. */
  readonly enablePerRequestMetrics?: boolean | undefined;
  /** Streams that are silent for so many seconds get a comment; 0 is never. Default: 0. */
  readonly sseKeepAliveInterval?: number | undefined;
  /** Web pages that may call the server (CORS). Default: []. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Methods that such pages may use. Default: ["*"]. */
  readonly allowedMethods?: readonly string[] | undefined;
  /** Headers that such pages may send. Default: ["*"]. */
  readonly allowedHeaders?: readonly string[] | undefined;
  /** Web pages of --allowed-origins may send cookies. Default: false. */
  readonly allowCredentials?: boolean | undefined;
  /** Most requests in the engine, running or waiting; beyond it 503. Default: none. */
  readonly maxNumQueuedReqs?: number | undefined;
  /** Prompt tokens not yet computed at which further requests get 503. Default: none. */
  readonly maxNumQueuedTokens?: number | undefined;
  /** The metrics of a Triton server, and of TensorRT-LLM's backend in it. Default: true. */
  readonly allowMetrics?: boolean | undefined;
  /** Triton's metrics of the preset's GPUs, made up. Default: true. */
  readonly allowGpuMetrics?: boolean | undefined;
  /** Triton's metrics of this machine: processor and memory. Default: true. */
  readonly allowCpuMetrics?: boolean | undefined;
  /** Port of their own, as Triton's 8002, with nothing but these metrics. 0 takes a free one. Default: none. */
  readonly metricsPort?: number | undefined;
  /** Address of that port. Default: --host. */
  readonly metricsAddress?: string | undefined;
  /** Values of GPUs and machine change every half of this. Default: 2000. */
  readonly metricsIntervalMs?: number | undefined;
  /** One setting; give the option again for another, as with tritonserver: counter_latencies=false, histogram_latencies=true, summary_latencies=true or summary_quantiles=0.5:0.05,0.9:0.01. Default: none. */
  readonly metricsConfig?: readonly string[] | undefined;
  /** TensorRT-LLM's schedulers in place of vLLM's: GUARANTEED_NO_EVICT (its default), MAX_UTILIZATION, STATIC_BATCH, or MAX_REQUESTS, which looks at no memory. docs/trtllm.md. Default: none: vLLM's scheduler. */
  readonly capacitySchedulerPolicy?:
    | "GUARANTEED_NO_EVICT"
    | "MAX_UTILIZATION"
    | "STATIC_BATCH"
    | "MAX_REQUESTS"
    | undefined;
  /** How prompts share an iteration with chunked prefill: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS. Default: FIRST_COME_FIRST_SERVED. */
  readonly contextChunkingPolicy?: "FIRST_COME_FIRST_SERVED" | "EQUAL_PROGRESS" | undefined;
  /** Most requests that are active, and in one iteration. Default: 2048. */
  readonly maxBatchSize?: number | undefined;
  /** Most tokens in one iteration. Default: 8192. */
  readonly maxNumTokens?: HumanNumber | undefined;
  /** A pause makes no prompt longer than this; what is cut off is computed again. Default: maxModelLen. */
  readonly maxInputLen?: HumanNumber | undefined;
  /** Tokens per KV block; also the unit of chunks. Default: blockSize, else 32. */
  readonly tokensPerBlock?: number | undefined;
  /** Share of the memory that the weights leave free of the preset's GPUs; it is the KV pool. Default: 0.9. */
  readonly kvCacheFreeGpuMemFraction?: number | undefined;
  /** Requests with an equal beginning share its blocks. Default: true. */
  readonly enableBlockReuse?: boolean | undefined;
  /** Blocks that begin alike are reused as far as they are alike. Default: true. */
  readonly enablePartialReuse?: boolean | undefined;
  /** Also of blocks that others hold or that have followers: these are copied. Default: true. */
  readonly copyOnPartialReuse?: boolean | undefined;
  /** Requests wait for blocks that others are about to compute, and cached blocks count at admission. Default: true. */
  readonly enablePrefixAwareScheduling?: boolean | undefined;
  /** Plan an iteration when the one before has ended, not while it runs. Default: false. */
  readonly disableOverlapScheduler?: boolean | undefined;
  /** Who becomes active first: by arrival, or by the request's priority (a smaller value first). Default: fcfs. */
  readonly waitingQueuePolicy?: "fcfs" | "priority" | undefined;
  /** Longest prompt plus answer: --max-model-len by the name of trtllm-serve. Default: maxModelLen. */
  readonly maxSeqLen?: HumanNumber | undefined;
  /** Serve /prometheus/metrics, and note times of requests for /perf_metrics. Default: false. */
  readonly returnPerfMetrics?: boolean | undefined;
  /** Requests that /perf_metrics keeps. Default: 0. */
  readonly perfMetricsMaxRequests?: number | undefined;
  /** Note statistics of each iteration for /metrics and /prometheus/metrics. Default: false. */
  readonly enableIterPerfStats?: boolean | undefined;
  /** With --enable-iter-perf-stats: /metrics tells of each request in each iteration, too. Default: false. */
  readonly enableIterReqStats?: boolean | undefined;
  /** Iterations whose statistics wait for a reader; older ones are dropped. Default: 1000. */
  readonly iterStatsMaxIterations?: number | undefined;
  /** Events of the KV cache that wait for POST /kv_cache_events; older ones are dropped. Default: 0: none. */
  readonly eventBufferMaxSize?: number | undefined;
  /** vLLM's VLLM_SERVER_DEV_MODE: routes that pause, resume and reset caches. Default: false. */
  readonly devMode?: boolean | undefined;
}
