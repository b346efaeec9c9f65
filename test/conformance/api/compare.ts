/** Is an answer the recorded one, and where does it first differ? And are its ids what ids are to be? */
import type { Response } from "./cases.ts";
import type { Played } from "./wire.ts";

/** What tells most comes first: a length that differs says little. */
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

/** The first difference in words; null: there is none. `freeOrder`: only the order of the frames of one choice counts. */
export function difference(wanted: Response, got: Response, freeOrder: boolean): string | null {
  for (const field of FIELDS) {
    let [a, b]: [unknown, unknown] = [wanted[field], got[field]];
    if (field === "frames" && freeOrder) [a, b] = [byChoice(wanted.frames), byChoice(got.frames)];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    return where(field, a, b);
  }
  return null;
}

function where(name: string, wanted: unknown, got: unknown): string {
  if (typeof wanted === "string" && typeof got === "string") {
    let at = 0;
    while (at < wanted.length && wanted[at] === got[at]) at++;
    const part = (text: string) => JSON.stringify(text.slice(Math.max(0, at - AROUND), at + AROUND));
    return `${name}, character ${at}:\n    recorded ${part(wanted)}\n    got      ${part(got)}`;
  }
  if (Array.isArray(wanted) && Array.isArray(got)) {
    for (let i = 0; i < Math.max(wanted.length, got.length); i++)
      if (JSON.stringify(wanted[i]) !== JSON.stringify(got[i])) return where(`${name}[${i}]`, wanted[i], got[i]);
  }
  if (isObject(wanted) && isObject(got)) {
    for (const key of new Set([...Object.keys(wanted), ...Object.keys(got)]))
      if (JSON.stringify(wanted[key]) !== JSON.stringify(got[key]))
        return where(`${name}.${key}`, wanted[key], got[key]);
  }
  return `${name}:\n    recorded ${JSON.stringify(wanted) ?? "absent"}\n    got      ${JSON.stringify(got) ?? "absent"}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function byChoice(frames: readonly string[] = []): readonly string[] {
  const index = (frame: string) => Number(/"choices":\[\{"index":(\d+)/.exec(frame)?.[1] ?? Number.MAX_SAFE_INTEGER);
  return frames.toSorted((a, b) => index(a) - index(b));
}

/** The recordings' order of header lines (their README); what else there is stands anywhere between. */
const ORDER = ["date", "server", "content-length", "content-type", "vary", "transfer-encoding"];
/** Starlette 1.10 gives a preflight's answer its own lines first; uvicorn 0.54 puts its refusals together by hand. */
const PREFLIGHT = ["date", "server", "vary", "content-length", "content-type"];
const REFUSAL = ["date", "server", "content-type", "content-length", "connection"];

/** What is wrong with the order or the spelling of header lines; null: nothing. */
export function headDifference({ names, response }: Played): string | null {
  const { headers, body } = response;
  const own = body === "Invalid HTTP request received." ? REFUSAL : null;
  const order = own ?? ("access-control-allow-methods" in headers ? PREFLIGHT : ORDER);
  const wanted = order.filter((name) => name === "date" || name in headers);
  const got = names.filter((name) => order.includes(name.toLowerCase()));
  return JSON.stringify(got) === JSON.stringify(wanted) ? null : where("header lines", wanted.join(), got.join());
}

const MADE_ID = /"id":"((?:chatcmpl|cmpl|resp|msg)[-_][0-9a-f]{16,32})"/g;
const ANY_ID = /^data: \{"id":"([^"]+)"/;

/** What placeholders hide: one id and one time in all frames of a stream, and no id that another request had. */
export class Ids {
  readonly #seen = new Set<string>();

  /** What is wrong with the ids of an answer; null: nothing. */
  wrong({ response, body }: Played): string | null {
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
