/** Reads answers from a raw socket byte by byte: status line, headers, chunks. */
import net from "node:net";
import type { Clean, Request, Response } from "./cases.ts";

export interface PlayedAnswer {
  readonly response: Response;
  /** The body as received. */
  readonly body: string;
  /** Names of the header lines as received. */
  readonly names: readonly string[];
}

const TIMEOUT_MS = 30_000;
/** Headers that depend on the time. */
const VOLATILE = new Set(["date"]);

export function requestBytes(request: Request, port: number, more: Readonly<Record<string, string>>): Buffer {
  const data =
    request.body_base64 !== undefined
      ? Buffer.from(request.body_base64, "base64")
      : request.body_text !== undefined
        ? Buffer.from(request.body_text)
        : request.sent !== undefined
          ? Buffer.from(request.sent)
          : null;
  const headers: Record<string, string | null> = { Host: `127.0.0.1:${port}` };
  if (data) headers["Content-Type"] = "application/json";
  Object.assign(headers, request.headers, more);
  if (data && headers["Transfer-Encoding"] === undefined) headers["Content-Length"] = String(data.length);
  const lines = Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}\r\n`]));
  return Buffer.concat([
    Buffer.from(`${request.method} ${request.path} HTTP/1.1\r\n${lines.join("")}\r\n`),
    data ?? Buffer.alloc(0),
  ]);
}

/** Sends one request on a separate connection. `seen` is called with the bytes received so far. */
export function exchange(
  request: Request,
  port: number,
  clean: Clean,
  more: Readonly<Record<string, string>> = {},
  seen: (text: string) => void = () => {},
): Promise<PlayedAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<PlayedAnswer>();
  const socket = net.connect(port, "127.0.0.1");
  let received: Buffer = Buffer.alloc(0);
  const route = `${request.method} ${request.path}`;
  const timer = setTimeout(() => {
    socket.destroy();
    reject(new Error(`no whole answer to ${route} within ${TIMEOUT_MS / 1000} s: ${received.toString().slice(-300)}`));
  }, TIMEOUT_MS);
  const look = (closed: boolean) => {
    const whole = read(received, request.method, closed, clean);
    if (whole === null) return;
    clearTimeout(timer);
    socket.destroy();
    resolve(whole);
  };
  socket.on("data", (part: Buffer) => {
    received = Buffer.concat([received, part]);
    seen(received.toString("latin1"));
    look(false);
  });
  socket.on("close", () => {
    look(true);
    clearTimeout(timer);
    reject(new Error(`closed without an answer to ${route}`));
  });
  socket.on("error", () => {}); // `close` follows
  socket.write(requestBytes(request, port, more));
  return promise;
}

function read(all: Buffer, method: string, closed: boolean, clean: Clean): PlayedAnswer | null {
  const end = all.indexOf("\r\n\r\n");
  if (end < 0) return null;
  const [statusLine = "", ...lines] = all.toString("latin1", 0, end).split("\r\n");
  const received = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const names = lines.map((line) => line.slice(0, line.indexOf(":")));
  const header = (name: string) => received.find(([known]) => known === name)?.[1];
  const payload = all.subarray(end + 4);
  const parts = method === "HEAD" ? { bytes: Buffer.alloc(0), chunks: null, whole: true } : bodyOf(payload, header);
  if (!parts.whole && !closed) return null;
  const body = parts.bytes.toString();
  const headers: Record<string, string> = {};
  for (const [name, value] of received.sort(([a], [b]) => (a < b ? -1 : 1)))
    if (!VOLATILE.has(name))
      headers[name] = name === "x-request-id" && /^[0-9a-f]{32}$/.test(value) ? "<hex32>" : clean(value);
  const streams = header("content-type")?.includes("text/event-stream") === true;
  const counted = (parts.chunks ?? []).map((chunk) => chunk.toString().split("\n\n").length - 1);
  const shown = clean(body);
  if (!streams && shown.includes("<float>") && headers["content-length"]) headers["content-length"] = "<int>";
  const response: Response = {
    status: Number(statusLine.split(" ")[1]),
    status_line: statusLine,
    headers,
    ...(streams
      ? { frames: body.split("\n\n").slice(0, -1).map(clean), frames_per_chunk: counted }
      : { body: shown, ...(parts.chunks ? { chunks: parts.chunks.length } : {}) }),
    ...(parts.whole ? {} : { connection_closed_early: true }),
  };
  return { response, body, names };
}

interface Body {
  readonly bytes: Buffer;
  readonly chunks: readonly Buffer[] | null;
  readonly whole: boolean;
}

function bodyOf(payload: Buffer, header: (name: string) => string | undefined): Body {
  if (header("transfer-encoding") !== "chunked") {
    const length = Number(header("content-length") ?? 0);
    return { bytes: payload.subarray(0, length), chunks: null, whole: payload.length >= length };
  }
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = payload.indexOf("\r\n", at);
    if (line < 0) return { bytes: Buffer.concat(chunks), chunks, whole: false };
    const size = Number.parseInt(payload.toString("latin1", at, line), 16);
    if (payload.length < line + 4 + size) return { bytes: Buffer.concat(chunks), chunks, whole: false };
    if (size === 0) return { bytes: Buffer.concat(chunks), chunks, whole: true };
    chunks.push(payload.subarray(line + 2, line + 2 + size));
    at = line + 4 + size;
  }
}
