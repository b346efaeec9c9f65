/** Sends one recorded HTTP request on its own socket, byte for byte, and returns the answer in the form of the recordings. */
import { connect, type Socket } from "node:net";
import { gunzipSync, inflateSync } from "node:zlib";
import type { Dict, HttpCall } from "./recordings.ts";

const TIMEOUT_MS = 60_000;

/** Reads lines and bytes from a socket. Throws if the connection ends before they arrive. */
class Reader {
  readonly #socket: Socket;
  #bytes: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (part: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, part]);
      this.#wake();
    });
    const end = () => {
      this.#ended = true;
      this.#wake();
    };
    socket.on("end", end).on("close", end).on("error", end).setTimeout(TIMEOUT_MS, end);
  }

  async line(): Promise<string> {
    for (;;) {
      const at = this.#bytes.indexOf("\r\n");
      if (at >= 0)
        return this.#take(at + 2)
          .subarray(0, at)
          .toString("latin1");
      await this.#more();
    }
  }

  async exactly(bytes: number): Promise<Buffer> {
    while (this.#bytes.length < bytes) await this.#more();
    return this.#take(bytes);
  }

  #take(bytes: number): Buffer {
    const taken = this.#bytes.subarray(0, bytes);
    this.#bytes = this.#bytes.subarray(bytes);
    return taken;
  }

  async #more(): Promise<void> {
    if (this.#ended) throw new ClosedByServer();
    await new Promise<void>((wake) => (this.#wake = wake));
  }

  close(): void {
    this.#socket.destroy();
  }
}
class ClosedByServer extends Error {}
export class ConnectionRefused extends Error {}

async function opened(port: number): Promise<Socket> {
  return new Promise((done, failed) => {
    const socket = connect(port, "127.0.0.1", () => done(socket));
    socket.once("error", () => failed(new ConnectionRefused("connection refused")));
  });
}

function requestBytes({ method, path, headers: given = {}, text = "", b64 }: HttpCall): Buffer {
  const body = b64 === undefined ? Buffer.from(text) : Buffer.from(b64, "base64");
  const headers: Record<string, string> = { Host: "localhost", ...given };
  if (!("Content-Length" in headers) && (body.length > 0 || method === "POST"))
    headers["Content-Length"] = `${body.length}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), body]);
}

/** Makes the request. The result has the form of the recordings. */
export async function httpCall(port: number, call: HttpCall, closeAfterMs?: number): Promise<Dict> {
  const socket = await opened(port);
  const reader = new Reader(socket);
  socket.write(requestBytes(call));
  if (closeAfterMs !== undefined) {
    await Bun.sleep(closeAfterMs);
    reader.close();
    return { closed_by_client_after_ms: closeAfterMs };
  }
  try {
    return await readAnswer(reader);
  } catch (error) {
    if (error instanceof ClosedByServer) return { closed_by_server: true };
    throw error;
  } finally {
    reader.close();
  }
}

async function readAnswer(reader: Reader): Promise<Dict> {
  const [, status = "", reason = ""] = /^\S+ (\d+) ?(.*)$/.exec(await reader.line()) ?? [];
  const pairs: [string, string][] = [];
  for (let line = await reader.line(); line !== ""; line = await reader.line()) {
    const colon = line.indexOf(":");
    pairs.push([line.slice(0, colon).trim(), line.slice(colon + 1).trim()]);
  }
  const lower = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  let data: Buffer = Buffer.alloc(0);
  let chunks: number | null = null;
  if (lower["transfer-encoding"] === "chunked") {
    chunks = 0;
    for (
      let size = Number.parseInt(await reader.line(), 16);
      size > 0;
      size = Number.parseInt(await reader.line(), 16)
    ) {
      data = Buffer.concat([data, await reader.exactly(size)]);
      chunks++;
      await reader.line();
    }
    await reader.line();
  } else if (lower["content-length"] !== undefined) data = await reader.exactly(Number(lower["content-length"]));
  const headers = Object.fromEntries(
    pairs.filter(([name]) => name.toLowerCase() !== "date").sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  const encoding = lower["content-encoding"];
  if (encoding === "gzip" || encoding === "deflate") {
    data = (encoding === "gzip" ? gunzipSync : inflateSync)(data);
    delete headers["Content-Length"];
  }
  const head = lower["inference-header-content-length"];
  const shown =
    head === undefined
      ? textOrBytes(data)
      : { body: data.subarray(0, Number(head)).toString(), binary_b64: data.subarray(Number(head)).toString("base64") };
  return { status: Number(status), reason, headers, ...shown, ...(chunks === null ? {} : { chunks }) };
}

function textOrBytes(data: Buffer): Dict {
  const text = data.toString();
  return Buffer.from(text).equals(data) ? { body: text } : { body_b64: data.toString("base64") };
}
