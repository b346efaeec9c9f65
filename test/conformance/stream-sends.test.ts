/**
 * Tests which parts of a stream a raw reader sees together: the opening with the first token, each further token by itself,
 * the last token with the end. uvicorn writes a head at once; it writes the end without waiting between its parts.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import net from "node:net";
import { type Hosted, hosted } from "../hosted.ts";
import { posted } from "./raw-socket.ts";

const TOKENS = 4;
const END = "0\r\n\r\n";
const DONE = "data: [DONE]\n\n";

/** Bytes of each read of the answer, in order. */
function reads(port: number, body: object): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  const found: string[] = [];
  const socket = net.connect(port, "127.0.0.1");
  socket.on("data", (bytes) => {
    found.push(bytes.toString("latin1"));
    if (!found.join("").endsWith(END)) return;
    socket.destroy();
    resolve(found);
  });
  socket.on("error", reject);
  const messages = [{ role: "user", content: "Hi" }];
  const asked = { messages, stream: true, max_tokens: TOKENS, ignore_eos: true, seed: 1, ...body };
  socket.write(posted("/v1/chat/completions", asked));
  return promise;
}

/** Events (with text) in these bytes. */
const events = (bytes: string) => bytes.split("data: ").length - 1;
const portOf = ({ url }: Hosted) => Number(new URL(url).port);

let paced: Hosted;
let free: Hosted;
beforeAll(async () => {
  paced = await hosted(["--timing", "constant:ttft=150ms,itl=100ms"]);
  free = await hosted(["--timing", "none"]);
});
afterAll(() => Promise.all([paced.stop(), free.stop()]));

test("paced: the head at once, the role with the first token, each token by itself, the last one with the end", async () => {
  const found = await reads(portOf(paced), {});
  expect(found.map(events)).toEqual([0, 2, 1, 1, 2]);
  expect(found[0]).toStartWith("HTTP/1.1 200 OK\r\n");
  expect(found[0]).toEndWith("\r\n\r\n");
  expect(found[1]).toContain('"role":"assistant"');
  expect(found[4]).toContain('"finish_reason":"length"');
  expect(found[4]).toContain(DONE);
});

test("paced, with usage: it leaves with the last token", async () => {
  const found = await reads(portOf(paced), { stream_options: { include_usage: true } });
  expect(found.map(events)).toEqual([0, 2, 1, 1, 3]);
  expect(found[4]).toContain('"completion_tokens":4');
});

test("a first token that comes at once leaves with head and role; what follows is as the paced server writes it", async () => {
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

test("without step times a head waits some turns for a first token, and leaves alone if none comes", async () => {
  const full = await hosted(["--timing", "none", "--max-num-seqs", "1", "--max-model-len", "131072"]);
  try {
    const long = net.connect(portOf(full), "127.0.0.1");
    const body = { messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: 120_000, ignore_eos: true };
    long.write(posted("/v1/chat/completions", body));
    await new Promise((resolve) => long.once("data", resolve));
    long.pause();
    const found = await reads(portOf(full), {});
    expect(events(found[0]!)).toBe(0);
    expect(found[0]).toEndWith("\r\n\r\n");
    long.destroy();
  } finally {
    await full.stop();
  }
});
