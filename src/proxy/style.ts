/** How does a proxy write heads? With the fields of the server behind it, and nothing of its own but what frames the body. */
import { STATUS_CODES } from "node:http";
import { CHUNKED, uvicorn, type WireStyle } from "../http/socket/head.ts";

export const passedOn: WireStyle = {
  head(status, headers, bytes, close) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    if (bytes === CHUNKED) lines.push("transfer-encoding: chunked\r\n");
    else if (bytes !== null) lines.push(`content-length: ${bytes}\r\n`);
    if (close) lines.push("connection: close\r\n");
    return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`;
  },
  badRequest: uvicorn.badRequest,
  tooLarge: uvicorn.tooLarge,
};
