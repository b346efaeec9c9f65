/**
 * Lists the error codes of Triton's core and maps them to HTTP statuses. Sources: `TRITONSERVER_Error_Code`, and
 * `HttpCodeFromError` in `http_server.cc`.
 */

export type StatusCode =
  | "UNKNOWN"
  | "INTERNAL"
  | "NOT_FOUND"
  | "INVALID_ARG"
  | "UNAVAILABLE"
  | "UNSUPPORTED"
  | "ALREADY_EXISTS"
  | "CANCELLED";

export const HTTP_STATUS: Readonly<Record<StatusCode, number>> = {
  UNKNOWN: 400,
  INTERNAL: 500,
  NOT_FOUND: 404,
  INVALID_ARG: 400,
  UNAVAILABLE: 503,
  UNSUPPORTED: 501,
  ALREADY_EXISTS: 400,
  CANCELLED: 400,
};

/** An error that a client receives: a code of Triton's core and a message. */
export class TritonError extends Error {
  override readonly name = "TritonError";
  readonly code: StatusCode;

  constructor(code: StatusCode, message: string) {
    super(message);
    this.code = code;
  }
}

export const invalidArg = (message: string) => new TritonError("INVALID_ARG", message);
export const internal = (message: string) => new TritonError("INTERNAL", message);
