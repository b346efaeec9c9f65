/** Parts of the test files that bench/library.ts copies and runs, in Node and in Bun. */
import assert from "node:assert";

const { test } = await import(process.versions.bun ? "bun:test" : "node:test");

/** Requests an answer from the server and checks it. */
export async function ask(url) {
  const headers = { "content-type": "application/json" };
  const messages = [{ role: "user", content: "hello" }];
  const body = JSON.stringify({ model: "meta-llama/Llama-3.1-8B-Instruct", messages });
  const answer = await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).json();
  assert.equal(answer.choices[0].message.content, "Hi there!");
}

/** Defines as many equal tests as the environment says. */
export function tests(act) {
  for (let i = 0; i < Number(process.env.TESTS); i++) test(`test ${i}`, act);
}
