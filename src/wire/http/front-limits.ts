/** The limits of the HTTP front: sizes, times and numbers of requests, and the refusal of a full server. */

/** Forms of `Retry-After`: whole seconds, an HTTP date, and `retry-after-ms` as Azure's and OpenAI's clients read it. */
export const RETRY_AFTER_FORMS = ["seconds", "date", "ms"] as const;
export type RetryAfterForm = (typeof RETRY_AFTER_FORMS)[number];

/** Limits of connections. 0 means no limit. */
export interface ConnectionLimits {
  /** Largest request line and header lines together, in bytes. */
  readonly headBytes: number;
  /** Seconds from the head of a request to the end of its body. */
  readonly bodyTimeoutS: number;
  /** Seconds from the end of the body to the end of the answer. */
  readonly requestTimeoutS: number;
  /** Seconds that a connection without a request stays open. */
  readonly keepAliveS: number;
}

/** Limits of admission, and the refusals of a full server. They can change while a server runs. 0 means no limit. */
export interface OverloadLimits {
  /** Largest number of generation requests being served. */
  readonly requests: number;
  /** Largest number of generation requests being served as streams. */
  readonly streams: number;
  /** Status of the refusals of a full server. */
  readonly overloadStatus: 429 | 503;
  /** Time after which these refusals ask the client to come back, or null to leave it out. */
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

/** Front limits of which any may be missing. */
export type PartialFrontLimits = Partial<Omit<FrontLimits, "retryAfter">> & {
  readonly retryAfter?: Partial<NonNullable<FrontLimits["retryAfter"]>>;
};

/**
 * Takes missing limits from `FRONT_LIMITS`. Returns undefined if all are missing; `forms` without `seconds` counts as missing.
 */
export function completeFrontLimits({ retryAfter = {}, ...given }: PartialFrontLimits): FrontLimits | undefined {
  const { seconds, forms = ["seconds"] } = retryAfter;
  const limits = seconds === undefined ? given : { ...given, retryAfter: { seconds, forms } };
  return Object.keys(limits).length === 0 ? undefined : { ...FRONT_LIMITS, ...limits };
}

export function connectionLimitsOf(config: {
  readonly listen: { readonly frontLimits?: ConnectionLimits };
}): ConnectionLimits {
  return config.listen.frontLimits ?? FRONT_LIMITS;
}
