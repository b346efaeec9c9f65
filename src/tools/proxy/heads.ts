/** Writes the status line and headers of forwarded answers, with a body framing that the client supports. */
import type { RawFraming } from "../../wire/http1/raw-stream.ts";
import { firstValue, type HeaderLines, linesOf, withOnly, without } from "./fields.ts";

/** The properties of an answer that decide its framing. */
export interface ForwardedAnswer {
  /** Method of the request. */
  readonly method: string;
  readonly status: number;
  readonly reason: string;
  /** End-to-end headers, and the server's Content-Length or Transfer-Encoding. */
  readonly fields: HeaderLines;
}

export function writtenHead(status: number, reason: string, fields: HeaderLines): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${linesOf(fields)}\r\n`;
}

/** Reports whether the answer has no body, whatever its headers say (RFC 9112, 6.3). */
const isBodiless = ({ method, status }: ForwardedAnswer): boolean =>
  method === "HEAD" || status === 204 || status === 304;

/** Chooses the framing, by which the client finds the end of the body. `version`: the client's HTTP version. Chunks need 1.1. */
export function framingFor(answer: ForwardedAnswer, version: string): RawFraming {
  if (isBodiless(answer) || firstValue(answer.fields, "content-length") !== null) return "length";
  return version === "1.1" ? "chunked" : "close";
}

/** Returns the head of an answer that is forwarded unchanged. `closes`: true if the connection is closed after it. */
export function passedHead({ status, reason, fields }: ForwardedAnswer, framing: RawFraming, closes: boolean): string {
  if (framing !== "chunked")
    return writtenHead(status, reason, ending(without(fields, "transfer-encoding", "trailer"), closes));
  const said = firstValue(fields, "transfer-encoding") !== null;
  return writtenHead(status, reason, ending(said ? fields : withOnly(fields, CHUNKS), closes));
}

/** Returns the head of an answer with faults. `bytes`: length of the whole body; null: events are sent in chunks. */
export function disturbedHead(
  { status, reason, fields }: ForwardedAnswer,
  bytes: number | null,
  closes: boolean,
): string {
  const unframed = without(fields, bytes === null ? "content-length" : "transfer-encoding", "trailer");
  return writtenHead(
    status,
    reason,
    ending(withOnly(unframed, bytes === null ? CHUNKS : ["content-length", `${bytes}`]), closes),
  );
}

const CHUNKS = ["transfer-encoding", "chunked"] as const;

const ending = (fields: HeaderLines, closes: boolean): HeaderLines =>
  closes ? [...fields, ["connection", "close"]] : fields;
