/** What does an error look like on the wire? Bodies and statuses of vLLM 0.33 (`entrypoints/serve/exception_handling`), byte for byte. */

import { type ErrorAnswer, errorAnswer, Refused } from "../../pydantic/refusals.ts";
import type { Limits } from "./request.ts";

/** A `ValueError` or `TypeError` that reached the handler: 400 with its text. */
export function badRequest(message: string, param: string | null = null): ErrorAnswer {
  return errorAnswer(message, "BadRequestError", param, 400);
}

/** `VLLMValidationError`: the suffix names the parameter and the value (already printed as Python's `str` does). */
export function validationError(message: string, parameter?: string, value?: string): ErrorAnswer {
  const extras = [];
  if (parameter !== undefined) extras.push(`parameter=${parameter}`);
  if (value !== undefined) extras.push(`value=${value}`);
  return badRequest(extras.length > 0 ? `${message} (${extras.join(", ")})` : message, parameter ?? null);
}

export function validationRefusal(message: string, parameter?: string, value?: string): Refused {
  return new Refused(validationError(message, parameter, value));
}

/** An exception of a kind that vLLM does not expect from a request (AttributeError, KeyError): 500 with Python's text. */
export function unexpectedError(message: string): ErrorAnswer {
  return errorAnswer(message, "InternalServerError", null, 500);
}

// ---- before the request is known

/** No bearer token, or a wrong one. A text where the other errors have an object. */
export const unauthorized: ErrorAnswer = { status: 401, body: '{"error":"Unauthorized"}' };
export const notFound: ErrorAnswer = { status: 404, body: '{"detail":"Not Found"}' };

/** `allow`: the methods of the route, as in the header. */
export function methodNotAllowed(allow: string): ErrorAnswer {
  return { status: 405, body: '{"detail":"Method Not Allowed"}', headers: { allow } };
}

/** What `SCALE_OUT` routes answer without --enable-scale-out (`entrypoints/scale_out/factories.py`). */
export const scaleOutDisabled: ErrorAnswer = errorAnswer(
  "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
  "PermissionDeniedError",
  null,
  403,
);

/** What `SCALE_OUT` routes answer with --enable-scale-out: a sentence of ours, for vLLM has these routes. */
export const scaleOutNotBuilt: ErrorAnswer = errorAnswer(
  "Scale-out endpoints are not built in Understudy: --enable-scale-out changes nothing but this answer.",
  "NotImplementedError",
  null,
  501,
);

/** Ours: vLLM takes bodies of any size (`--max-body-mb`). The shape is OpenAI's. */
export function bodyTooLarge(maxBytes: number): ErrorAnswer {
  const mebibytes = Math.round((maxBytes / 1048576) * 100) / 100;
  return errorAnswer(
    `Request body is larger than ${mebibytes} MiB (--max-body-mb).`,
    "RequestEntityTooLarge",
    null,
    413,
  );
}

/** Ours: vLLM waits for ever (`--body-timeout`). The rest of the body has no reader, so the connection ends. */
export function bodyTooSlow(seconds: number): ErrorAnswer {
  const { status, body } = errorAnswer(
    `Request body did not arrive within ${seconds} s (--body-timeout).`,
    "RequestTimeout",
    null,
    408,
  );
  return { status, body, headers: { connection: "close" } };
}

// ---- before generation

/** Ours: a fault that reaches connections or other requests, ordered by a client. */
export const faultNotAllowed: ErrorAnswer = errorAnswer(
  "understudy: this plan of faults reaches connections or other requests; the server takes such with --allow-request-orders all",
  "PermissionDeniedError",
  "understudy",
  403,
);
/** Ours: a fault where the answer goes over no socket. */
export const noConnection: ErrorAnswer = badRequest("understudy: a fault needs a connection", "understudy");

/** Ours: `--allow-request-orders`. */
export const orderNotAllowed: ErrorAnswer = errorAnswer(
  "understudy: hold_after and engine_dies_at_step reach other requests too: a request may order them only with --allow-request-orders all",
  "PermissionDeniedError",
  "understudy",
  403,
);

/** `Valid aliases` are the served names; adapters are not listed. */
/** Most characters of an unknown name that are quoted. Megabytes would be copied several times in one go. */
export const QUOTED_NAME_MOST = 65_536;

/** 404 for a model that is not served. */
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

/** The queue takes no more (`--max-num-queued-reqs`, or the core's own bound). */
export const engineBusy: ErrorAnswer = errorAnswer(
  "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
  "Service Unavailable",
  null,
  503,
);

/** `--max-num-queued-tokens`. */
export const prefillBacklog: ErrorAnswer = errorAnswer(
  "The engine has reached its prefill token backlog limit. Please try again later or on a different instance.",
  "Service Unavailable",
  null,
  503,
);

/** Ours: the same refusal under another status (`--overload-status`). */
export function overloaded({ body }: ErrorAnswer, status: 429 | 503): ErrorAnswer {
  const { error } = JSON.parse(body) as { error: { message: string } };
  return errorAnswer(error.message, status === 429 ? "Too Many Requests" : "Service Unavailable", null, status);
}

/** Ours: `--request-timeout`. */
export function requestTimedOut(seconds: number): ErrorAnswer {
  return errorAnswer(`Request took longer than ${seconds} s (--request-timeout).`, "GatewayTimeout", null, 504);
}

/** Paused with mode abort or wait; plain answers and the completions stream. */
export const paused: ErrorAnswer = errorAnswer(
  "Generation is paused. Please retry after it resumes.",
  "ServiceUnavailableError",
  null,
  503,
);

/** Paused with mode abort or wait, inside a chat stream, where vLLM names another type. */
export const pausedInChatStream: ErrorAnswer = errorAnswer(
  "Generation is paused. Please retry after it resumes.",
  "InternalServerError",
  null,
  503,
);

/** The engine gave the request up (finish reason error). */
export const internalError: ErrorAnswer = errorAnswer("Internal server error", "InternalServerError", null, 500);

/** The engine is dead. */
export const engineDead: ErrorAnswer = errorAnswer(
  "The server had an error while processing your request.",
  "InternalServerError",
  null,
  500,
);
