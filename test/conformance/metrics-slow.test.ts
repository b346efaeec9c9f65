/**
 * Checks that clients and scrapers that do not read harm nobody, nor do a thousand scrapes at once. Other streams continue,
 * and bytes buffered for slow clients are bounded and counted in understudy_held_bytes.
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

/** Opens a socket that sends and never reads. */
function stalled(head: string, body = ""): net.Socket {
  const socket = net.connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.pause();
  socket.write(`${head}\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  return socket;
}

/** Reads a stream to its end and returns its number of tokens. */
async function stream(tokens: number): Promise<number> {
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: bodyOf(tokens),
  });
  return (await answer.text()).split('"text":').length - 1;
}
const resident = async () => sample(server.url, "process_resident_memory_bytes");

test("bytes that wait for a client that does not read are counted, and freed when it disconnects", async () => {
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
    // An id has four bytes. In addition there is the one event that the socket did not accept.
    expect(await held()).toBeLessThan(200_000 * 4 + 10_000);
    socket.destroy();
    await eventually(async () => (await held()) === 0);
    expect(await sample(fast.url, "understudy_streams_open")).toBe(0);
  } finally {
    await fast.stop();
  }
}, 30_000);

test("with scrapers that never read, another stream gets all tokens, and memory stays within the size of their pages", async () => {
  await stream(50);
  const before = await resident();
  const sockets: net.Socket[] = [];
  const streaming = stream(1000);
  for (let i = 0; i < 200; i++) sockets.push(stalled("GET /metrics/all HTTP/1.1"));
  expect(await streaming).toBe(1000);
  expect(await sample(server.url, 'understudy_requests_total{outcome="length"')).toBeGreaterThan(0);
  // The pages of 200 scrapers, 100 kB each, and the same amount for the runtime.
  expect((await resident()) - before).toBeLessThan(200e6);
  for (const socket of sockets) socket.destroy();
}, 30_000);

test("of a thousand scrapes at once each is answered or gets 503, and another stream gets all tokens", async () => {
  const before = await resident();
  const streaming = stream(1000);
  const scrape = async () => {
    const answer = await fetch(`${server.url}/metrics/all`);
    const text = await answer.text();
    return answer.status === 200 ? text.length > 10_000 : answer.status === 503;
  };
  const answered = await Promise.all(Array.from({ length: 1000 }, scrape));
  expect(answered.every(Boolean)).toBe(true);
  expect(await streaming).toBe(1000);
  expect((await resident()) - before).toBeLessThan(300e6);
  expect(await sample(server.url, "understudy_requests_open")).toBe(0);
}, 30_000);
