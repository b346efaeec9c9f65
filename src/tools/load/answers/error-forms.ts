/**
 * Recognises error objects in answers, in the forms that servers and gateways use. After status 200 a server can report an
 * error only in the body: as an event of type `error`, or as an object in place of a chunk.
 */
import { type LooseObject, looseObject, shownJson } from "../../../base/json-object.ts";

/** Members that only error objects have. */
const ERROR_MEMBERS = [
  // Members in errors of OpenAI, vLLM, Triton and Anthropic; lists of errors (GraphQL, Cloudflare); cloud gateways (Apigee, Envoy).
  ...["error", "errors", "fault", "exception", "failure"],
  ...["error_message", "errorMessage", "error_msg", "error_code", "errorCode", "error_type", "err"],
  // Member in errors of FastAPI and in problem details (RFC 9457).
  "detail",
];
/** Members that give the kind of an object, or how the request ended. */
const KIND_MEMBERS = ["object", "type", "status", "code", "error_type", "__type"];
const ERROR_KIND = /error|exception|fail|timeout|unavailable|exhausted|denied|invalid|too_?many/i;
const STATUS_MEMBERS = ["code", "status", "status_code", "statusCode", "http_status"];
const LEAST_ERROR_STATUS = 400;

/** Returns the text of an error: the value if it is a text, its `message`, or its JSON. */
export function messageOf(error: unknown): string {
  if (typeof error === "string") return error || "no text";
  const message = looseObject(error)?.message;
  return typeof message === "string" && message !== "" ? message : shownJson(error);
}

/** Members of answers. An object with one of them is an error only if it also has `error`. */
const ANSWER_MEMBERS = ["choices", "usage", "text_output", "outputs"];

/**
 * Returns the message of an error object, or null if the object is not an error. A non-null `error` is always an error; the
 * other forms count only in objects without members of an answer.
 */
export function errorIn(value: LooseObject): string | null {
  if (isPresent(value.error)) return messageOf(value.error);
  if (ANSWER_MEMBERS.some((name) => isPresent(value[name]))) return null;
  const member = ERROR_MEMBERS.find((name) => isPresent(value[name]) && value[name] !== false);
  if (member === undefined && !hasErrorKind(value) && !hasErrorStatus(value) && !isBareMessage(value)) return null;
  const ownMessage =
    looseObject(value.message) === null && typeof value.message === "string" ? value.message : undefined;
  return ownMessage || messageOf(member === undefined ? value : value[member]);
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

function hasErrorKind(value: LooseObject): boolean {
  if (value.success === false || value.ok === false) return true;
  return KIND_MEMBERS.some((name) => typeof value[name] === "string" && ERROR_KIND.test(value[name]));
}

function hasErrorStatus(value: LooseObject): boolean {
  return STATUS_MEMBERS.some((name) => Number(value[name]) >= LEAST_ERROR_STATUS && Number(value[name]) < 600);
}

/** True for `{"message": …}` alone, or with members that chunks do not have. */
function isBareMessage(value: LooseObject): boolean {
  return typeof value.message === "string" && value.id === undefined && value.object === undefined;
}
