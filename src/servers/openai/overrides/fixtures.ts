/** Describes a request in the form that fixtures match (docs/how-to/fixtures.md), and turns their errors into answers. */

import type { HttpError } from "../../../text/canned/fixtures/fixture.ts";
import type { Question } from "../../../text/canned/fixtures/match.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { parsePython } from "../../pydantic/json.ts";
import { asText, type Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { type PythonValue, toPlain } from "../../pydantic/value.ts";
import type { ChatRequest, CompletionRequest, GenerationRequest } from "../request/request.ts";

/** Returns the request for matching. `body`: its bytes, which are parsed again only if a condition needs them. */
export function questionOf(
  http: HttpRequest,
  request: GenerationRequest,
  body: Body,
  vocabulary: Vocabulary,
): Question {
  let parsed: { readonly value: unknown } | null = null;
  return {
    path: new URL(http.url).pathname,
    model: request.model,
    user: () => (request.kind === "chat" ? lastContent(request) : firstPrompt(request, vocabulary)),
    messages: () => (request.kind === "chat" ? request.messages : []),
    header: (name) => http.headers.get(name),
    headers: () => {
      const all: Record<string, string> = {};
      http.headers.forEach((value, name) => {
        all[name] = value;
      });
      return all;
    },
    body: () => {
      parsed ??= { value: read(body) };
      return parsed.value;
    },
  };
}

/** Returns the last message of the user, or the last message of all if there is none. */
export function lastContent({ messages }: ChatRequest): string {
  const last = messages.findLast(({ role }) => role === "user") ?? messages.at(-1);
  return last?.content ?? "";
}

function firstPrompt({ prompts }: CompletionRequest, vocabulary: Vocabulary): string | null {
  const prompt = prompts[0];
  if (prompt === undefined || typeof prompt === "string") return prompt ?? null;
  const known = Array.from(prompt).filter((id) => id < vocabulary.size);
  return Buffer.concat(known.map((id) => vocabulary.bytesOf(id).slice())).toString();
}

/** Parses a body as JSON in which Python's NaN and Infinity are permitted. */
function read(body: Body): unknown {
  const text = asText(body).python ?? "null";
  try {
    return JSON.parse(text);
  } catch {
    return toPlain(parsePython(text) as PythonValue);
  }
}

/** Returns the error of a fixture: its body unchanged, or an error object that each API writes in its own form. */
export function httpError({ status, body, message, type, param, headers }: HttpError): ErrorAnswer {
  if (body !== null) return { status, body, headers, asItIs: true };
  return { status, body: JSON.stringify({ error: { message, type, param, code: status } }), headers };
}
