/** Compares an answer with the recorded one and finds the first difference. Also checks its ids and header lines. */
import type { Response } from "./cases.ts";
import type { PlayedAnswer } from "./wire.ts";

/** Compared fields, the most informative first. The length says little. */
const FIELDS = [
  "status",
  "frames",
  "body",
  "status_line",
  "headers",
  "frames_per_chunk",
  "chunks",
  "connection_closed_early",
] as const;
const AROUND = 80;

/** Describes the first difference, or returns null. `freeOrder`: compares only the order of the frames within each choice. */
export function difference(wanted: Response, received: Response, freeOrder: boolean): string | null {
  for (const field of FIELDS) {
    let [a, b]: [unknown, unknown] = [wanted[field], received[field]];
    if (field === "frames" && freeOrder) [a, b] = [byChoice(wanted.frames), byChoice(received.frames)];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    return where(field, a, b);
  }
  return null;
}

function where(name: string, wanted: unknown, received: unknown): string {
  if (typeof wanted === "string" && typeof received === "string") {
    let at = 0;
    while (at < wanted.length && wanted[at] === received[at]) at++;
    const part = (text: string) => JSON.stringify(text.slice(Math.max(0, at - AROUND), at + AROUND));
    return `${name}, character ${at}:\n    recorded ${part(wanted)}\n    got      ${part(received)}`;
  }
  if (Array.isArray(wanted) && Array.isArray(received)) {
    for (let i = 0; i < Math.max(wanted.length, received.length); i++)
      if (JSON.stringify(wanted[i]) !== JSON.stringify(received[i]))
        return where(`${name}[${i}]`, wanted[i], received[i]);
  }
  if (isObject(wanted) && isObject(received)) {
    for (const key of new Set([...Object.keys(wanted), ...Object.keys(received)]))
      if (JSON.stringify(wanted[key]) !== JSON.stringify(received[key]))
        return where(`${name}.${key}`, wanted[key], received[key]);
  }
  return `${name}:\n    recorded ${JSON.stringify(wanted) ?? "absent"}\n    got      ${JSON.stringify(received) ?? "absent"}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function byChoice(frames: readonly string[] = []): readonly string[] {
  const index = (frame: string) => Number(/"choices":\[\{"index":(\d+)/.exec(frame)?.[1] ?? Number.MAX_SAFE_INTEGER);
  return frames.toSorted((a, b) => index(a) - index(b));
}

/** Order of header lines in the recordings (see their README). Other lines may stand anywhere between. */
const ORDER = ["date", "server", "content-length", "content-type", "vary", "transfer-encoding"];
/** Starlette 1.10 puts the special lines of a preflight's answer first. uvicorn 0.54 builds its refusals separately. */
const PREFLIGHT = ["date", "server", "vary", "content-length", "content-type"];
const REFUSAL = ["date", "server", "content-type", "content-length", "connection"];

/** Describes an error in the order or spelling of header lines. Null if they are right. */
export function headDifference({ names, response }: PlayedAnswer): string | null {
  const { headers, body } = response;
  const refusal = body === "Invalid HTTP request received." ? REFUSAL : null;
  const order = refusal ?? ("access-control-allow-methods" in headers ? PREFLIGHT : ORDER);
  const wanted = order.filter((name) => name === "date" || name in headers);
  const received = names.filter((name) => order.includes(name.toLowerCase()));
  return JSON.stringify(received) === JSON.stringify(wanted)
    ? null
    : where("header lines", wanted.join(), received.join());
}

const MADE_ID = /"id":"((?:chatcmpl|cmpl|resp|msg)[-_][0-9a-f]{16,32})"/g;
const ANY_ID = /^data: \{"id":"([^"]+)"/;

/**
 * Checks values that placeholders hide: all frames of a stream have one id and one time, and no id appears in two requests.
 */
export class Ids {
  readonly #seen = new Set<string>();

  /** Describes an error in the ids of an answer. Null if they are right. */
  wrong({ response, body }: PlayedAnswer): string | null {
    if (response.frames) {
      const frames = body.split("\n\n");
      const [ids, times] = [ANY_ID, /"created":(\d+)/].map(
        (pattern) => new Set(frames.flatMap((frame) => pattern.exec(frame)?.[1] ?? [])),
      );
      if (ids!.size > 1) return `a stream has the ids ${[...ids!].join(", ")}`;
      if (times!.size > 1) return `a stream was created at ${[...times!].join(", ")}`;
    }
    const here = new Set(Array.from(body.matchAll(MADE_ID), ([, id]) => id!));
    for (const id of here) {
      if (this.#seen.has(id)) return `the id ${id} was another request's`;
      this.#seen.add(id);
    }
    return null;
  }
}
