/** What is an event of an answer's stream, and what of it may a fault touch? */
import type { AnswerDialect } from "./types.ts";

// biome-ignore lint/suspicious/noExplicitAny: JSON of five dialects, looked into by their names.
export type EventJson = any;

export interface StreamEvent {
  /** Among the answer's events, from 0; what was added has that of the event before which it stands. */
  readonly index: number;
  /** The answer's, not one that a fault added. */
  readonly own: boolean;
  readonly name: string | null;
  /** null: a comment. */
  readonly data: string | null;
  /** As it leaves, with its empty line. */
  readonly text: string;
  /** The stream's last. */
  readonly done: boolean;
}

const LAST_TYPES = ["message_stop", "response.completed", "response.incomplete", "response.failed"];

/** `text`: one or several events with their empty lines; comments keep their place and are no events. */
export function eventsIn(text: string, from: number): StreamEvent[] {
  // As nearly all are: one event of one line.
  if (text.startsWith("data: ") && text.endsWith("\n\n") && text.indexOf("\n") === text.length - 2) {
    const data = text.slice(6, -2);
    return [{ index: from, own: true, name: null, data, text, done: isLast(null, data) }];
  }
  let index = from;
  return text
    .split(/(?<=\n\n)/)
    .filter((one) => one !== "")
    .map((one) => {
      const name = /^event: ?(.*)$/m.exec(one)?.[1] ?? null;
      const lines = one.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.length === 0 ? null : lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
      const own = data !== null;
      return { index: own ? index++ : index, own, name, data, text: one, done: isLast(name, data) };
    });
}

function isLast(name: string | null, data: string | null): boolean {
  return data === "[DONE]" || (name !== null && LAST_TYPES.includes(name));
}

export function jsonOf({ data }: Pick<StreamEvent, "data">): EventJson | null {
  if (data === null || !data.startsWith("{")) return null;
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
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

/** The text of a delta. */
export interface TextPlace {
  /** Name of its field. */
  readonly name: string;
  readonly text: string;
  put(text: string | null): void;
}

/** Returns the first field of a delta that has text; null if none has. */
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
  const name = names.find((one) => typeof holder?.[one] === "string" && holder[one] !== "");
  return name === undefined
    ? null
    : {
        name,
        text: holder[name],
        put: (text) => {
          holder[name] = text;
        },
      };
}

/** The event with other data; JSON as servers write it, without white space. */
export function withData(event: StreamEvent, data: string, name = event.name): StreamEvent {
  return { ...event, name, data, text: `${name === null ? "" : `event: ${name}\n`}data: ${data}\n\n` };
}

/** One more, before the event. */
export function added(before: StreamEvent, data: string, name: string | null = before.name): StreamEvent {
  return { ...withData(before, data, name), own: false, done: false };
}

export const sameDone = (event: StreamEvent): StreamEvent => ({ ...event, own: false });
