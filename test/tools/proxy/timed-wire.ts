/** Reads an answer and measures when each of its events arrives. */
import net from "node:net";

export interface TimedWire {
  readonly bytes: Buffer;
  /** Arrival time of each `data:` line, in milliseconds after the request was sent. */
  readonly eventMs: readonly number[];
}

export function timedWire(port: number, text: string): Promise<TimedWire> {
  const parts: Buffer[] = [];
  const eventMs: number[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<TimedWire>();
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  let sentMs = 0;
  socket.on("connect", () => {
    sentMs = performance.now();
    socket.write(text);
  });
  socket.on("data", (data: Buffer) => {
    parts.push(data);
    for (const _ of data.toString("latin1").matchAll(/^data: /gm)) eventMs.push(performance.now() - sentMs);
  });
  socket.on("error", reject);
  socket.on("close", () => resolve({ bytes: Buffer.concat(parts), eventMs }));
  return promise;
}
