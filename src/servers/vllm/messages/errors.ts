/** Writes errors in Anthropic's form. Source: vLLM 0.33, `entrypoints/anthropic/protocol.py` (translate_error_type). */
import type { ErrorAnswer } from "../../pydantic/refusals.ts";

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
};

/** Converts an error of OpenAI's form to Anthropic's. Returns errors of other forms unchanged. */
export function anthropicError(error: ErrorAnswer): ErrorAnswer {
  const message: unknown = JSON.parse(error.body).error?.message;
  if (typeof message !== "string") return error;
  const type = TYPES[error.status] ?? (error.status >= 500 ? "api_error" : "invalid_request_error");
  return { ...error, body: JSON.stringify({ type: "error", error: { type, message } }) };
}
