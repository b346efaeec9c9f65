/** Converts pages to lines. Equal rows always result in equal bytes, in whichever thread this runs. */
import { CAUSE_NAMES } from "../engine/lateness/causes.ts";
import { type Page, REQUEST_WORDS, RowKind } from "./page.ts";
import { REASONS } from "./schema.ts";

const decoder = new TextDecoder();

/**
 * Id of a generation: the number of the choice if there are several, the kind, the request's id, and for completions
 * the number of the prompt.
 */
const GENERATION_ID = /^(?:\d+_)?(?:chatcmpl-(.*)|cmpl-(.*)-\d+)$/s;

/** Returns the client's request id from the id of a generation, or null if the id has another form. */
export function requestIdOf(id: string): string | null {
  const match = GENERATION_ID.exec(id);
  return match ? (match[1] ?? match[2]!) : null;
}

/** Calls `line` for each row of the page with its text, ASCII without a line end, and the number of its runs. */
export function formatPage({ words, used }: Page, line: (text: string, kind: RowKind, runs: number) => void): void {
  for (let at = 0; at < used; at += words[at + 1]!) {
    if (words[at] === RowKind.Step) line(stepText(words, at + 2), RowKind.Step, 0);
    else if (words[at] === RowKind.Fault) line(textAt(words, at + 2), RowKind.Fault, 0);
    else line(requestText(words, at + 2), RowKind.Request, words[at + 19]! / 3);
  }
}

/** Returns the id in a request's row. `at`: index of the row's first field. */
export function idOf(w: Float64Array, at: number): string {
  return decoder.decode(new Uint8Array(w.buffer, w.byteOffset + (at + REQUEST_WORDS - 2) * 8, w[at + 15]!));
}

function textAt(w: Float64Array, at: number): string {
  return decoder.decode(new Uint8Array(w.buffer, w.byteOffset + (at + 1) * 8, w[at]!));
}

function stepText(w: Float64Array, at: number): string {
  return (
    `{"type":"step","engine":${w[at]},"step":${w[at + 1]},"plannedUs":${w[at + 2]},"dueUs":${known(w[at + 3]!)}` +
    `,"writeStartUs":${known(w[at + 4]!)},"writeEndUs":${known(w[at + 5]!)},"tokens":${w[at + 6]},"preemptions":${w[at + 7]}` +
    `${w[at + 8]! > 0 ? `,"rebasedUs":${w[at + 8]}` : ""}${w[at + 9]! > 0 ? `,"cause":"${CAUSE_NAMES[w[at + 9]! - 1]}"` : ""}${written(w, at + 10, at - 2 + w[at - 1]!)}}`
  );
}

function written(w: Float64Array, from: number, to: number): string {
  return from === to ? "" : `,"writtenUs":[${w.subarray(from, to).join()}]`;
}

function requestText(w: Float64Array, at: number): string {
  const preemptedAt = at + REQUEST_WORDS - 2 + Math.ceil(w[at + 15]! / 8);
  const runsAt = preemptedAt + w[at + 16]!;
  const id = idOf(w, at);
  const requestId = requestIdOf(id);
  const reason = w[at + 7]!;
  return (
    `{"type":"request","engine":${w[at]},"order":${w[at + 1]},"id":${asciiJson(id)},"arrivalUs":${w[at + 2]}` +
    `,"queuedUs":${known(w[at + 3]!)},"scheduledUs":${known(w[at + 4]!)},"prefillEndUs":${known(w[at + 5]!)}` +
    `,"endUs":${known(w[at + 6]!)},"reason":${reason < 0 ? "null" : `"${REASONS[reason]}"`}` +
    `,"promptTokens":${w[at + 8]},"cachedTokens":${w[at + 9]},"computedTokens":${w[at + 18]}` +
    `,"recomputedTokens":${w[at + 10]},"outputTokens":${w[at + 11]},"bytes":${w[at + 12]}` +
    `,"requestId":${requestId === null ? "null" : asciiJson(requestId)},"firstWrittenUs":${known(w[at + 19]!)}` +
    `,"lastWrittenUs":${known(w[at + 20]!)},"late":{"steps":${w[at + 21]},"us":${w[at + 22]},"rebasedUs":${w[at + 23]}}` +
    `,"preemptions":${w[at + 13]},"preempted":[${preempted(w, preemptedAt, runsAt)}]` +
    `,"runs":[${runs(w, runsAt, runsAt + w[at + 17]!)}],"droppedRuns":${w[at + 14]}}`
  );
}

function preempted(w: Float64Array, from: number, to: number): string {
  let text = "";
  for (let at = from; at < to; at += 3) {
    text += `${at > from ? "," : ""}{"us":${w[at]},"resumedUs":${known(w[at + 1]!)},"cachedTokens":${known(w[at + 2]!)}}`;
  }
  return text;
}

function runs(w: Float64Array, from: number, to: number): string {
  let text = "";
  for (let at = from; at < to; at += 3) {
    const width = w[at + 2]!;
    text += `${at > from ? "," : ""}[${w[at]},${w[at + 1]}${width === 1 ? "" : `,${width}`}]`;
  }
  return text;
}

function known(value: number): string {
  return Number.isNaN(value) ? "null" : `${value}`;
}

/** Encodes JSON in ASCII, so that a line has as many bytes as characters. */
export function asciiJson(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
