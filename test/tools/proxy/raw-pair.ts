/** Runs a proxy between a raw client and a raw server, so that tests can compare the bytes on both sides. */
import net from "node:net";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { ProxyServer } from "../../../src/tools/proxy/server.ts";
import { type ReceivedAnswer, readWire } from "../../faults/wire.ts";

type Options = Partial<Omit<ConstructorParameters<typeof ProxyServer>[0], "to" | "port">>;

export interface RawPair {
  readonly port: number;
  /** Bytes of each request that the server received, as Latin-1. */
  readonly seen: string[];
  /** Lines that the proxy reported. */
  readonly reports: string[];
  /** Address of the server, as in `Host`. */
  readonly host: string;
  /** Sends bytes (Latin-1) and reads until the connection ends, or until `enough` bytes have arrived. */
  ask(request: string, enough?: number): Promise<ReceivedAnswer & { readonly text: string }>;
}

/** Replaces LF by CRLF, so that tests can write HTTP in readable lines. */
export const wire = (text: string): string => text.replaceAll("\n", "\r\n");

const RESET_MS = 50;

/** Ends of an answer after which the server closes or resets the connection. The ends are not sent. */
export const CLOSES = "\0close";
export const RESETS = "\0reset";

/** Runs `use` with a proxy. `answers`: the server's answers, one per request, as Latin-1. */
export async function rawPair(
  answers: readonly string[],
  use: (pair: RawPair) => Promise<void>,
  options: Options = {},
): Promise<void> {
  const seen: string[] = [];
  const reports: string[] = [];
  const sockets = new Set<net.Socket>();
  let next = 0;
  const server = net.createServer((socket) => {
    sockets.add(socket);
    let received = "";
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received += data.toString("latin1");
      const length = lengthOf(received);
      if (length === null || received.length < length) return;
      seen.push(received.slice(0, length));
      received = received.slice(length);
      const answer = answers[next++] ?? "";
      const end = [CLOSES, RESETS].find((mark) => answer.endsWith(mark)) ?? "";
      socket.write(Buffer.from(answer.slice(0, answer.length - end.length), "latin1"), () => {
        if (end === CLOSES) socket.end();
        // Wait, because a reset drops the bytes that the proxy has not read.
        else if (end === RESETS) setTimeout(() => socket.resetAndDestroy(), RESET_MS);
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  const clock = new WallClock();
  const proxy = new ProxyServer({
    ...{ host: "127.0.0.1", planFor: null, recorder: null, clock, epochSeconds, say: (line) => reports.push(line) },
    ...options,
    ...{ to: new URL(`http://${host}`), port: 0 },
  });
  const port = Number(new URL(proxy.url).port);
  const ask = async (request: string, enough?: number) => {
    const read = await readWire(port, Buffer.from(request, "latin1"), enough);
    return { ...read, text: read.bytes.toString("latin1") };
  };
  try {
    await use({ port, seen, reports, host, ask });
  } finally {
    await proxy.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    clock.close();
  }
}

/** Returns the length of the first request in bytes. Null if its head is incomplete. */
function lengthOf(text: string): number | null {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return null;
  const head = text.slice(0, end + 2).toLowerCase();
  if (/\r\ntransfer-encoding:/.test(head)) {
    const last = text.indexOf("0\r\n\r\n", end + 4);
    return last === -1 ? null : last + 5;
  }
  return end + 4 + Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
}
