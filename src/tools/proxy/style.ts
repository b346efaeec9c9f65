/** Writes the proxy's own answers: errors, and answers of a plan in place of the server's. */
import { STATUS_TEXTS } from "../../base/status-texts.ts";
import { CHUNKED, type WireStyle } from "../../wire/http1/head.ts";
import type { HeaderLines } from "./fields.ts";
import { writtenHead } from "./heads.ts";

const JSON_TYPE = { "content-type": "application/json" };

/** Returns the body of an error of the proxy itself. */
export const failure = (status: number, message: string): string =>
  JSON.stringify({ error: { message, type: "ProxyError", param: null, code: status } });

const head: WireStyle["head"] = (status, headers, bytes, close) => {
  const lines: [string, string][] = Object.entries(headers);
  if (bytes === CHUNKED) lines.push(["transfer-encoding", "chunked"]);
  else if (bytes !== null) lines.push(["content-length", `${bytes}`]);
  if (close) lines.push(["connection", "close"]);
  return writtenHead(status, STATUS_TEXTS[status] ?? "", lines as HeaderLines);
};

function refusal(status: number, message: string): string {
  const body = failure(status, message);
  return head(status, JSON_TYPE, Buffer.byteLength(body), true, "") + body;
}

export const passedOn: WireStyle = {
  head,
  badRequest: () => refusal(400, "the request is not HTTP/1.1 as RFC 9112 has it"),
  tooLarge: refusal(431, "the request line and the header lines are too large"),
  asSent: true,
};
