/** A server with endless answers, in every part of an answer, and the memory use of the program that reads them. */
import { readFileSync } from "node:fs";
import type { Socket } from "bun";
import { main } from "../../program.ts";

/** The beginning of an answer, and the piece that is repeated. */
export type Endless = readonly [begin: string, piece: Buffer];

/** Maximum number of bytes per connection, far above all limits and memory bounds of the tests. */
const SENT_MOST = 800 << 20;
const PIECE = 1 << 20;
const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n`;
const filled = (text: string): Buffer => Buffer.alloc(PIECE - (PIECE % text.length), text);

export const ENDLESS: Readonly<Record<string, Endless>> = {
  "a head": [`${OK}X: `, filled("a")],
  "a list of headers": [OK, filled("X-a: b\r\n")],
  "a status line": ["HTTP/1.1 200 ", filled("a")],
  "interim answers": ["", filled("HTTP/1.1 102 Processing\r\n\r\n")],
  "a chunk's size": [CHUNKED, filled("0")],
  "line ends before a chunk's size": [`${CHUNKED}1\r\na`, filled("\r")],
  "a chunk's extension": [`${CHUNKED}5;`, filled("a")],
  "a trailer": [`${CHUNKED}0\r\n`, filled("X-a: b\r\n")],
  "an event": [`${OK}\r\ndata: {"a":"`, filled("a")],
  "an event of empty data lines": [`${OK}\r\n`, filled("data:\n")],
  "a comment": [`${OK}\r\n: `, filled("a")],
  "an error's text": ["HTTP/1.1 500 No\r\n\r\n", filled("a")],
  "a body that is no event": [`${OK}\r\n`, filled("a")],
  "events without JSON": [`${OK}\r\n`, filled("data: a\n\n")],
  "deltas of a response": [`${OK}\r\n`, filled('data: {"type":"response.output_text.delta","delta":"a"}\n\n')],
  "deltas of a message": [`${OK}\r\n`, filled('data: {"type":"content_block_delta","delta":{"text":"a"}}\n\n')],
  "an embedding": [`${OK}\r\n{"data":[{"embedding":[`, filled("0.125,")],
  "events that say a token each": [`${OK}\r\n`, filled('data: {"choices":[{"delta":{"content":"a"}}]}\n\n')],
};

const json = (value: unknown) => {
  const text = JSON.stringify(value);
  return `${OK}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};

export interface EndlessServer {
  readonly url: string;
  /** Largest number of megabytes that a connection accepted. */
  readonly sentMb: () => number;
  stop(): void;
}

interface SocketState {
  piece: Buffer | null;
  at: number;
  left: number;
}

/** `endless`: endless answers by path. All other paths answer like a server of the model m without `/tokenize` and metrics. */
export function endlessServer(endless: Readonly<Record<string, Endless>>): EndlessServer {
  let least = SENT_MOST;
  const send = (socket: Socket<SocketState>) => {
    const { data } = socket;
    while (data.piece !== null && data.left > 0) {
      const written = socket.write(data.piece.subarray(data.at));
      if (written < 0) return;
      data.left -= written;
      least = Math.min(least, data.left);
      data.at = (data.at + written) % data.piece.length;
      if (data.at !== 0) return;
    }
    if (data.piece !== null) socket.end();
  };
  const server = Bun.listen<SocketState>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { piece: null, at: 0, left: SENT_MOST };
      },
      data: (socket, bytes) => {
        const [, path = ""] = bytes.toString("latin1").split(" ", 2);
        const answer = endless[path];
        if (socket.data.piece !== null) return;
        if (answer !== undefined) {
          socket.write(answer[0]);
          socket.data.piece = answer[1];
          send(socket);
        } else if (path === "/v1/models") socket.write(json({ data: [{ id: "m" }] }));
        else socket.write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
      },
      drain: send,
    },
  });
  const sentMb = () => (SENT_MOST - least) / 2 ** 20;
  return { url: `http://127.0.0.1:${server.port}`, sentMb, stop: () => server.stop(true) };
}

/** The outcome of a command whose memory was watched. */
export interface WatchedRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** Returns the largest resident set in MB. */
  readonly peakMb: number;
}

/** Runs a command of the program, and kills it above 1 GB, like a container with that limit. */
export async function watched(...argv: string[]): Promise<WatchedRun> {
  const child = Bun.spawn([process.execPath, main, ...argv], { stdout: "pipe", stderr: "pipe" });
  let peakMb = 0;
  const look = setInterval(() => {
    try {
      const [, kb = "0"] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8")) ?? [];
      peakMb = Math.max(peakMb, Number(kb) / 1024);
    } catch {
      // The program has ended.
    }
    if (peakMb > 1000) child.kill("SIGKILL");
  }, 20);
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  clearInterval(look);
  return { code, out, err, peakMb };
}
