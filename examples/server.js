// Starts a server on a free port for a test, waits until it is ready, and closes it after the test.
// Run it with Node or Bun: node examples/server.js
import { createServer } from "llm-understudy";

const server = createServer({ model: "my/model", timing: "constant:ttft=50ms,itl=5ms" });
await server.ready;

const response = await fetch(`${server.url}/v1/chat/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: "my/model", messages: [{ role: "user", content: "Hello" }], max_tokens: 12, seed: 7 }),
});
const { choices, usage } = await response.json();
console.log(response.status, JSON.stringify(choices[0].message.content), usage.completion_tokens, "tokens");

const metrics = await (await fetch(`${server.url}/metrics`)).text();
console.log(metrics.split("\n").find((line) => line.startsWith("vllm:generation_tokens_total")));

await server.close();
