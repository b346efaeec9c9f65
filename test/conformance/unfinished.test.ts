/** Tests many requests that never become complete, and other requests at the same time. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually, type Server, serve } from "../server.ts";
import { posted, RawSocket } from "./raw-socket.ts";

setDefaultTimeout(60_000);

let server: Server;
beforeAll(async () => {
  server = await serve(["--served-model-name", "m", "--timing", "none", "--disable-uvicorn-access-log"]);
});
afterAll(async () => {
  await server.stop();
});

const portOf = ({ url }: Server) => Number(new URL(url).port);
const completion = { model: "m", prompt: "x", max_tokens: 2 };
const answered = (socket: RawSocket, status: number) => socket.text.startsWith(`HTTP/1.1 ${status} `);

/** Opens `count` connections that each send a text. */
async function crowd(count: number, text: string): Promise<RawSocket[]> {
  const sockets = await Promise.all(Array.from({ length: count }, () => RawSocket.connect(portOf(server))));
  for (const socket of sockets) socket.write(text);
  return sockets;
}

async function isServed(): Promise<void> {
  const socket = await RawSocket.connect(portOf(server));
  socket.write(posted("/v1/completions", completion));
  await eventually(() => answered(socket, 200));
  socket.destroy();
}

test("64 MiB of incomplete small bodies: the oldest requests get 503, and all others are served", async () => {
  const whole = posted("/v1/completions", { ...completion, prompt: "word ".repeat(180_000) });
  const crowded = await crowd(100, whole.slice(0, -10));
  await isServed();
  await eventually(() => crowded.filter((socket) => answered(socket, 503)).length >= 20);
  expect(crowded.find((socket) => answered(socket, 503))!.text).toContain("The engine is currently busy");
  // A client that got 503 may send another request on the same connection, after the rest of its body.
  const refused = crowded.find((socket) => answered(socket, 503))!;
  refused.write(whole.slice(-10));
  refused.write(posted("/v1/completions", completion));
  await eventually(() => refused.text.includes("HTTP/1.1 200 "));
  const waiting = crowded.filter((socket) => socket.text === "");
  expect(waiting.length).toBeGreaterThan(20);
  waiting.at(-1)!.write(whole.slice(-10));
  // The prompt is too long for the model, but its body was read completely.
  await eventually(() => answered(waiting.at(-1)!, 400));
  for (const socket of crowded) socket.destroy();
  await isServed();
});

test("64 MiB of incomplete heads: the oldest connections are closed, and other requests are served", async () => {
  const lines = Array.from({ length: 95 }, (_, at) => `h${at}: ${"a".repeat(40_000)}\r\n`).join("");
  const crowded = await crowd(30, `GET /health HTTP/1.1\r\n${lines}`);
  await isServed();
  await eventually(() => crowded.filter(({ closed }) => closed).length >= 12);
  const waiting = crowded.filter(({ closed }) => !closed);
  expect(waiting.length).toBeGreaterThan(5);
  waiting.at(-1)!.write("Host: x\r\n\r\n");
  await eventually(() => answered(waiting.at(-1)!, 200));
  for (const socket of crowded) socket.destroy();
  await isServed();
});
