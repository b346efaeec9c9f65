/**
 * Writes heads as libevhtp does, the HTTP library of Triton: the handler's lines, then length and type. There is no date and no
 * server line.
 */
import { STATUS_TEXTS } from "../../base/status-texts.ts";
import { CHUNKED, type WireStyle } from "./head.ts";

/** Reason phrases in which libevhtp differs from the usual ones. */
const OWN_WORDS: Readonly<Record<number, string>> = { 405: "Not Allowed" };

function head(status: number, headers: Readonly<Record<string, string>>, bytes: number | null, close: boolean): string {
  let text = `HTTP/1.1 ${status} ${OWN_WORDS[status] ?? STATUS_TEXTS[status]}\r\n`;
  for (const name in headers) text += `${name}: ${headers[name]}\r\n`;
  if (bytes === CHUNKED) text += "Transfer-Encoding: chunked\r\n";
  else if (bytes !== null) text += `Content-Length: ${bytes}\r\n`;
  if (!("Content-Type" in headers)) text += "Content-Type: text/plain\r\n";
  return `${text}${close ? "Connection: close\r\n" : ""}\r\n`;
}

/** The connection is closed without an answer if its bytes are not HTTP. */
export const evhtp: WireStyle = { head, badRequest: null, tooLarge: null };
