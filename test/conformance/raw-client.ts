/** A raw HTTP/1.1 client that returns the bytes as received. */
import net from "node:net";

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  /** Headers to send. Null removes a default header. */
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly body?: unknown;
  readonly body_text?: string;
}

export interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** One entry per HTTP chunk. Null if the answer has a length. */
  readonly chunks: readonly string[] | null;
  /** True if the connection closed before the answer was complete. */
  readonly brokenOff: boolean;
}

function requestBytes(request: RawRequest, port: number): string {
  const body = request.body_text ?? (request.body === undefined ? null : JSON.stringify(request.body));
  const headers: Record<string, string | null> = { Host: `127.0.0.1:${port}` };
  if (body !== null) headers["Content-Type"] = "application/json";
  Object.assign(headers, request.headers);
  if (body !== null && headers["Transfer-Encoding"] === undefined)
    headers["Content-Length"] = String(Buffer.byteLength(body));
  const lines = Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}\r\n`]));
  return `${request.method} ${request.path} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`;
}

/** Sends one request on a separate connection and reads the whole answer. */
export function exchange(request: RawRequest, port: number): Promise<RawResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RawResponse>();
  const socket = net.connect(port, "127.0.0.1");
  let received: Buffer = Buffer.alloc(0);
  let last: RawResponse | null = null;
  const read = (closed: boolean) => {
    last = parse(received, request.method === "HEAD", closed) ?? last;
    if (last === null || (last.brokenOff && !closed)) return;
    socket.destroy();
    resolve(last);
  };
  socket.on("data", (part: Buffer) => {
    received = Buffer.concat([received, part]);
    read(false);
  });
  socket.on("close", () => {
    read(true);
    reject(new Error(`closed without an answer to ${request.method} ${request.path}`));
  });
  socket.on("error", () => read(true));
  socket.write(requestBytes(request, port));
  return promise;
}

/** Parses an answer. Null if it is not complete yet. */
function parse(bytes: Buffer, headOnly: boolean, closed: boolean): RawResponse | null {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return null;
  const [statusLine = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(":");
      return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()];
    }),
  );
  const head = { status: Number(statusLine.split(" ")[1]), headers };
  const rest = bytes.subarray(headEnd + 4);
  if (headOnly) return { ...head, body: "", chunks: null, brokenOff: false };
  if (headers["transfer-encoding"] !== "chunked") {
    const length = Number(headers["content-length"] ?? 0);
    if (rest.length < length && !closed) return null;
    return { ...head, body: rest.toString(), chunks: null, brokenOff: rest.length < length };
  }
  const chunks: string[] = [];
  for (let at = 0; ; ) {
    const lineEnd = rest.indexOf("\r\n", at);
    const size = lineEnd === -1 ? Number.NaN : Number.parseInt(rest.subarray(at, lineEnd).toString(), 16);
    const complete = lineEnd !== -1 && rest.length >= lineEnd + 2 + size + 2;
    if (!complete && !closed) return null;
    if (!complete || size === 0) return { ...head, body: chunks.join(""), chunks, brokenOff: !complete };
    chunks.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size).toString());
    at = lineEnd + 2 + size + 2;
  }
}
