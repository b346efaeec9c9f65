/** What is noted of each HTTP request: its visit, which is counted, and its line in the access log. */

import { STATUS_CODES } from "node:http";

/** One line of the access log; `path` with its query, `client` as `127.0.0.1:54321`, "" if unknown. */
export interface Access {
  readonly client: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** Version of HTTP: "1.1". */
  readonly version: string;
}

/** The line as uvicorn writes it. */
export function accessLine({ client, method, path, status, version }: Access): string {
  return `INFO:     ${client} - "${method} ${path} HTTP/${version}" ${status} ${PHRASES[status] ?? STATUS_CODES[status] ?? ""}`;
}

/** Phrases of Python's `http.HTTPStatus` that are not Node's. */
const PHRASES: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  416: "Requested Range Not Satisfiable",
};
