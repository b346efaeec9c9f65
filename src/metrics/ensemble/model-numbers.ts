/** Layout of the numbers of one model of a Triton server. The models count into it and the table prints from it. */

/** Reasons of failures, in the order of the numbers. */
export const FAILURE_REASONS = ["REJECTED", "CANCELED", "BACKEND", "OTHER"] as const;
export type Reason = (typeof FAILURE_REASONS)[number];

/** Time spans of a request, in the order of the numbers. */
export const SPANS = ["request", "queue", "compute_input", "compute_infer", "compute_output"] as const;

/** Inclusive bounds of the time to the first response, in whole milliseconds. */
export const FIRST_RESPONSE_MS: readonly number[] = [100, 500, 2000, 5000];
/** Inclusive bounds of the lengths of prompts and answers, in tokens. */
export const TOKENS: readonly number[] = [10, 50, 100, 500, 1000];

/** Offsets of a model's numbers. */
export const ModelWord = {
  success: 0,
  /** One number per entry of `FAILURE_REASONS`. */
  failures: 1,
  count: 5,
  executions: 6,
  /** One sum per entry of `SPANS`, in whole microseconds. */
  durations: 7,
  /** Buckets (not cumulative), then the sum. */
  firstResponse: 12,
  inputTokens: 18,
  outputTokens: 25,
  /** For each entry of `SPANS`, one number per quantile: the estimate plus one, or 0 if there is none. */
  quantiles: 32,
} as const;

/** Returns how many numbers a model has with this many quantiles per span (0 if summaries are off). */
export const modelWidth = (quantiles: number) => ModelWord.quantiles + SPANS.length * quantiles;

/** Offsets of an engine's numbers before those of the models. */
export const MeterField = {
  /** Microseconds since the engine was created. */
  aliveUs: 0,
  /** Microseconds since 1970 at the start of its clock. */
  epochUs: 1,
  models: 2,
} as const;
