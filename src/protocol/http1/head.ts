/** What does the head of an answer look like? uvicorn's lines in uvicorn's order (`httptools_impl.py`, `send`): date and server first. */
import { STATUS_CODES } from "node:http";

/** As `http.HTTPStatus` of Python 3.11, where Node's table says otherwise. */
const PYTHON: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  414: "Request-URI Too Long",
  416: "Requested Range Not Satisfiable",
  418: "I'm a Teapot",
  422: "Unprocessable Entity",
};
const statusLines = new Map<number, string>();

export const CHUNKED = -1;

/**
 * `headers` in their order, without `date`; a length stands before the type, as Starlette puts it. `bytes`: of the body, or
 * CHUNKED; null: neither is said. `close`: the connection ends after it.
 */
export function headText(
  status: number,
  headers: Readonly<Record<string, string>>,
  bytes: number | null,
  close: boolean,
  date: string,
): string {
  let text = `${statusLine(status)}date: ${date}\r\nserver: uvicorn\r\n`;
  let length = bytes === null || bytes === CHUNKED ? "" : `content-length: ${bytes}\r\n`;
  if (!("content-type" in headers)) {
    text += length;
    length = "";
  }
  for (const name in headers) {
    if (name === "server" || name === "connection") continue;
    if (name === "content-type") text += length;
    text += `${name}: ${headers[name]}\r\n`;
  }
  if (close) text += "connection: close\r\n";
  return bytes === CHUNKED ? `${text}transfer-encoding: chunked\r\n\r\n` : `${text}\r\n`;
}

function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${PYTHON[status] ?? STATUS_CODES[status] ?? ""}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

/** `date`'s value, made once a second. */
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
