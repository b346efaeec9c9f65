/**
 * Who does not read harms nobody: clients and scrapers that stall, a thousand scrapes at once. Streams go on, and what is
 * held for the slow ones shows in understudy_held_bytes and is bounded.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import net from "node:net";
import { eventually, type Server, sample, serve } from "../server.ts";

let server: Server;
beforeAll(async () => {
  const flags =
    "--served-model-name m --timing constant:ttft=5ms,itl=2ms --max-model-len 100000 --disable-uvicorn-access-log";
  server = await serve(flags.split(" "));
});
afterAll(async () => void (await server.stop()));

const bodyOf = (max_tokens: number) =>
  JSON.stringify({ model: "m", prompt: "x", max_tokens, ignore_eos: true, stream: true });

/** A socket that sends and never reads. */
function stalled(head: string, body = ""): net.Socket {
  const socket = net.connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.pause();
  socket.write(`${head}\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  return socket;
}

/** Tokens of a stream while `beside` runs; it must come to its end. */
async function stream(tokens: number): Promise<number> {
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: bodyOf(tokens),
  });
  return (await answer.text()).split('"text":').length - 1;
}
const resident = async () => sample(server.url, "process_resident_memory_bytes");

test("a client that does not read: what waits for it is counted, and gone when it leaves", async () => {
  const fast = await serve(["--served-model-name", "m", "--timing", "none", "--max-model-len", "300000"]);
  try {
    const held = () => sample(fast.url, "understudy_held_bytes");
    expect(await held()).toBe(0);
    const socket = net.connect(Number(new URL(fast.url).port), "127.0.0.1");
    socket.pause();
    const body = bodyOf(200_000);
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await eventually(async () => (await held()) > 10_000);
    // An id has four bytes; beside them the one event that the socket did not take.
    expect(await held()).toBeLessThan(200_000 * 4 + 10_000);
    socket.destroy();
    await eventually(async () => (await held()) === 0);
    expect(await sample(fast.url, "understudy_streams_open")).toBe(0);
  } finally {
    await fast.stop();
  }
}, 30_000);

test("scrapers that never read: a stream beside them has all its tokens, memory stays within their pages", async () => {
  await stream(50);
  const before = await resident();
  const sockets: net.Socket[] = [];
  const beside = stream(1000);
  for (let i = 0; i < 200; i++) sockets.push(stalled("GET /metrics/all HTTP/1.1"));
  expect(await beside).toBe(1000);
  expect(await sample(server.url, 'understudy_requests_total{outcome="length"')).toBeGreaterThan(0);
  // The pages of 200 scrapers, 100 kB each, and as much again for what a runtime keeps.
  expect((await resident()) - before).toBeLessThan(200e6);
  for (const socket of sockets) socket.destroy();
}, 30_000);

test("a thousand scrapes at once: each is answered or refused with 503, a stream beside them has all its tokens", async () => {
  const before = await resident();
  const beside = stream(1000);
  const scrape = async () => {
    const answer = await fetch(`${server.url}/metrics/all`);
    const text = await answer.text();
    return answer.status === 200 ? text.length > 10_000 : answer.status === 503;
  };
  const answered = await Promise.all(Array.from({ length: 1000 }, scrape));
  expect(answered.every(Boolean)).toBe(true);
  expect(await beside).toBe(1000);
  expect((await resident()) - before).toBeLessThan(300e6);
  expect(await sample(server.url, "understudy_requests_open")).toBe(0);
}, 30_000);
