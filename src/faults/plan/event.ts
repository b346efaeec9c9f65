/** Events of a streamed answer, and the parts of an event that faults can change. */
import { jsonObjectIn } from "../../base/json-object.ts";
import type { AnswerDialect } from "./types.ts";

// biome-ignore lint/suspicious/noExplicitAny: JSON of five dialects, looked into by their names.
export type EventJson = any;

export interface StreamEvent {
  /** Index of the event in the answer. An event that a fault added has the index of the event after it. */
  readonly index: number;
  /** True if the event belongs to the answer, false if a fault added it. */
  readonly isOriginal: boolean;
  readonly name: string | null;
  /** Value of the data line. Null if the event is only a comment. */
  readonly data: string | null;
  /** Text of the event as it is sent, including the empty line that ends the event. */
  readonly text: string;
  /** True for the last event of the stream. */
  readonly done: boolean;
}

const LAST_TYPES = ["message_stop", "response.completed", "response.incomplete", "response.failed"];

/**
 * Splits a text into its events. A comment stays at its position and does not count as an event. `from`: index of the first
 * event.
 */
export function eventsIn(text: string, from: number): StreamEvent[] {
  // Nearly all texts take this fast path: one event with one line.
  if (text.startsWith("data: ") && text.endsWith("\n\n") && text.indexOf("\n") === text.length - 2) {
    const data = text.slice(6, -2);
    return [{ index: from, isOriginal: true, name: null, data, text, done: isLast(null, data) }];
  }
  let index = from;
  return text
    .split(/(?<=\n\n)/)
    .filter((block) => block !== "")
    .map((block) => {
      const name = /^event: ?(.*)$/m.exec(block)?.[1] ?? null;
      const lines = block.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.length === 0 ? null : lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
      const isOriginal = data !== null;
      return { index: isOriginal ? index++ : index, isOriginal, name, data, text: block, done: isLast(name, data) };
    });
}

function isLast(name: string | null, data: string | null): boolean {
  return data === "[DONE]" || (name !== null && LAST_TYPES.includes(name));
}

export function jsonOf({ data }: Pick<StreamEvent, "data">): EventJson | null {
  return data?.startsWith("{") ? jsonObjectIn(data) : null;
}

export function dialectOf(json: EventJson): AnswerDialect | null {
  if (json?.object === "chat.completion.chunk") return "chat";
  if (json?.object === "text_completion") return "completions";
  if (typeof json?.model_version === "string") return "generate";
  if (typeof json?.type !== "string") return null;
  return json.type.startsWith("response.")
    ? "responses"
    : /^(message_|content_block_|ping)/.test(json.type)
      ? "messages"
      : null;
}

/** Text of a delta that faults can replace, with the object that contains the text. */
interface TextPlace {
  /** Name of the field that contains the text. */
  readonly name: string;
  readonly text: string;
  put(text: string | null): void;
}

/** Returns the first field of a delta that contains text. Null if no field does. */
export function textIn(json: EventJson): TextPlace | null {
  const first = json?.choices?.[0];
  if (first !== undefined)
    return firstText(first.delta ?? first, ["content", "reasoning", "reasoning_content", "text"]);
  if (typeof json?.text_output === "string") return firstText(json, ["text_output"]);
  if (typeof json?.type !== "string") return null;
  if (json.type === "content_block_delta") return firstText(json.delta, ["text", "thinking"]);
  return /^response\.(output|reasoning)_text\.delta$/.test(json.type) ? firstText(json, ["delta"]) : null;
}

function firstText(holder: EventJson, names: readonly string[]): TextPlace | null {
  const name = names.find((field) => typeof holder?.[field] === "string" && holder[field] !== "");
  if (name === undefined) return null;
  const put = (text: string | null) => {
    holder[name] = text;
  };
  return { name, text: holder[name], put };
}

/** Returns the event with other data. Its JSON is written without white space, like the JSON of real servers. */
export function withData(event: StreamEvent, data: string, name = event.name): StreamEvent {
  return { ...event, name, data, text: `${name === null ? "" : `event: ${name}\n`}data: ${data}\n\n` };
}

/** Returns a new event with this data, which a fault sends before the event `before`. */
export function added(before: StreamEvent, data: string, name: string | null = before.name): StreamEvent {
  return { ...withData(before, data, name), isOriginal: false, done: false };
}

export const sameDone = (event: StreamEvent): StreamEvent => ({ ...event, isOriginal: false });
