/** A client that disconnects on command, in different ways, and keeps the bytes received until then. */
import net from "node:net";

/** Ways to disconnect: FIN from a client that closes, FIN from a client that still reads, and RST. */
export const WAYS = ["fin", "half", "rst"] as const;
export type Way = (typeof WAYS)[number];

export class RawSocket {
  /** Everything received. */
  text = "";
  closed = false;
  readonly #socket: net.Socket;

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.on("data", (data) => {
      this.text += data.toString("latin1");
    });
    socket.on("close", () => {
      this.closed = true;
    });
    socket.on("error", () => {});
  }

  static connect(port: number, { paused = false } = {}): Promise<RawSocket> {
    const { promise, resolve, reject } = Promise.withResolvers<RawSocket>();
    const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      const client = new RawSocket(socket);
      if (paused) socket.pause();
      resolve(client);
    });
    return promise;
  }

  write(text: string): void {
    this.#socket.write(text);
  }

  leave(ending: Way): void {
    if (ending === "rst") this.#socket.resetAndDestroy();
    else if (ending === "fin") this.#socket.destroy();
    else this.#socket.end();
  }

  /** Continues to read after a pause. */
  resume(): void {
    this.#socket.resume();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** Returns a request with a JSON body as one text. */
export function posted(path: string, body: unknown, more: readonly string[] = []): string {
  const text = JSON.stringify(body);
  const lines = ["Host: x", "Content-Type: application/json", `Content-Length: ${Buffer.byteLength(text)}`, ...more];
  return `POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${text}`;
}
