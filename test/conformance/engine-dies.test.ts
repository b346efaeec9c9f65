/** Checks what clients see when the engine dies, and that the server exits then, as with vLLM's watchdog. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { eventually, serve } from "../server.ts";

setDefaultTimeout(60_000);

test("every request ends with an error, new ones are refused, health fails, and the server exits with 1", async () => {
  const server = await serve(
    "--timing constant:ttft=5ms,itl=20ms --served-model-name m --allow-request-orders all".split(" "),
  );
  const ask = (path: string, body: object) =>
    fetch(`${server.url}/v1/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", ...body }),
    });
  const dead = "The server had an error while processing your request.";
  const stream = await ask("completions", { prompt: "x", max_tokens: 1000, ignore_eos: true, stream: true });
  const text = stream.text();
  const plain = ask("completions", { prompt: "y", max_tokens: 1000, ignore_eos: true });
  const script = { sequences: [{ steps: [[13225], [13225], [13225]] }], engine_dies_at_step: 2 };
  const kills = await ask("chat/completions", { messages: [{ role: "user", content: "z" }], understudy: { script } });
  expect([kills.status, ((await kills.json()) as { error: { message: string } }).error.message]).toEqual([500, dead]);
  expect((await plain).status).toBe(500);
  const frames = (await text).trimEnd().split("\n\n");
  expect(frames.at(-1)).toBe("data: [DONE]");
  expect(frames.at(-2)).toContain(`"message": ${JSON.stringify(dead)}`);
  expect((await fetch(`${server.url}/health`)).status).toBe(503);
  expect((await ask("completions", { prompt: "x" })).status).toBe(500);
  expect((await fetch(`${server.url}/v1/models`)).status).toBe(200);
  await eventually(() => server.output().includes("the engine is dead"), 1000);
  expect(await server.stop()).toBe(1);
});
