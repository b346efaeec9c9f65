/** Functions for small changes of an event's JSON, for use by several faults. */
import { added, type EventJson, jsonOf, type StreamEvent, textIn, withData } from "../plan/event.ts";
import type { AnswerDialect } from "../plan/types.ts";

/**
 * Returns a copy of the event whose JSON `change` has changed. Returns null if the event has no JSON, or if `change` returns
 * false.
 */
export function changed(event: StreamEvent, change: (json: EventJson) => unknown): StreamEvent | null {
  const json = jsonOf(event);
  if (json === null || change(json) === false) return null;
  return withData(event, JSON.stringify(json));
}

/** Returns the event with the text that `tell` returns. Returns null if the event has no text or `tell` returns null. */
export function withText(event: StreamEvent, tell: (text: string) => string | null): StreamEvent | null {
  return changed(event, (json) => {
    const place = textIn(json);
    if (place === null) return false;
    place.put(tell(place.text));
    return true;
  });
}

/**
 * Returns a changed copy of the event, to be sent before the event itself. Returns null if the event has no JSON, or if
 * `change` returns false.
 */
export function copied(event: StreamEvent, change: (json: EventJson) => unknown): StreamEvent | null {
  const copy = changed(event, change);
  return copy === null ? null : added(event, copy.data!);
}

export const only = (event: StreamEvent | null): readonly StreamEvent[] | null => (event === null ? null : [event]);
export const before = (more: StreamEvent | null, event: StreamEvent): readonly StreamEvent[] | null =>
  more === null ? null : [more, event];

/** Replaces the event with a changed event. Returns null if `changed` does. */
export const edited = (event: StreamEvent, change: (json: EventJson) => unknown) => only(changed(event, change));
/** Puts a changed copy of the event before the event. Returns null if `copied` does. */
export const preceded = (event: StreamEvent, change: (json: EventJson) => unknown) =>
  before(copied(event, change), event);

/** Returns the first choice of an OpenAI chunk. */
export const choiceOf = (json: EventJson): EventJson => json?.choices?.[0];
/** Returns the finish reason of an event, or null if the event has no finish reason. */
export const reasonOf = (json: EventJson): string | null =>
  choiceOf(json)?.finish_reason ?? json?.delta?.stop_reason ?? null;

/** Removes the finish reason from the JSON of an event. Returns false if the JSON has no finish reason. */
export function withoutReason(json: EventJson): boolean {
  if (choiceOf(json)?.finish_reason) choiceOf(json).finish_reason = null;
  else if (json?.delta?.stop_reason) json.delta.stop_reason = null;
  else return false;
  return true;
}

const MESSAGE = "The engine gave up in the middle of the answer";

/** Returns an event that reports an error in the middle of a stream, in the form that servers of this dialect use. */
export function errorEvent(at: StreamEvent, dialect: AnswerDialect): StreamEvent {
  if (dialect === "messages") {
    const error = { type: "error", error: { type: "api_error", message: MESSAGE } };
    return added(at, JSON.stringify(error), "error");
  }
  if (dialect === "responses") {
    const error = { type: "error", code: "server_error", message: MESSAGE, param: null, sequence_number: at.index };
    return added(at, JSON.stringify(error), "error");
  }
  return added(at, dialect === "generate" ? JSON.stringify({ error: MESSAGE }) : `{"error":${bareError()}}`, null);
}

export const bareError = (): string =>
  JSON.stringify({ message: MESSAGE, type: "InternalServerError", param: null, code: 500 });
