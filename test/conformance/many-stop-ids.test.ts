/** Tests requests with as many stop ids as the vocabulary has, at a server with a short context. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name=m", "--timing=none", "--max-model-len=200"]);
});
afterAll(async () => {
  await server.stop();
});

async function answer(path: string, fields: object) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ model: "m", max_tokens: 3, ...fields });
  const sent = await fetch(`${server.url}${path}`, { method: "POST", headers, body });
  return [
    sent.status,
    (await sent.json()) as { readonly error: { message: string }; readonly choices: object[] },
  ] as const;
}

test("all ids of the vocabulary can be stop ids", async () => {
  const [, { error }] = await answer("/v1/completions", { prompt: "a", stop_token_ids: [1 << 30] });
  const size = Number(error.message.match(/\b(\d{5,6})\b(?!.*\b\d{5,6}\b)/)![1]);
  expect(size).toBeGreaterThan(100_000);
  const all = { stop_token_ids: Array.from({ length: size }, (_, at) => at) };
  const [status, { choices }] = await answer("/v1/completions", { prompt: "a", ...all });
  expect([status, choices[0]]).toMatchObject([200, { text: "", finish_reason: "stop" }]);
  const [chat] = await answer("/v1/chat/completions", { messages: [{ role: "user", content: "a" }], ...all, n: 4 });
  expect(chat).toBe(200);
});
