/** Names of failures that the server returns for valid requests (--failure-types). The names are those of llm-d-inference-sim. */
export const FAILURE_TYPES = [
  "rate_limit",
  "invalid_api_key",
  "context_length",
  "server_error",
  "invalid_request",
  "model_not_found",
] as const;
export type FailureType = (typeof FAILURE_TYPES)[number];
