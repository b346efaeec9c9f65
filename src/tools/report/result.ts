/**
 * The part of a run's JSON result that a report needs: vLLM's flat keys, and the object `understudy`, all of whose members may
 * be missing. Written by `load` and `replay`. Units are in the names.
 */

export interface Histogram {
  /** Upper bounds in rising order. A value belongs to the first bucket whose bound is not smaller. */
  readonly bounds: readonly number[];
  /** Number of values in each bucket. */
  readonly counts: readonly number[];
}

/** A distribution in the unit of its metric. Percentiles are named p50, p90, p99.9. Null if there were no values. */
export interface Distribution {
  readonly count: number;
  readonly mean: number | null;
  readonly std?: number | null;
  readonly min?: number | null;
  readonly max?: number | null;
  readonly histogram?: Histogram;
  readonly [percentile: `p${number}`]: number | null | undefined;
}

/** Values of a run at one moment. Counts are since the start; gauges are current values. Missing values are not drawn. */
export interface Moment {
  /** Seconds since the start of the run. */
  readonly t: number;
  readonly running?: number | null;
  readonly sent?: number | null;
  readonly completed?: number | null;
  readonly output_tokens?: number | null;
  /** Medians in milliseconds, over requests and tokens since the last moment. */
  readonly ttft_p50?: number | null;
  readonly itl_p50?: number | null;
  /** Median end-to-end latency in milliseconds, over answers without tokens. An answer without tokens has no TTFT and no ITL. */
  readonly e2el_p50?: number | null;
}

/** The server's metrics at one moment. `kv_usage` is from 0 to 1; `preemptions` counts since the start. */
export interface ServerMoment {
  readonly t: number;
  readonly running?: number | null;
  readonly waiting?: number | null;
  readonly kv_usage?: number | null;
  readonly preemptions?: number | null;
}

/** One rate or concurrency of a sweep. */
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
  /** Meaning of each name in the report. */
  readonly definitions?: Readonly<Record<string, string>>;
  readonly command?: string;
  readonly title?: string;
  /** Versions of the client and the server. `metadata`: what the user set with --metadata. */
  readonly versions?: Readonly<Record<string, string>>;
  readonly host?: Readonly<Record<string, string | number>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly arrivals?: Readonly<Record<string, unknown>>;
  readonly warnings?: readonly string[];
  /** True if the run was ended by Ctrl-C, so that the result covers only the time before. */
  readonly partial?: boolean;
  /** Limits in milliseconds by metric: `{ttft: 500}`. */
  readonly slo?: Readonly<Record<string, number>>;
  readonly sched_delay_ms?: Distribution;
  /** Number of all requests, if the records are only a sample. */
  readonly requests?: number;
  /** Retries: maximum per request, number of retries, number of retried requests, and retries per request. */
  readonly retries?: {
    readonly limit: number;
    readonly count: number;
    readonly requests: number;
    readonly per_request: number;
  };
  /** Output tokens of each answer divided by its `e2el`, in tokens/s. */
  readonly tokens_per_s_per_user?: Distribution;
  /** Number of requests per kind of failure. */
  readonly errors?: Readonly<Record<string, number>>;
  /** Distributions in milliseconds by metric: ttft, ttft_intended, itl, icl, tpot, e2el, e2el_intended, queue … */
  readonly distributions?: Readonly<Record<string, Distribution>>;
  /** Percentiles by metric in which failed requests count as infinitely slow. Null is infinite. Empty if no request failed. */
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
    /** Growth of each counter during the run. */
    readonly delta?: Readonly<Record<string, number>>;
    readonly timeseries?: readonly ServerMoment[];
  } | null;
  /** Measured minus true, in milliseconds by metric. Present if the server reported the truth. */
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

/**
 * One request in a report. Times are microseconds on the run's clock, which starts at 0. NaN if the request did not get that
 * far.
 */
export interface ReportRecord {
  readonly index: number;
  /** The `X-Request-Id` that was sent. It joins the request with the server's truth. */
  readonly requestId: string;
  /** Intended time: from the schedule (open loop), or when a slot became free (closed loop). */
  readonly intendedUs: number;
  /** Time of the first byte that was sent, of the first attempt if there were retries. */
  readonly sendUs: number;
  /** Time at which the server scheduled it first. Known if the server reported the truth. */
  readonly scheduledUs?: number;
  /** Times of the first and last chunk with generated output. */
  readonly firstUs: number;
  readonly lastUs: number;
  /** Time of the end of the body. */
  readonly endUs: number;
  /** Arrival times of all chunks with generated output. */
  readonly chunkUs: ArrayLike<number>;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly failure: { readonly kind: string; readonly message: string } | null;
}
