/** How is an event's JSON changed? Small steps that several edits share. */
import { added, type EventJson, jsonOf, type StreamEvent, textIn, withData } from "../plan/event.ts";
import type { AnswerDialect } from "../plan/types.ts";

/** The event with its JSON changed; null: it has none, or `change` says that it does not fit. */
export function changed(event: StreamEvent, change: (json: EventJson) => unknown): StreamEvent | null {
  const json = jsonOf(event);
  if (json === null || change(json) === false) return null;
  return withData(event, JSON.stringify(json));
}

/** The event with its text changed; null: it has none. */
export function retold(event: StreamEvent, tell: (text: string) => string | null): StreamEvent | null {
  return changed(event, (json) => {
    const place = textIn(json);
    if (place === null) return false;
    place.put(tell(place.text));
    return true;
  });
}

/** A copy of the event with its JSON changed, before it. */
export function copied(event: StreamEvent, change: (json: EventJson) => unknown): StreamEvent | null {
  const copy = changed(event, change);
  return copy === null ? null : added(event, copy.data!);
}

export const only = (event: StreamEvent | null): readonly StreamEvent[] | null => (event === null ? null : [event]);
export const before = (more: StreamEvent | null, event: StreamEvent): readonly StreamEvent[] | null =>
  more === null ? null : [more, event];

/** First choice of OpenAI's chunks. */
export const choiceOf = (json: EventJson): EventJson => json?.choices?.[0];
/** Why the answer ended, where the event says so. */
export const reasonOf = (json: EventJson): string | null =>
  choiceOf(json)?.finish_reason ?? json?.delta?.stop_reason ?? null;

/** Takes the reason away; false: there is none. */
export function withoutReason(json: EventJson): boolean {
  if (choiceOf(json)?.finish_reason) choiceOf(json).finish_reason = null;
  else if (json?.delta?.stop_reason) json.delta.stop_reason = null;
  else return false;
  return true;
}

const MESSAGE = "The engine gave up in the middle of the answer";

/** An error in mid-stream, as the servers of a dialect write it. */
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
