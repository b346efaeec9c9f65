/** How does a page become lines? A pure function of the page: the same rows are the same bytes, whoever writes them. */
import { Kind, type Page } from "./page.ts";
import { REASONS } from "./schema.ts";

const decoder = new TextDecoder();

/** Calls `line` for each row of the page with its text, plain ASCII without the line's end, and the runs in it. */
export function formatPage({ words, used }: Page, line: (text: string, kind: Kind, runs: number) => void): void {
  for (let at = 0; at < used; at += words[at + 1]!) {
    if (words[at] === Kind.Step) line(stepText(words, at + 2), Kind.Step, 0);
    else line(requestText(words, at + 2), Kind.Request, words[at + 19]! / 3);
  }
}

function stepText(w: Float64Array, at: number): string {
  return (
    `{"type":"step","engine":${w[at]},"step":${w[at + 1]},"plannedUs":${w[at + 2]},"dueUs":${known(w[at + 3]!)}` +
    `,"writeStartUs":${known(w[at + 4]!)},"writeEndUs":${known(w[at + 5]!)},"tokens":${w[at + 6]},"preemptions":${w[at + 7]}}`
  );
}

function requestText(w: Float64Array, at: number): string {
  const idBytes = w[at + 15]!;
  const idAt = at + 19;
  const preemptedAt = idAt + Math.ceil(idBytes / 8);
  const runsAt = preemptedAt + w[at + 16]!;
  const id = decoder.decode(new Uint8Array(w.buffer, w.byteOffset + idAt * 8, idBytes));
  const reason = w[at + 7]!;
  return (
    `{"type":"request","engine":${w[at]},"order":${w[at + 1]},"id":${quoted(id)},"arrivalUs":${w[at + 2]}` +
    `,"queuedUs":${known(w[at + 3]!)},"scheduledUs":${known(w[at + 4]!)},"prefillEndUs":${known(w[at + 5]!)}` +
    `,"endUs":${known(w[at + 6]!)},"reason":${reason < 0 ? "null" : `"${REASONS[reason]}"`}` +
    `,"promptTokens":${w[at + 8]},"cachedTokens":${w[at + 9]},"computedTokens":${w[at + 18]}` +
    `,"recomputedTokens":${w[at + 10]},"outputTokens":${w[at + 11]},"bytes":${w[at + 12]}` +
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

/** JSON in ASCII, so that a line has as many bytes as characters. */
function quoted(id: string): string {
  return JSON.stringify(id).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
