/** Runs a small server that sends given bytes, to test how clients read them. */
import type { Socket } from "bun";

/** A request that the server received. */
export interface RawRequest {
  readonly path: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** Number of earlier requests to the same path. */
  readonly index: number;
}

export interface Wire {
  send(text: string | Uint8Array): void;
  /** Closes the connection normally, or cuts it. */
  end(): void;
  cut(): void;
}

interface Client {
  text: string;
  /** True if the connection has carried a generation. */
  counts: boolean;
}

export interface RawServer {
  readonly url: string;
  readonly asked: readonly RawRequest[];
  /** Largest number of simultaneous connections with generations. */
  readonly connections: () => number;
  stop(): void;
}

const json = (value: unknown): string => {
  const text = JSON.stringify(value);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};

/** Calls `answer` for each POST of a generation. `/v1/models` lists the model m, and all other paths are 404. */
export function rawServer(answer: (asked: RawRequest, wire: Wire) => void): RawServer {
  const asked: RawRequest[] = [];
  let open = 0;
  let most = 0;
  const take = (socket: Socket<Client>) => {
    for (;;) {
      const end = socket.data.text.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [first = "", ...lines] = socket.data.text.slice(0, end).split("\r\n");
      const headers = new Map(
        lines.map((line) => {
          const colon = line.indexOf(":");
          return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
        }),
      );
      const length = Number(headers.get("content-length") ?? 0);
      if (socket.data.text.length < end + 4 + length) return;
      const body = socket.data.text.slice(end + 4, end + 4 + length);
      socket.data.text = socket.data.text.slice(end + 4 + length);
      const [method, path = ""] = first.split(" ");
      if (path === "/v1/models") socket.write(json({ data: [{ id: "m" }] }));
      else if (method !== "POST" || path === "/tokenize")
        socket.write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
      else {
        const request = { path, headers, body, index: asked.length };
        asked.push(request);
        if (!socket.data.counts) most = Math.max(most, ++open);
        socket.data.counts = true;
        answer(request, {
          send: (text) => void socket.write(text),
          end: () => void socket.end(),
          cut: () => socket.terminate(),
        });
      }
    }
  };
  const server = Bun.listen<Client>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: "", counts: false };
        socket.setNoDelay(true);
      },
      data(socket, bytes) {
        // Requests of tests are ASCII.
        socket.data.text += bytes.toString("latin1");
        take(socket);
      },
      close({ data }) {
        if (data.counts) open--;
      },
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, asked, connections: () => most, stop: () => server.stop(true) };
}
