/** Tests how an answer is counted that ended in the engine while its client did not read and then disconnected. */
import { expect, test } from "bun:test";
import net from "node:net";
import { eventually, sample, serve } from "../server.ts";

test("the answer counts with the engine's finish reason", async () => {
  const flags = ["--served-model-name", "m", "--timing", "none", "--max-model-len", "100000"];
  const server = await serve(flags);
  try {
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 90_000, ignore_eos: true, stream: true });
    const { port } = new URL(server.url);
    const socket = net.connect(Number(port), "127.0.0.1");
    socket.pause();
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const ended = () => sample(server.url, 'vllm:request_success_total{engine="0",finished_reason="length"');
    await eventually(async () => (await ended()) === 1);
    const counted = (outcome: string) => sample(server.url, `understudy_requests_total{outcome="${outcome}"`);
    expect(await counted("length")).toBe(0);
    socket.destroy();
    await eventually(async () => (await counted("length")) === 1);
    expect(await counted("abort")).toBe(0);
  } finally {
    await server.stop();
  }
});
