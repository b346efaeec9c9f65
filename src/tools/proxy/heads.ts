/** Writes heads of forwarded answers: the server's status line and fields, with the framing that the client understands. */
import type { RawFraming } from "../../wire/http1/raw-stream.ts";
import { firstValue, type HeaderLines, linesOf, withOnly, without } from "./fields.ts";

/** The facts of an answer from which the client's framing follows. */
export interface ForwardedAnswer {
  /** Method of the request. */
  readonly method: string;
  readonly status: number;
  readonly reason: string;
  /** End-to-end fields, and the server's Content-Length or Transfer-Encoding. */
  readonly fields: HeaderLines;
}

export function writtenHead(status: number, reason: string, fields: HeaderLines): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${linesOf(fields)}\r\n`;
}

/** True if the answer has no body, whatever its fields say. RFC 9112, 6.3. */
const isBodiless = ({ method, status }: ForwardedAnswer): boolean =>
  method === "HEAD" || status === 204 || status === 304;

/** Chooses how the client finds the body's end. `version` of HTTP that the client speaks: before 1.1 there are no chunks. */
export function framingFor(answer: ForwardedAnswer, version: string): RawFraming {
  if (isBodiless(answer) || firstValue(answer.fields, "content-length") !== null) return "length";
  return version === "1.1" ? "chunked" : "close";
}

/** The head of an answer that is forwarded as it comes. `closes`: the connection ends after it. */
export function passedHead({ status, reason, fields }: ForwardedAnswer, framing: RawFraming, closes: boolean): string {
  if (framing !== "chunked")
    return writtenHead(status, reason, ending(without(fields, "transfer-encoding", "trailer"), closes));
  const said = firstValue(fields, "transfer-encoding") !== null;
  return writtenHead(status, reason, ending(said ? fields : withOnly(fields, CHUNKS), closes));
}

/** The head of an answer that a plan disturbs. `bytes` of the whole body; null: events follow in chunks. */
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
