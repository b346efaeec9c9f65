/**
 * Lists the error codes of Triton's core and maps them to HTTP statuses. Sources: `TRITONSERVER_Error_Code`, and
 * `HttpCodeFromError` in `http_server.cc`.
 */

export const HTTP_STATUS = {
  UNKNOWN: 400,
  INTERNAL: 500,
  NOT_FOUND: 404,
  INVALID_ARG: 400,
  UNAVAILABLE: 503,
  UNSUPPORTED: 501,
  ALREADY_EXISTS: 400,
  CANCELLED: 400,
};
export type StatusCode = keyof typeof HTTP_STATUS;

/** An error that a client receives: a code of Triton's core and a message. */
export class TritonError extends Error {
  override readonly name = "TritonError";

  constructor(
    readonly code: StatusCode,
    message: string,
  ) {
    super(message);
  }
}

export const invalidArg = (message: string) => new TritonError("INVALID_ARG", message);
export const internal = (message: string) => new TritonError("INTERNAL", message);
