/**
 * Tests which parts of a stream arrive together at a raw reader: the opening with the first token, each further token alone,
 * the last token with the end. The head is sent at once, as by uvicorn, which also writes the parts of the end without a pause.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import net from "node:net";
import { type HostedServer, hosted } from "../hosted.ts";
import { posted } from "./raw-socket.ts";

const TOKENS = 4;
const END = "0\r\n\r\n";
const DONE = "data: [DONE]\n\n";

/** Returns the bytes of each read of the answer, in order. */
function reads(port: number, body: object): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  const received: string[] = [];
  const socket = net.connect(port, "127.0.0.1");
  socket.on("data", (bytes) => {
    received.push(bytes.toString("latin1"));
    if (!received.join("").endsWith(END)) return;
    socket.destroy();
    resolve(received);
  });
  socket.on("error", reject);
  const messages = [{ role: "user", content: "Hi" }];
  const asked = { messages, stream: true, max_tokens: TOKENS, ignore_eos: true, seed: 1, ...body };
  socket.write(posted("/v1/chat/completions", asked));
  return promise;
}

/** Returns the number of events in these bytes. */
const events = (bytes: string) => bytes.split("data: ").length - 1;
const portOf = ({ url }: HostedServer) => Number(new URL(url).port);

let paced: HostedServer;
let free: HostedServer;
beforeAll(async () => {
  paced = await hosted(["--timing", "constant:ttft=150ms,itl=100ms"]);
  free = await hosted(["--timing", "none"]);
});
afterAll(() => Promise.all([paced.stop(), free.stop()]));

test("with step times: the head at once, the role with the first token, each token alone, the last one with the end", async () => {
  const received = await reads(portOf(paced), {});
  expect(received.map(events)).toEqual([0, 2, 1, 1, 2]);
  expect(received[0]).toStartWith("HTTP/1.1 200 OK\r\n");
  expect(received[0]).toEndWith("\r\n\r\n");
  expect(received[1]).toContain('"role":"assistant"');
  expect(received[4]).toContain('"finish_reason":"length"');
  expect(received[4]).toContain(DONE);
});

test("with step times, the usage is sent with the last token", async () => {
  const received = await reads(portOf(paced), { stream_options: { include_usage: true } });
  expect(received.map(events)).toEqual([0, 2, 1, 1, 3]);
  expect(received[4]).toContain('"completion_tokens":4');
});

test("a first token without delay is sent with head and role, and the rest as with step times", async () => {
  const [first, ...rest] = await reads(portOf(free), {});
  expect(first).toStartWith("HTTP/1.1 200 OK\r\n");
  expect(events(first!)).toBeGreaterThanOrEqual(2);
  expect(rest.length === 0 || events(rest.at(-1)!) >= 2).toBe(true);
  const chunks = (parts: readonly string[]) =>
    parts
      .join("")
      .split("\r\n\r\n")
      .slice(1)
      .join("\r\n\r\n")
      .replace(/"(id|created|system_fingerprint)":("[^"]*"|\d+)/g, "");
  expect(chunks([first!, ...rest])).toBe(chunks(await reads(portOf(paced), {})));
});

test("without step times a head waits some turns for the first token, and is sent alone if none comes", async () => {
  const full = await hosted(["--timing", "none", "--max-num-seqs", "1", "--max-model-len", "131072"]);
  try {
    const long = net.connect(portOf(full), "127.0.0.1");
    const body = { messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: 120_000, ignore_eos: true };
    long.write(posted("/v1/chat/completions", body));
    await new Promise((resolve) => long.once("data", resolve));
    long.pause();
    const received = await reads(portOf(full), {});
    expect(events(received[0]!)).toBe(0);
    expect(received[0]).toEndWith("\r\n\r\n");
    long.destroy();
  } finally {
    await full.stop();
  }
});
