/** Which numbers are kept of one model of a Triton server, and where? Said once: the models count, the table prints. */

/** Failures by reason, in the order of the numbers. */
export const FAILURE_REASONS = ["REJECTED", "CANCELED", "BACKEND", "OTHER"] as const;
export type Reason = (typeof FAILURE_REASONS)[number];

/** Spans of a request, in the order of the numbers. */
export const SPANS = ["request", "queue", "compute_input", "compute_infer", "compute_output"] as const;

/** Inclusive bounds of the time to the first response, whole milliseconds. */
export const FIRST_RESPONSE_MS: readonly number[] = [100, 500, 2000, 5000];
/** Inclusive bounds of the lengths of prompts and answers, tokens. */
export const TOKENS: readonly number[] = [10, 50, 100, 500, 1000];

/** Offsets of a model's numbers. */
export const ModelWord = {
  success: 0,
  /** By `FAILURE_REASONS`. */
  failures: 1,
  count: 5,
  executions: 6,
  /** Sums by `SPANS`; whole microseconds. */
  durations: 7,
  /** Buckets (not cumulative), then the sum. */
  firstResponse: 12,
  inputTokens: 18,
  outputTokens: 25,
  /** By `SPANS` and quantile: the estimate plus one, 0 where there is none. */
  quantiles: 32,
} as const;

/** Numbers of a model with that many quantiles per span; 0 where summaries are off. */
export const modelWidth = (quantiles: number) => ModelWord.quantiles + SPANS.length * quantiles;

/** Numbers of an engine's meters before those of the models. */
export const MeterField = {
  /** Since the engine came to be. */
  aliveUs: 0,
  /** When its clock began: microseconds since 1970. */
  epochUs: 1,
  models: 2,
} as const;
