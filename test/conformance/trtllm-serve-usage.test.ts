/** Tests the usage that the role trtllm-serve reports for several prompts and in a chat's first event. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";

setDefaultTimeout(20_000);

async function start(line: string): Promise<RenewableApp> {
  const flags = `--role trtllm-serve --port 0 --timing none ${line}`.split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createRenewableApp(resolved.config, { log: () => {} });
}

let app: RenewableApp;
beforeAll(async () => {
  app = await start("--max-seq-len 2048");
});
afterAll(() => app.close(0));

const post = (path: string, more: object, to = app) =>
  fetch(to.url + path, {
    method: "POST",
    body: JSON.stringify({ model: "m", max_tokens: 4, ...more }),
    headers: { "content-type": "application/json" },
  });
const chat = (more: object) => post("/v1/chat/completions", more);
const complete = (more: object) => post("/v1/completions", more);
/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;
const json = async (response: Promise<Response>): Promise<Json> => (await response).json();
/** Returns the events of a stream, each with its end. */
const events = async (response: Promise<Response>) => (await (await response).text()).split(/(?<=\n\n)/);
const chunk = (event: string) => JSON.parse(event.slice("data: ".length));

test("answers to several prompts are joined, with the sum of the usage and the served model's name", async () => {
  const prompt = Array.from({ length: 100 }, (_, i) => 100 + i);
  await complete({ prompt });
  const answer = await json(complete({ prompt }));
  const cached = answer.usage.prompt_tokens_details.cached_tokens;
  expect(cached).toBeGreaterThan(0);
  expect([answer.model, answer.prompt_token_ids]).toEqual(["m", null]);
  const both = await json(complete({ prompt: [prompt, prompt], n: 2 }));
  expect([both.model, both.prompt_token_ids]).toEqual(["meta-llama/Llama-3.1-8B-Instruct", []]);
  expect(both.usage).toMatchObject({ prompt_tokens: 200, total_tokens: 216, completion_tokens: 16 });
  // The requests share blocks while both run, and the last block is not copied for both.
  expect(both.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(1.9 * cached);
});

test("in a stream each of several prompts has a separate id, and its usage after its last choice", async () => {
  const asked = { stream: true, prompt: [[5, 6, 7], [8], [9, 10]], n: 2, max_tokens: 2 };
  const all = await events(complete({ ...asked, stream_options: {} }));
  expect(all.at(-1)).toBe("data: [DONE]\n\n");
  const chunks = all.slice(0, -1).map(chunk);
  const numbers: number[] = [];
  for (const [prompt, tokens] of [3, 1, 2].entries()) {
    const indices = [2 * prompt, 2 * prompt + 1];
    const [{ id }] = chunks.filter(({ choices: [choice] }) => choice?.index === indices[0]);
    const choiceChunks = chunks.filter((chunk) => chunk.id === id);
    numbers.push(Number(/^cmpl-(\d+)$/.exec(id)![1]));
    expect(choiceChunks.slice(0, -1).map(({ choices: [choice] }) => choice.index)).toEqual(
      expect.arrayContaining([...indices, ...indices]),
    );
    expect(choiceChunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    const { choices, usage } = choiceChunks.at(-1);
    expect(choices).toEqual([]);
    expect(usage).toEqual({
      ...{ prompt_tokens: tokens, total_tokens: tokens + 4, completion_tokens: 4 },
      prompt_tokens_details: { cached_tokens: 0 },
    });
  }
  expect(numbers).toEqual([0, 1, 2].map((more) => numbers[0]! + more));
  expect(chunks).toHaveLength(3 * (2 * 2 + 1));
  const without = await events(complete(asked));
  expect(without).toHaveLength(3 * 2 * 2 + 1);
});

test("the cached tokens of a streamed prompt are those of its first choice, in any order of ends", async () => {
  // Requests wait for others, so a second choice may start with blocks that the first has cached.
  const narrow = await start("--max-seq-len 200 --max-num-tokens 200 --max-batch-size 2");
  for (let seed = 0; seed < 12; seed++) {
    const prompt = [0, 1, 2, 3].map((at) => Array.from({ length: 150 }, (_, i) => 1000 + 800 * seed + 200 * at + i));
    const asked = { prompt, n: 2, seed, max_tokens: 50, stream: true, stream_options: {} };
    const chunks = (await events(post("/v1/completions", asked, narrow))).slice(0, -1).map(chunk);
    const cached = chunks.flatMap(({ usage }) => (usage ? [usage.prompt_tokens_details.cached_tokens] : []));
    expect(cached).toEqual([0, 0, 0, 0]);
  }
  await narrow.close(0);
});

test("with continuous usage the first event of a chat has the cached tokens", async () => {
  const messages = [{ role: "user", content: "word ".repeat(120) }];
  await chat({ messages });
  const all = await events(chat({ messages, stream: true, stream_options: { continuous_usage_stats: true } }));
  const cached = all.slice(0, -1).map((event) => chunk(event).usage.prompt_tokens_details.cached_tokens);
  expect(cached[0]).toBeGreaterThan(0);
  expect(new Set(cached).size).toBe(1);
});
