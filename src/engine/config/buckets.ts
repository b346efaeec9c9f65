/**
 * Bounds of the histograms. The core counts into them and metrics/ prints them. Source: vLLM 0.33
 * `v1/metrics/buckets.py` and `v1/metrics/loggers.py`. Units are the printed ones: seconds or tokens. A value falls
 * into the first bucket whose bound is at least the value. The last bucket, +Inf, is not listed.
 */

const TIME_TO_FIRST_TOKEN = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
] as const;
const INTER_TOKEN = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
] as const;
const REQUEST_LATENCY = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
] as const;
const ITERATION_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] as const;

const CHOICES = [1, 2, 5, 10, 20] as const;
const PREEMPTIONS = [1, 2, 3, 4, 5, 10, 20] as const;

/** Returns 1, 2, 5, 10, 20, 50 … up to `limit`, like vLLM's `build_1_2_5_buckets`. */
export function oneTwoFive(limit: number): number[] {
  const bounds: number[] = [];
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) {
      if (digit * power > limit) return bounds;
      bounds.push(digit * power);
    }
  }
}

/** Keys of `--custom-histogram-buckets`, in vLLM's alphabetical order. Each sets the bounds of several histograms. */
export const BUCKET_FAMILIES = [
  "inter_token_latency",
  "iteration_tokens",
  // Belongs to --kv-cache-metrics, which Understudy ignores. Accepted without effect.
  "kv_cache_residency",
  "request_latency",
  "request_num_preemptions",
  "request_params_n",
  "request_tokens",
  "time_to_first_token",
] as const;
export type BucketFamily = (typeof BUCKET_FAMILIES)[number];
/** Largest number of bounds of one histogram: `HISTOGRAM_WIDTH` of the core's layout, minus one for +Inf. */
export const BOUNDS_MOST = 63;
/** Rising bounds above 0 that replace vLLM's. */
export type HistogramBuckets = Readonly<Partial<Record<BucketFamily, readonly number[]>>>;

interface BucketOptions {
  readonly maxModelLen: number;
  readonly histogramBuckets?: HistogramBuckets;
}

/** Returns the bounds of the core's histograms by `HistogramName`. Bounds for a request's tokens end at `maxModelLen`. */
export function histogramBounds({ maxModelLen, histogramBuckets: custom = {} }: BucketOptions) {
  const requestTokens: readonly number[] = custom.request_tokens ?? oneTwoFive(maxModelLen);
  const firstToken = custom.time_to_first_token ?? TIME_TO_FIRST_TOKEN;
  const interToken = custom.inter_token_latency ?? INTER_TOKEN;
  const requestLatency = custom.request_latency ?? REQUEST_LATENCY;
  return {
    timeToFirstToken: firstToken,
    interTokenLatency: interToken,
    e2eLatency: requestLatency,
    queueTime: requestLatency,
    prefillTime: requestLatency,
    decodeTime: requestLatency,
    inferenceTime: requestLatency,
    timePerOutputToken: interToken,
    promptTokens: requestTokens,
    generationTokens: requestTokens,
    maxTokens: requestTokens,
    iterationTokens: custom.iteration_tokens ?? ITERATION_TOKENS,
    requestPreemptions: custom.request_num_preemptions ?? PREEMPTIONS,
    prefillComputed: requestTokens,
    requestChoices: custom.request_params_n ?? CHOICES,
    longestChoice: requestTokens,
  } as const satisfies Record<string, readonly number[]>;
}

/** Our own bounds for the lateness of steps and the duration of writing, in seconds. */
export const LOOP_BOUNDS: readonly number[] = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
