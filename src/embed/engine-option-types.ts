/**
 * Which options does a program give an engine? Flags of `understudy serve` in camel case. Written by
 * scripts/option-types.ts from the table of options, whose texts and defaults these are.
 */

/** A whole number, also as a text with vLLM's units: "8k" is 8000, "8K" 8192. */
export type HumanNumber = number | `${number}${"" | "k" | "K" | "m" | "M" | "g" | "G" | "t" | "T"}`;

/** Scheduler, KV cache, and how long steps take; docs/options.md lists the flags. */
export interface EngineOptions {
  /** Longest prompt plus answer, in tokens. auto: as much as the KV pool holds. Default: the preset's model. */
  readonly maxModelLen?: HumanNumber | "auto" | undefined;
  /** Seed of everything random. The same seed and request give the same answer. Where it is given, ids repeat too: the same requests in the same order get the same ones. Without it no two servers share an id. Default: 0. */
  readonly seed?: number | undefined;
  /** Most sequences in one step. Default: by the preset's GPU. */
  readonly maxNumSeqs?: number | undefined;
  /** Most requests that admission lets run; at most maxNumSeqs. Default: maxNumSeqs. */
  readonly maxNumActiveSeqs?: number | undefined;
  /** Most tokens in one step. Default: by the preset's GPU. */
  readonly maxNumBatchedTokens?: HumanNumber | undefined;
  /** Token budget of a step; at most maxNumBatchedTokens. Default: maxNumBatchedTokens. */
  readonly maxNumScheduledTokens?: HumanNumber | undefined;
  /** Who runs first: by arrival, or by the request's priority (a smaller value first). Default: fcfs. */
  readonly schedulingPolicy?: "fcfs" | "priority" | undefined;
  /** A long prompt may be spread over several steps. Default: true. */
  readonly enableChunkedPrefill?: boolean | undefined;
  /** Plan the next step while one runs. Default: true. */
  readonly asyncScheduling?: boolean | undefined;
  /** Most prompt tokens of one request per step while others wait or run; 0 is off. Default: 0. */
  readonly longPrefillTokenThreshold?: number | undefined;
  /** Never less than a fair share of the token budget. Default: false. */
  readonly longPrefillTokenThresholdAdaptive?: boolean | undefined;
  /** Prefill only in every n-th step; those between decode alone. Default: 1. */
  readonly prefillScheduleInterval?: number | undefined;
  /** Admit a request only when its whole prompt fits into the free blocks. Default: true. */
  readonly schedulerReserveFullIsl?: boolean | undefined;
  /** Share of the KV blocks that admission leaves free. Default: 0. */
  readonly watermark?: number | undefined;
  /** Tokens per KV block. Default: 16. */
  readonly blockSize?: number | undefined;
  /** Size of the KV pool in blocks, in place of the preset's. One block is set aside. Default: none. */
  readonly numGpuBlocksOverride?: number | undefined;
  /** Share of the preset's GPU memory; what the weights leave of it is the KV pool. Default: 0.92. */
  readonly gpuMemoryUtilization?: number | undefined;
  /** Requests with an equal beginning share its blocks. Default: true. */
  readonly enablePrefixCaching?: boolean | undefined;
  /** LoRA adapters may be used; how many at once, is maxLoras. Default: false. */
  readonly enableLora?: boolean | undefined;
  /** Most different adapters that run at once; requests for others are passed over until one is free. Default: 1. */
  readonly maxLoras?: number | undefined;
  /** Type of keys and values, as vLLM names it. With fp8 (fp8_e4m3, fp8_e5m2, fp8_inc) twice the tokens fit. Default: auto. */
  readonly kvCacheDtype?:
    | "auto"
    | "float16"
    | "bfloat16"
    | "fp8"
    | "fp8_e4m3"
    | "fp8_e5m2"
    | "fp8_inc"
    | "fp8_ds_mla"
    | "nvfp4_ds_mla"
    | "turboquant_k8v4"
    | "turboquant_4bit_nc"
    | "turboquant_k3v4_nc"
    | "turboquant_3bit_nc"
    | "octave_k3v4"
    | "octave_k3v3"
    | "octave_k3v3_compact"
    | "ultraquant_4bit"
    | "int4_per_token_head"
    | "int8_per_token_head"
    | "fp8_per_token_head"
    | "nvfp4"
    | "nvfp4_4over6"
    | undefined;
  /** Bounds of vLLM's histograms by family, as {"request_latency": [0.1, 1]}: docs/metrics.md. Default: none. */
  readonly customHistogramBuckets?: Readonly<Record<string, readonly number[]>> | undefined;
  /** How long steps take: none, constant:ttft=200ms,itl=20ms, linear:base=4ms,prefill=0.02ms,decode=0.03ms, or a preset. A preset also sets the defaults of its model and GPU. Both also say how long a request takes before it waits, as in PRESET:overhead=10ms or linear:…,overhead=10ms: docs/timing.md. Default: the preset measured for the model, else llama-3.1-8b-bf16-h100-tp1-vllm. */
  readonly timing?: string | undefined;
  /** Each step is multiplied by a log-normal factor of mean 1; X is the deviation of its logarithm. Default: 0. */
  readonly jitter?: number | undefined;
  /** What a request waits before the queue is multiplied by a normal factor of mean 1 with this deviation, 0.3 to 1.7 at most. Default: 0. */
  readonly overheadJitter?: number | undefined;
  /** So large a share of the steps is multiplied by a Pareto factor (at least 1, at most 1000) with this exponent. Default: none. */
  readonly jitterTail?: string | undefined;
  /** A pause in regular intervals: the step that runs then takes so much longer. Default: none. */
  readonly slowSteps?: string | undefined;
  /** The engine is so many times as fast: times of steps, pauses and request overhead are divided by it. Default: 1. */
  readonly speed?: number | undefined;
  /** When answers end by themselves, by the request's seed: constant:N, lognormal:mean=N,sigma=X, or trace:FILE (the output lengths of a trace). max_tokens cuts them, with ignore_eos they go on to it. Default: lognormal:mean=128,sigma=0.7. */
  readonly outputTokens?: string | undefined;
  /** Short for --output-tokens lognormal:mean=N. Default: 128. */
  readonly meanOutputTokens?: number | undefined;
}
