/** Formats the requests that a server received as a few lines for people, with their way through the engine. */
import type { ClientGeneration, ClientRequest } from "../kernel/client-request.ts";

/** Most requests that are shown, the latest ones. Earlier ones are only counted. */
const SHOWN_MOST = 20;
const BODY_CHARACTERS = 160;

/** Returns the lines. Times are milliseconds after the first shown request. */
export function timelineOf(requests: readonly ClientRequest[]): string {
  const shown = requests.slice(-SHOWN_MOST);
  const [first] = shown;
  if (first === undefined) return "the server saw no request";
  const after = (ms: number | null) => (ms === null ? "-" : (ms - first.arrivalMs).toFixed(1));
  const earlier = requests.length - shown.length;
  const lines = shown.flatMap((request, at) => [
    `${at + 1}. ${lineOf(request, after)}`,
    ...(request.bodyBytes > 0 ? [`   ${bodyOf(request)}`] : []),
    ...request.generations.map((way) => `   ${wayOf(way, after)}`),
  ]);
  const behind = earlier > 0 ? `, after ${earlier} earlier ones` : "";
  return [`the server saw ${shown.length} requests${behind}; ms after the first:`, ...lines].join("\n");
}

type After = (ms: number | null) => string;

function lineOf({ method, path, status, outcome, arrivalMs, endMs, tokens, finish }: ClientRequest, after: After) {
  const ends = finish.map((reason) => reason ?? "no end").join(", ");
  const said = finish.length > 0 ? `, ${tokens} tokens (${ends})` : "";
  return `${after(arrivalMs)} to ${after(endMs)}: ${method} ${path}: ${status ?? "no status"}, ${outcome}${said}`;
}

function bodyOf({ body, bodyBytes }: ClientRequest): string {
  if (body === null) return `${bodyBytes} bytes, not kept`;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return text.length > BODY_CHARACTERS ? `${text.slice(0, BODY_CHARACTERS)}… (${bodyBytes} bytes)` : text;
}

function wayOf(
  { id, promptTokens, cachedTokens, queuedMs, scheduledMs, firstTokenMs, preemptions }: ClientGeneration,
  after: After,
) {
  const times = `queued ${after(queuedMs)}, scheduled ${after(scheduledMs)}, first token ${after(firstTokenMs)}`;
  const lost = preemptions > 0 ? `, preempted ${preemptions} times` : "";
  return `${id}: ${times}; ${promptTokens} prompt tokens, ${cachedTokens} cached${lost}`;
}
