/** Runs real clients against a live server over real sockets. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import OpenAI from "openai";
import { type HostedServer, hosted } from "../hosted.ts";

const python = new URL("../../.venv/bin/python", import.meta.url).pathname;
const script = new URL("clients/client.py", import.meta.url).pathname;

let server: HostedServer;
beforeAll(async () => {
  // Longer than any limit below, so that every limit cuts the answer.
  server = await hosted(["--timing", "none", "--served-model-name", "m", "--output-tokens", "constant:100000"]);
});
afterAll(async () => {
  await server.stop();
});

const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
const hello = [{ role: "user", content: "Hello" }] as const;

test("Node client: a streamed chat has the text of the whole answer", async () => {
  const asked = { model: "m", messages: [...hello], max_tokens: 24, seed: 11 };
  const whole = await client().chat.completions.create(asked);
  let text = "";
  let finish: string | null = null;
  let usage: OpenAI.CompletionUsage | null | undefined;
  let chunks = 0;
  const stream = await client().chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      text += choice.delta.content ?? "";
      finish = choice.finish_reason ?? finish;
      chunks++;
    }
  }
  expect(text).toBe(whole.choices[0]!.message.content!);
  expect(text.length).toBeGreaterThan(20);
  expect(finish as string | null).toBe("length");
  expect(chunks).toBe(25); // the role, then one per token
  expect(usage!.completion_tokens).toBe(24);
  expect(usage!.prompt_tokens).toBe(whole.usage!.prompt_tokens);
});

test("Node client: several choices of one request are separated by index", async () => {
  const stream = await client().completions.create({ model: "m", prompt: "Tell", n: 3, max_tokens: 6, stream: true });
  const texts = ["", "", ""];
  for await (const chunk of stream) for (const choice of chunk.choices) texts[choice.index] += choice.text;
  expect(new Set(texts).size).toBe(3);
  expect(texts.every((text) => text.length > 0)).toBe(true);
});

test("Node client: disconnecting from a stream ends it on the server", async () => {
  const stream = await client().chat.completions.create({
    model: "m",
    messages: [...hello],
    max_tokens: 100_000,
    stream: true,
  });
  let seen = 0;
  for await (const _ of stream) if (++seen === 5) break;
  expect(seen).toBe(5);
  const after = await client().chat.completions.create({ model: "m", messages: [...hello], max_tokens: 1 });
  expect(after.usage!.completion_tokens).toBe(1);
});

test("Node client: errors arrive as the client's error classes", async () => {
  const call = async () => await client().chat.completions.create({ model: "nobody", messages: [...hello] });
  await expect(call()).rejects.toMatchObject({ status: 404, type: "NotFoundError", param: "model" });
});

test.skipIf(!existsSync(python))(
  "Python client: chat, completions, streams and errors work (needs .venv with openai)",
  async () => {
    const child = Bun.spawn([python, script, server.url], { stdout: "pipe", stderr: "inherit" });
    const seen = JSON.parse(await new Response(child.stdout).text());
    expect(await child.exited).toBe(0);
    expect(seen.model).toBe("m");
    expect(seen.streamed.text).toBe(seen.whole);
    expect(seen.streamed).toMatchObject({ chunks: 13, finish: "length", usage: seen.usage });
    expect(seen.usage[1]).toBe(12);
    expect(seen.completionStreamed).toBe(seen.completion);
    expect(seen.errors.unknownModel).toEqual([
      "NotFoundError",
      404,
      "The model `nobody` does not exist. Valid aliases: m.",
    ]);
    expect(seen.errors.badTemperature.slice(0, 2)).toEqual(["BadRequestError", 400]);
  },
);
