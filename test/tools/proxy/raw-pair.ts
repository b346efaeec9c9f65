/** A proxy between a raw client and a raw server: what each of them sends, and the bytes that the other one gets. */
import net from "node:net";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { ProxyServer } from "../../../src/tools/proxy/server.ts";
import { readWire, type SeenWire } from "../../faults/wire.ts";

type Options = Partial<Omit<ConstructorParameters<typeof ProxyServer>[0], "to" | "port">>;

export interface RawPair {
  readonly port: number;
  /** Bytes of each request as the server got them, as Latin-1. */
  readonly seen: string[];
  /** Lines that the proxy reported. */
  readonly said: string[];
  /** Where the server listens, as in `Host`. */
  readonly host: string;
  /** Sends bytes (Latin-1) and reads until the connection ends, or until `enough` bytes are there. */
  ask(request: string, enough?: number): Promise<SeenWire & { readonly text: string }>;
}

/** Bytes of lines that a reader can read: LF stands for CRLF. */
export const wire = (text: string): string => text.replaceAll("\n", "\r\n");

const RESET_MS = 50;

/** `answers`: of the server, one per request, as Latin-1; it closes the connection after one that ends with `CLOSES`. */
export const CLOSES = "\0close";
export const RESETS = "\0reset";

export async function rawPair(
  answers: readonly string[],
  use: (pair: RawPair) => Promise<void>,
  options: Options = {},
): Promise<void> {
  const seen: string[] = [];
  const said: string[] = [];
  const sockets = new Set<net.Socket>();
  let next = 0;
  const server = net.createServer((socket) => {
    sockets.add(socket);
    let got = "";
    socket.on("error", () => {});
    socket.on("data", (data) => {
      got += data.toString("latin1");
      const length = lengthOf(got);
      if (length === null || got.length < length) return;
      seen.push(got.slice(0, length));
      got = got.slice(length);
      const answer = answers[next++] ?? "";
      const end = [CLOSES, RESETS].find((one) => answer.endsWith(one)) ?? "";
      socket.write(Buffer.from(answer.slice(0, answer.length - end.length), "latin1"), () => {
        if (end === CLOSES) socket.end();
        // Not at once: the kernel would drop bytes that the proxy has not read.
        else if (end === RESETS) setTimeout(() => socket.resetAndDestroy(), RESET_MS);
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  const clock = new WallClock();
  const proxy = new ProxyServer({
    ...{ host: "127.0.0.1", planFor: null, recorder: null, clock, epochSeconds, say: (line) => said.push(line) },
    ...options,
    ...{ to: new URL(`http://${host}`), port: 0 },
  });
  const port = Number(new URL(proxy.url).port);
  const ask = async (request: string, enough?: number) => {
    const read = await readWire(port, Buffer.from(request, "latin1"), enough);
    return { ...read, text: read.bytes.toString("latin1") };
  };
  try {
    await use({ port, seen, said, host, ask });
  } finally {
    await proxy.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    clock.close();
  }
}

/** Bytes of the first request; null: its head is not complete. */
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
