/** How can a request fail although nothing is wrong with it? Names of llm-d-inference-sim, which are also ours. */
export const FAILURE_TYPES = [
  "rate_limit",
  "invalid_api_key",
  "context_length",
  "server_error",
  "invalid_request",
  "model_not_found",
] as const;
export type FailureType = (typeof FAILURE_TYPES)[number];
