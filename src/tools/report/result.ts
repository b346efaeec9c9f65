/**
 * What does a report need to know of a run? The JSON result of `load`: vLLM's flat keys as they come, and the object
 * `understudy`, of which each part may be missing. `replay` fills in the same. Times in the unit of their name.
 */

export interface Histogram {
  /** Upper bounds, rising; a value is in the first bucket whose bound is not below it. */
  readonly bounds: readonly number[];
  /** As many as bounds. */
  readonly counts: readonly number[];
}

/** All values in the unit of the metric; percentiles as p50, p90, p99.9; null where nothing was observed. */
export interface Distribution {
  readonly count: number;
  readonly mean: number | null;
  readonly std?: number | null;
  readonly min?: number | null;
  readonly max?: number | null;
  readonly histogram?: Histogram;
  readonly [percentile: `p${number}`]: number | null | undefined;
}

/** A moment of the run; counts are since its beginning, gauges as they stood. What is missing is not drawn. */
export interface Moment {
  /** Seconds since the run's beginning. */
  readonly t: number;
  readonly running?: number | null;
  readonly sent?: number | null;
  readonly completed?: number | null;
  readonly output_tokens?: number | null;
  /** Medians over the requests and tokens since the moment before, ms. */
  readonly ttft_p50?: number | null;
  readonly itl_p50?: number | null;
  /** Median of answers without tokens, which have neither of these. */
  readonly e2el_p50?: number | null;
}

/** The server's own numbers at a moment; names as `running`, `waiting`, `kv_usage` (0 to 1), `preemptions` (since the beginning). */
export interface ServerMoment {
  readonly t: number;
  readonly running?: number | null;
  readonly waiting?: number | null;
  readonly kv_usage?: number | null;
  readonly preemptions?: number | null;
}

/** One rate, or one concurrency, of a sweep. */
export interface SweepPoint {
  readonly request_rate?: number | null;
  readonly concurrency?: number | null;
  readonly request_throughput: number;
  /** Missing if answers have no tokens. */
  readonly output_throughput?: number;
  readonly request_goodput?: number | null;
  readonly attainment?: number | null;
  readonly distributions: Readonly<Record<string, Distribution>>;
}

export interface UnderstudyPart {
  readonly schema_version: number | string;
  /** What each name in the report means. */
  readonly definitions?: Readonly<Record<string, string>>;
  readonly command?: string;
  readonly title?: string;
  /** Versions of the client, the server, the host's system; what the user named with --metadata. */
  readonly versions?: Readonly<Record<string, string>>;
  readonly host?: Readonly<Record<string, string | number>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly arrivals?: Readonly<Record<string, unknown>>;
  readonly warnings?: readonly string[];
  /** Ended by Ctrl-C: what follows is what there was until then. */
  readonly partial?: boolean;
  /** Limits by metric, ms: `{ttft: 500}`. */
  readonly slo?: Readonly<Record<string, number>>;
  readonly sched_delay_ms?: Distribution;
  /** How many there were, where the records are a sample of them. */
  readonly requests?: number;
  /** How often requests were sent again (at most `limit` times each), how many of them, and that often per request. */
  readonly retries?: {
    readonly limit: number;
    readonly count: number;
    readonly requests: number;
    readonly per_request: number;
  };
  /** Tokens of each answer by its `e2el`: tokens/s. */
  readonly tokens_per_s_per_user?: Distribution;
  /** Requests by what went wrong. */
  readonly errors?: Readonly<Record<string, number>>;
  /** By metric: ttft, ttft_intended, itl, icl, tpot, e2el, e2el_intended, queue …; ms. */
  readonly distributions?: Readonly<Record<string, Distribution>>;
  /** Percentiles by metric in which failed requests count as infinitely slow: null is infinite. Empty where none failed. */
  readonly adj?: Readonly<Record<string, Readonly<Record<string, number | null>>>>;
  /** Distributions of the requests within the steady window. */
  readonly steady?: {
    readonly from_s: number;
    readonly to_s: number;
    readonly distributions: Readonly<Record<string, Distribution>>;
  } | null;
  readonly timeseries?: readonly Moment[];
  readonly server_metrics?: {
    readonly before?: unknown;
    readonly after?: unknown;
    /** What each counter grew by. */
    readonly delta?: Readonly<Record<string, number>>;
    readonly timeseries?: readonly ServerMoment[];
  } | null;
  /** Measured minus true, ms, by metric; present when the server said what was true. */
  readonly truth?: {
    readonly requests?: number;
    readonly errors?: Readonly<Record<string, Distribution>>;
    readonly lateness_ms?: Distribution;
  } | null;
  readonly sweep?: readonly SweepPoint[];
}

export interface Result {
  readonly understudy: UnderstudyPart;
  readonly [flat: string]: unknown;
}

/** What a report shows of one request. Microseconds on the run's clock, which starts at 0; NaN: it never came so far. */
export interface ReportRecord {
  readonly index: number;
  /** The `X-Request-Id` sent, by which a server's own truth is found. */
  readonly requestId: string;
  /** The schedule's time (open loop), or when a slot came free (closed loop). */
  readonly intendedUs: number;
  /** First byte handed to the kernel; of a request that was sent again, the first time. */
  readonly sendUs: number;
  /** When the server took it out of its queue: known where the server told the truth. */
  readonly scheduledUs?: number;
  /** First and last chunk with generated output. */
  readonly firstUs: number;
  readonly lastUs: number;
  /** End of the body. */
  readonly endUs: number;
  /** Arrival of each chunk with generated output. */
  readonly chunkUs: ArrayLike<number>;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly failure: { readonly kind: string; readonly message: string } | null;
}
