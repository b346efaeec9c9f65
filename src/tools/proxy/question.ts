/** Builds the view of a forwarded request that rules match against, like that of fixtures. The body is not validated. */
import { parsedJson } from "../../base/json-object.ts";
import type { Question } from "../../text/canned/fixtures/match.ts";
import { lower } from "./fields.ts";
import { type ForwardedRequest, originForm } from "./upstream.ts";

type Json = Readonly<Record<string, unknown>>;

export function questionIn({ target, fields, body }: ForwardedRequest): Question {
  // The first of several lines with the same name counts, as on a server.
  const headers = Object.fromEntries(fields.toReversed().map(([name, value]) => [lower(name), value]));
  const json = jsonIn(body);
  const messages = messagesIn(json);
  return {
    path: originForm(target).split("?")[0]!,
    model: typeof json.model === "string" ? json.model : null,
    user: () => messages.findLast(({ role }) => role === "user")?.content ?? promptIn(json),
    messages: () => messages,
    header: (name) => headers[name] ?? null,
    headers: () => headers,
    body: () => json,
  };
}

export function jsonIn(body: Uint8Array): Json {
  const value = parsedJson(Buffer.from(body).toString());
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

function promptIn({ prompt, input }: Json): string | null {
  const first = Array.isArray(prompt) ? prompt[0] : (prompt ?? input);
  return typeof first === "string" ? first : null;
}

function messagesIn({ messages }: Json): { role: string; content: string | null }[] {
  if (!Array.isArray(messages)) return [];
  return messages.map((one: Json) => ({ role: String(one?.role), content: contentIn(one?.content) }));
}

function contentIn(content: unknown): string | null {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return null;
  return content.map((part: Json) => (typeof part?.text === "string" ? part.text : "")).join("");
}
