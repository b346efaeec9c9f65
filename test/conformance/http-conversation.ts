/** Sends raw texts to a server and returns the answers until it closes the connection. */
import net from "node:net";

/** Returns everything received until the server closes, in pieces. */
export function wire(text: string, port: number): Promise<readonly string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
  const socket = net.connect(port, "127.0.0.1");
  const pieces: string[] = [];
  socket.on("data", (data) => pieces.push(data.toString("latin1")));
  socket.on("close", () => resolve(pieces));
  socket.on("error", reject);
  socket.write(text);
  return promise;
}

/** Sends each part after the answer to the previous one has arrived. */
export async function inTurn(parts: readonly string[], port: number): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = net.connect(port, "127.0.0.1");
  let text = "";
  let next = 0;
  const send = () => {
    if (next < parts.length) socket.write(parts[next++]!);
  };
  socket.on("connect", send);
  socket.on("data", (data) => {
    text += data.toString("latin1");
    const last = text.slice(text.lastIndexOf("HTTP/1.1 "));
    const length = /content-length: (\d+)/i.exec(last)?.[1];
    const whole = length !== undefined && last.split("\r\n\r\n")[1]?.length === Number(length);
    if (whole || last.endsWith("\r\n0\r\n\r\n")) send();
  });
  socket.on("close", () => resolve(text));
  socket.on("error", () => {});
  return promise;
}

/** Sends the head, and the rest after something was received. */
export function headFirst(whole: string, port: number): Promise<string> {
  const end = whole.indexOf("\r\n\r\n") + 4;
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = net.connect(port, "127.0.0.1");
  let text = "";
  socket.on("data", (data) => {
    const before = text;
    text += data.toString("latin1");
    if (before === "") socket.write(whole.slice(end));
  });
  socket.on("close", () => resolve(text));
  socket.on("error", () => {});
  socket.write(whole.slice(0, end));
  return promise;
}

export const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
