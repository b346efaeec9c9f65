/**
 * Writes heads of answers like uvicorn: the same lines in the same order, date and server first (`httptools_impl.py`, `send`).
 */
import { STATUS_TEXTS } from "../../base/status-texts.ts";

/** Reason phrases of `http.HTTPStatus` in Python 3.11 that differ from Node's. */
const PYTHON: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  414: "Request-URI Too Long",
  416: "Requested Range Not Satisfiable",
  418: "I'm a Teapot",
  422: "Unprocessable Entity",
};
const statusLines = new Map<number, string>();

/** Passed in place of a body length: the body comes in chunks. */
export const CHUNKED = -1;

/** The wire format of a server: heads of answers, and answers to bytes that are not HTTP. */
export interface WireStyle {
  /** Writes a head; see `uvicornHead`. */
  readonly head: typeof uvicornHead;
  /** Answer to bytes that are not HTTP, or null to close without an answer. `date`: value of the date header. */
  readonly badRequest: ((date: string) => string) | null;
  /** Answer to a head above the limit, or null to close without an answer. */
  readonly tooLarge: string | null;
  /** True for a proxy, which needs requests unchanged: see `Parser`. */
  readonly asSent?: boolean;
}

/** Parts of the last head, before and after the length. Consecutive answers often differ only in length. */
let last = {
  status: 0,
  headers: {} as Readonly<Record<string, string>>,
  close: false,
  date: "",
  before: "",
  behind: "",
  /** The whole head of a chunked answer. */
  stream: "",
};

/**
 * Writes a head: `headers` in their order, except `server` and `connection`, which are written here. The length comes before the
 * type, as Starlette puts it. `bytes`: length of the body, CHUNKED, or null to state neither. `close`: true if the connection
 * ends after the answer.
 */
export function uvicornHead(
  status: number,
  headers: Readonly<Record<string, string>>,
  bytes: number | null,
  close: boolean,
  date: string,
): string {
  if (last.headers !== headers || last.status !== status || last.date !== date || last.close !== close)
    last = headParts(status, headers, close, date);
  if (bytes === CHUNKED) return last.stream;
  const length = bytes === null ? "" : `content-length: ${bytes}\r\n`;
  return `${last.before}${length}${last.behind}\r\n`;
}

function headParts(
  status: number,
  headers: Readonly<Record<string, string>>,
  close: boolean,
  date: string,
): typeof last {
  let before = `${statusLine(status)}date: ${date}\r\nserver: uvicorn\r\n`;
  let behind = "";
  for (const name in headers) {
    if (name === "server" || name === "connection") continue;
    const line = `${name}: ${headers[name]}\r\n`;
    if (behind !== "" || name === "content-type" || !("content-type" in headers)) behind += line;
    else before += line;
  }
  if (close) behind += "connection: close\r\n";
  const stream = `${before}${behind}transfer-encoding: chunked\r\n\r\n`;
  return { status, headers, close, date, before, behind, stream };
}

function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${PYTHON[status] ?? STATUS_TEXTS[status] ?? ""}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

const INVALID = "Invalid HTTP request received.";
const BAD_REQUEST = [
  "content-type: text/plain; charset=utf-8",
  `content-length: ${INVALID.length}`,
  `connection: close\r\n\r\n${INVALID}`,
].join("\r\n");

export const uvicorn: WireStyle = {
  head: uvicornHead,
  badRequest: (date) => `HTTP/1.1 400 Bad Request\r\ndate: ${date}\r\nserver: uvicorn\r\n${BAD_REQUEST}`,
  tooLarge: "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n",
};

/** Makes the value of the `date` header, once per second. */
export class DateLine {
  #second = -1;
  #text = "";

  at(epochSeconds: number): string {
    const second = Math.floor(epochSeconds);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = new Date(second * 1000).toUTCString();
    }
    return this.#text;
  }
}
