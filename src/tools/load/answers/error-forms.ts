/**
 * Tells errors among the objects of an answer, in the forms that servers and the gateways in front of them use. A server
 * that has sent status 200 can report an error only in the body: as an event of type `error`, or as an object in place of
 * a chunk.
 */
import { type LooseObject, looseObject, shownJson } from "../../../base/json-object.ts";

/** Members that only an error has. */
const ERROR_MEMBERS = [
  // OpenAI, vLLM, Triton, Anthropic; several errors at once (GraphQL, Cloudflare); gateways of clouds (Apigee, Envoy).
  ...["error", "errors", "fault", "exception", "failure"],
  ...["error_message", "errorMessage", "error_msg", "error_code", "errorCode", "error_type", "err"],
  // FastAPI, and problem details (RFC 9457).
  "detail",
];
/** Members that say what kind of object it is, or how the request ended. */
const KIND_MEMBERS = ["object", "type", "status", "code", "error_type", "__type"];
const ERROR_KIND = /error|exception|fail|timeout|unavailable|exhausted|denied|invalid|too_?many/i;
const STATUS_MEMBERS = ["code", "status", "status_code", "statusCode", "http_status"];
const LEAST_ERROR_STATUS = 400;

/** Returns an error as a server words it: a text, the message of an object, or its JSON. */
export function messageOf(error: unknown): string {
  if (typeof error === "string") return error || "no text";
  const message = looseObject(error)?.message;
  return typeof message === "string" && message !== "" ? message : shownJson(error);
}

/** Members of an answer. An object that has one of them is an error only if it has `error`, too. */
const ANSWER_MEMBERS = ["choices", "usage", "text_output", "outputs"];

/**
 * Returns the message of an error, or null if the object is none. `error` other than null is always an error; the other
 * forms only in an object that has no member of an answer.
 */
export function errorIn(value: LooseObject): string | null {
  if (isPresent(value.error)) return messageOf(value.error);
  if (ANSWER_MEMBERS.some((name) => isPresent(value[name]))) return null;
  const member = ERROR_MEMBERS.find((name) => isPresent(value[name]) && value[name] !== false);
  if (member === undefined && !hasErrorKind(value) && !hasErrorStatus(value) && !isBareMessage(value)) return null;
  const said = looseObject(value.message) === null && typeof value.message === "string" ? value.message : undefined;
  return said || messageOf(member === undefined ? value : value[member]);
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

function hasErrorKind(value: LooseObject): boolean {
  if (value.success === false || value.ok === false) return true;
  return KIND_MEMBERS.some((name) => typeof value[name] === "string" && ERROR_KIND.test(value[name]));
}

function hasErrorStatus(value: LooseObject): boolean {
  return STATUS_MEMBERS.some((name) => Number(value[name]) >= LEAST_ERROR_STATUS && Number(value[name]) < 600);
}

/** `{"message": …}` alone, or with members that chunks do not have. */
function isBareMessage(value: LooseObject): boolean {
  return typeof value.message === "string" && value.id === undefined && value.object === undefined;
}
