/** Requests to /generate with very many words or parameters are refused, and large bodies are read in pieces as small ones are. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { hostTriton, type TritonHosted } from "./child.ts";

let server: TritonHosted;
beforeAll(async () => {
  server = await hostTriton([]);
});
afterAll(() => server.stop());

async function generate(model: string, fields: object): Promise<[number, string]> {
  const body = JSON.stringify({ text_input: "a", max_tokens: 5, ...fields });
  const answer = await fetch(`${server.url}/v2/models/${model}/generate`, { method: "POST", body });
  const text = await answer.text();
  return [answer.status, answer.ok ? "" : JSON.parse(text).error];
}

const words = (count: number) => Array.from({ length: count }, (_, at) => `word ${at}`);

test("4,096 words of a list are taken, more are refused", async () => {
  for (const model of ["ensemble", "tensorrt_llm_bls"])
    for (const list of ["bad_words", "stop_words"]) {
      expect(await generate(model, { [list]: words(4096) })).toEqual([200, ""]);
      for (const count of [4097, 50_000]) {
        const [status, error] = await generate(model, { [list]: words(count) });
        expect([status, error]).toEqual([400, expect.stringContaining(`has ${count} words: a stand-in takes 4096`)]);
      }
    }
}, 60_000);

test("10,000 parameters are taken, more are refused", async () => {
  // `max_tokens` is no input of `echo`, so it counts too.
  const many = (count: number) => Object.fromEntries(words(count - 1).map((word) => [word, 1]));
  expect((await generate("echo", many(10_000)))[0]).toBe(200);
  const refused = [400, "more than 10000 parameters: a stand-in takes no more"];
  expect(await generate("echo", many(10_001))).toEqual([refused[0], refused[1]] as never);
  expect((await generate("echo", { parameters: many(10_002) }))[1]).toBe(
    "Converting keyword: 'parameters': more than 10000 parameters: a stand-in takes no more",
  );
}, 60_000);

test("a prompt of 2.4 million tokens is refused by its length", async () => {
  const [status, error] = await generate("ensemble", { text_input: "word ".repeat(2_400_000) });
  expect([status, error]).toEqual([
    400,
    expect.stringMatching(/Prompt length \(24\d{5}\) exceeds maximum input length/),
  ]);
}, 60_000);

test("a large body says the same of wrong texts, shapes and names as a small one", async () => {
  const padding = { text_input: "b".repeat(70_000) };
  for (const wrong of [
    { sleep_ms: ["x"] },
    { sleep_ms: [1, 2] },
    { mode: [1] },
    { parameters: 3 },
    { parameters: { sleep_ms: "x" } },
  ]) {
    const [small, large] = [await generate("echo", wrong), await generate("echo", { ...wrong, ...padding })];
    expect(large).toEqual(small);
    expect(small[0]).toBeGreaterThanOrEqual(400);
  }
  expect((await generate("echo", padding))[0]).toBe(200);
}, 60_000);
