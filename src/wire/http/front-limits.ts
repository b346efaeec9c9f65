/** What does the HTTP front allow? Sizes, times and numbers of requests, and what it says when it is full. */

/** Forms of `Retry-After`: whole seconds, an HTTP date, and `retry-after-ms` as Azure's and OpenAI's clients read it. */
export const RETRY_AFTER_FORMS = ["seconds", "date", "ms"] as const;
export type RetryAfterForm = (typeof RETRY_AFTER_FORMS)[number];

/** Limits of connections. Every 0 is: no limit. */
export interface ConnectionLimits {
  /** Request line and header lines; bytes. */
  readonly headBytes: number;
  /** From the head of a request to the end of its body. */
  readonly bodyTimeoutS: number;
  /** From the end of the body to the end of the answer. */
  readonly requestTimeoutS: number;
  /** Silence on a connection without a request. */
  readonly keepAliveS: number;
}

/** Limits of admission, and the refusals of a full server. They can change while a server runs. Every 0 is: no limit. */
export interface OverloadLimits {
  /** Generation requests that are being served. */
  readonly requests: number;
  /** Generation requests that are served as streams. */
  readonly streams: number;
  /** Status of refusals because the server is full. */
  readonly overloadStatus: 429 | 503;
  /** What these refusals say of a better time; null: nothing. */
  readonly retryAfter: { readonly seconds: number; readonly forms: readonly RetryAfterForm[] } | null;
}

export type FrontLimits = ConnectionLimits & OverloadLimits;

export const FRONT_LIMITS: FrontLimits = {
  headBytes: 4_194_304,
  bodyTimeoutS: 300,
  requestTimeoutS: 0,
  keepAliveS: 5,
  requests: 0,
  streams: 0,
  overloadStatus: 503,
  retryAfter: null,
};

/** Limits of which some are given. */
export type GivenFrontLimits = Partial<Omit<FrontLimits, "retryAfter">> & {
  readonly retryAfter?: Partial<NonNullable<FrontLimits["retryAfter"]>>;
};

/** Takes the other limits from `FRONT_LIMITS`. Returns undefined if none is given: forms of `Retry-After` without a time are none. */
export function completeFrontLimits({ retryAfter = {}, ...given }: GivenFrontLimits): FrontLimits | undefined {
  const { seconds, forms = ["seconds"] } = retryAfter;
  const limits = seconds === undefined ? given : { ...given, retryAfter: { seconds, forms } };
  return Object.keys(limits).length === 0 ? undefined : { ...FRONT_LIMITS, ...limits };
}

export function connectionLimitsOf(config: {
  readonly listen: { readonly frontLimits?: ConnectionLimits };
}): ConnectionLimits {
  return config.listen.frontLimits ?? FRONT_LIMITS;
}
