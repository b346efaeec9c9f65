/**
 * Error answers. Statuses and bodies are those of vLLM 0.33 (`entrypoints/serve/exception_handling`), byte for byte. "Ours" marks
 * errors that vLLM does not have.
 */

import { type ErrorAnswer, errorAnswer, refuse } from "../../pydantic/refusals.ts";
import type { Limits } from "./request.ts";

/** Returns the 400 that vLLM answers after a `ValueError` or `TypeError`, with its text. */
export function badRequest(message: string, param: string | null = null): ErrorAnswer {
  return errorAnswer(message, "BadRequestError", param, 400);
}

/** Returns the 400 of a `VLLMValidationError`, which names parameter and value. `value`: as Python's `str` prints it. */
export function validationError(message: string, parameter?: string, value?: string): ErrorAnswer {
  const extras = [];
  if (parameter !== undefined) extras.push(`parameter=${parameter}`);
  if (value !== undefined) extras.push(`value=${value}`);
  return badRequest(extras.length > 0 ? `${message} (${extras.join(", ")})` : message, parameter ?? null);
}

/** Refuses a request with the answer that `validationError` makes. Throws `RefusedRequest`. */
export function refuseValue(message: string, parameter?: string, value?: string): never {
  refuse(validationError(message, parameter, value));
}

/** Returns the 500 that vLLM answers after an unexpected exception (AttributeError, KeyError), with Python's text. */
export function unexpectedError(message: string): ErrorAnswer {
  return errorAnswer(message, "InternalServerError", null, 500);
}

// ---- errors before the body is read

/** A missing or wrong key. `error` is a text here, but an object in the other errors. */
export const unauthorized: ErrorAnswer = { status: 401, body: '{"error":"Unauthorized"}' };
export const notFound: ErrorAnswer = { status: 404, body: '{"detail":"Not Found"}' };

/** Returns the 405 of a route. `allow`: value of the header. */
export function methodNotAllowed(allow: string): ErrorAnswer {
  return { status: 405, body: '{"detail":"Method Not Allowed"}', headers: { allow } };
}

/** The answer of `SCALE_OUT` routes without --enable-scale-out (`entrypoints/scale_out/factories.py`). */
export const scaleOutDisabled: ErrorAnswer = errorAnswer(
  "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
  "PermissionDeniedError",
  null,
  403,
);

/** The answer of `SCALE_OUT` routes with --enable-scale-out. Ours, because vLLM has built these routes. */
export const scaleOutNotBuilt: ErrorAnswer = errorAnswer(
  "Scale-out endpoints are not built in Understudy: --enable-scale-out changes only this answer.",
  "NotImplementedError",
  null,
  501,
);

/** Ours: a body larger than `--max-body-mb`. vLLM accepts any size. The shape is OpenAI's. */
export function bodyTooLarge(maxBytes: number): ErrorAnswer {
  const mebibytes = Math.round((maxBytes / 1048576) * 100) / 100;
  return errorAnswer(
    `Request body is larger than ${mebibytes} MiB (--max-body-mb).`,
    "RequestEntityTooLarge",
    null,
    413,
  );
}

/** Ours: a body that takes longer than `--body-timeout`. vLLM waits for ever. Closes the connection, as the rest is not read. */
export function bodyTooSlow(seconds: number): ErrorAnswer {
  const { status, body } = errorAnswer(
    `Request body did not arrive within ${seconds} s (--body-timeout).`,
    "RequestTimeout",
    null,
    408,
  );
  return { status, body, headers: { connection: "close" } };
}

// ---- errors after the body is read

/** Ours: a client orders a fault that affects connections or other requests. */
export const faultNotAllowed: ErrorAnswer = errorAnswer(
  "understudy: this plan of faults affects connections or other requests, which requires --allow-request-orders all",
  "PermissionDeniedError",
  "understudy",
  403,
);
/** Ours: a fault is ordered for an answer that has no socket (`app.handle`). */
export const noConnection: ErrorAnswer = badRequest(
  "understudy: a fault needs a connection, but this answer has none",
  "understudy",
);

/** Ours: `--allow-request-orders` does not permit the script that a client orders. */
export const orderNotAllowed: ErrorAnswer = errorAnswer(
  "understudy: hold_after and engine_dies_at_step affect other requests, which requires --allow-request-orders all",
  "PermissionDeniedError",
  "understudy",
  403,
);

/** Most characters of an unknown name that are quoted, because megabytes would be copied several times in one turn. */
const QUOTED_NAME_MOST = 65_536;

/** Returns the 404 of a model that is not served. Like vLLM, does not list the names of adapters. */
export function unknownModel(model: string, limits: Pick<Limits, "servedModelNames">): ErrorAnswer {
  const aliases = limits.servedModelNames.join(", ");
  const quoted = model.length > QUOTED_NAME_MOST ? `${model.slice(0, QUOTED_NAME_MOST)}…` : model;
  return errorAnswer(
    `The model \`${quoted}\` does not exist. Valid aliases: ${aliases}.`,
    "NotFoundError",
    "model",
    404,
  );
}

/** The queue is full: `--max-num-queued-reqs`, or the core's limit of requests. */
export const engineBusy: ErrorAnswer = errorAnswer(
  "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
  "Service Unavailable",
  null,
  503,
);

/** The queue has more prompt tokens than `--max-num-queued-tokens`. */
export const prefillBacklog: ErrorAnswer = errorAnswer(
  "The engine has reached its prefill token backlog limit. Please try again later or on a different instance.",
  "Service Unavailable",
  null,
  503,
);

/** Ours: returns the refusal of a full server with the status of `--overload-status`. */
export function overloaded({ body }: ErrorAnswer, status: 429 | 503): ErrorAnswer {
  const { error } = JSON.parse(body) as { error: { message: string } };
  return errorAnswer(error.message, status === 429 ? "Too Many Requests" : "Service Unavailable", null, status);
}

/** Ours: an answer takes longer than `--request-timeout`. */
export function requestTimedOut(seconds: number): ErrorAnswer {
  return errorAnswer(`Request took longer than ${seconds} s (--request-timeout).`, "GatewayTimeout", null, 504);
}

/** The engine is paused with mode abort or wait. For whole answers and streams of completions. */
export const paused: ErrorAnswer = errorAnswer(
  "Generation is paused. Please retry after it resumes.",
  "ServiceUnavailableError",
  null,
  503,
);

/** The engine is paused with mode abort or wait. For streams of chats, where vLLM names another type. */
export const pausedInChatStream: ErrorAnswer = errorAnswer(
  "Generation is paused. Please retry after it resumes.",
  "InternalServerError",
  null,
  503,
);

/** The engine gave up the request (finish reason `error`). */
export const internalError: ErrorAnswer = errorAnswer("Internal server error", "InternalServerError", null, 500);

/** The engine is dead. */
export const engineDead: ErrorAnswer = errorAnswer(
  "The server had an error while processing your request.",
  "InternalServerError",
  null,
  500,
);
