/** Checks that `/tokenize` and `/detokenize` of a live server agree with each other and with the usage of prompts. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

interface Tokens {
  readonly count: number;
  readonly max_model_len: number;
  readonly tokens: number[];
  readonly token_strs: string[] | null;
}

let server: HostedServer;
beforeAll(async () => {
  server = await hosted([
    "--served-model-name",
    "m",
    "--timing",
    "none",
    "--max-model-len",
    "2048",
    "--max-body-mb",
    "1",
  ]);
});
afterAll(async () => {
  await server.stop();
});

const post = (path: string, body: unknown, type = "application/json") =>
  fetch(`${server.url}${path}`, { method: "POST", headers: { "content-type": type }, body: JSON.stringify(body) });
const tokenize = async (body: object) => (await (await post("/tokenize", body)).json()) as Tokens;
const detokenize = async (tokens: number[]) => (await (await post("/detokenize", { tokens })).json()) as unknown;
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { message: string; param: string | null } };
  return [response.status, error.message, error.param];
};

test("a text survives both calls, including special tokens and parts of a code point", async () => {
  const prompt = "Hello world 日本 🙂 é <|end|>";
  const { count, max_model_len, tokens, token_strs } = await tokenize({ prompt, return_token_strs: true });
  expect([count, max_model_len]).toEqual([tokens.length, 2048]);
  expect(token_strs!.slice(0, 2)).toEqual(["Hello", "Ġworld"]);
  expect(token_strs!.at(-1)).toBe("<|end|>");
  expect(token_strs!.length).toBe(count);
  expect(await detokenize(tokens)).toEqual({ prompt });
  expect(await detokenize([tokens[0]!, 4_000_000_000])).toEqual({ prompt: "Hello" });
});

test("a conversation has as many tokens as its usage", async () => {
  const messages = [
    { role: "system", content: "Be short." },
    { role: "user", content: [{ type: "text", text: "Hello <|end|>" }] },
  ];
  const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
  for (const extra of [{}, { tools }]) {
    const { count, token_strs } = await tokenize({ messages, ...extra });
    const answer = await post("/v1/chat/completions", { messages, ...extra, tool_choice: "none", max_tokens: 1 });
    const { usage } = (await answer.json()) as { usage: { prompt_tokens: number } };
    expect([count, token_strs]).toEqual([usage.prompt_tokens, null]);
  }
  const open = await tokenize({ messages, add_generation_prompt: false });
  expect((await tokenize({ messages })).count - open.count).toBe(3);
});

test("thousands of messages have as many tokens as each of them has", async () => {
  const conversation = (count: number) => ({ messages: new Array(count).fill({ role: "user", content: "Hello" }) });
  const [oneWord, twoWords, many] = await Promise.all(
    [1, 2, 5000].map(async (count) => (await tokenize(conversation(count))).count),
  );
  expect(many! - oneWord!).toBe(4999 * (twoWords! - oneWord!));
});

test("a text longer than the context is not an error", async () => {
  expect((await tokenize({ prompt: "a b ".repeat(3000) })).count).toBeGreaterThan(2048);
});

test("invalid requests are refused", async () => {
  const messages = [{ role: "user", content: "x" }];
  expect(await errorOf(await post("/tokenize", { prompt: "x" }, "text/plain"))).toEqual([
    400,
    "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
    null,
  ]);
  expect(
    await errorOf(await post("/tokenize", { messages, continue_final_message: true, add_generation_prompt: true })),
  ).toEqual([400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.", null]);
  expect((await errorOf(await post("/tokenize", { messages, chat_template: "x" })))[1]).toStartWith(
    "Chat template is passed with request",
  );
  expect((await post("/detokenize", { model: "other", tokens: [1] })).status).toBe(404);
  expect((await errorOf(await post("/detokenize", { tokens: [1, "x"] })))[2]).toBe("body.tokens.1");
  expect((await post("/tokenize", { prompt: "x".repeat(2 ** 20) })).status).toBe(413);
  expect((await fetch(`${server.url}/tokenize`)).status).toBe(405);
});
