/**
 * Converts a streamed answer to a single JSON body, and a single JSON body to a stream. The fault H5,swap does so to imitate a
 * server that sends the wrong form.
 */
import { type EventJson, jsonOf, type StreamEvent } from "../plan/event.ts";
import type { AnswerHead } from "../plan/types.ts";
import { framingOf, withField } from "./heads.ts";

export function swappedHead(head: AnswerHead): AnswerHead {
  if (framingOf(head) === "chunked") {
    const typed = withField(head, "content-type", "application/json");
    return withField(withField(typed, "transfer-encoding", null), "content-length", "0");
  }
  const typed = withField(head, "content-type", "text/event-stream; charset=utf-8");
  return withField(withField(typed, "content-length", null), "transfer-encoding", "chunked");
}

export const wholeAsStream = (body: Uint8Array): Uint8Array =>
  Buffer.concat([Buffer.from("data: "), body, Buffer.from("\n\ndata: [DONE]\n\n")]);

export function wholeOf(events: readonly StreamEvent[]): Uint8Array {
  const all = events.map(jsonOf).filter((json) => json !== null);
  return Buffer.from(JSON.stringify(wholeJson(all)));
}

function wholeJson(all: readonly EventJson[]): EventJson {
  const [first = {}] = all;
  const last = all.findLast(({ response }) => response)?.response;
  if (last !== undefined) return last;
  if (first.type === "message_start") return messageOf(first, all);
  if (typeof first.text_output === "string")
    return { ...first, text_output: all.map(({ text_output: text = "" }) => text).join("") };
  const { id, created, model, object } = first;
  const usage = all.findLast((json) => json.usage)?.usage ?? null;
  const indexes = [...new Set(all.flatMap(({ choices = [] }) => choices.map(({ index }: EventJson) => index)))];
  const choices = indexes.map((index) => choiceIn(all, index as number, object === "text_completion"));
  return { id, object: object === "text_completion" ? object : "chat.completion", created, model, choices, usage };
}

function choiceIn(all: readonly EventJson[], index: number, isText: boolean): EventJson {
  const choices = all.flatMap(({ choices: some = [] }) => some.filter((choice: EventJson) => choice.index === index));
  const reason = choices.findLast((choice) => choice.finish_reason)?.finish_reason ?? null;
  const joined = (name: string) => choices.map((choice) => (isText ? choice : choice.delta)?.[name] ?? "").join("");
  if (isText) return { index, text: joined("text"), finish_reason: reason };
  return { index, message: { role: "assistant", content: joined("content") }, finish_reason: reason };
}

function messageOf({ message }: EventJson, all: readonly EventJson[]): EventJson {
  const text = all.map(({ delta }) => delta?.text ?? "").join("");
  const end = all.find(({ type }) => type === "message_delta");
  return { ...message, content: [{ type: "text", text }], ...end?.delta, usage: { ...message?.usage, ...end?.usage } };
}
