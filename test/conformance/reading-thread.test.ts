/** Checks that a body too large for the loop's thread is answered like a short one with the same content. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { eventually, type Server, serve } from "../server.ts";

let server: Server;
beforeAll(async () => {
  server = await serve([
    ...["--served-model-name", "m", "golden", "--timing", "none", "--max-model-len", "4096", "--seed", "1"],
    ...["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-log-requests"],
    ...["--embedding-dimensions", "8", "--no-enable-prefix-caching"],
  ]);
});
afterAll(async () => {
  await server.stop();
});

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const RESPONSES = "/v1/responses";
const MESSAGES = "/v1/messages";
/** A size above that which the loop's thread reads itself. */
const LARGE = 300_000;
const messages = [
  { role: "system", content: "Be short." },
  { role: "user", content: [{ type: "text", text: "Hello <|end|>" }] },
];
const ids = (count: number, of = 1000) => Array.from({ length: count }, (_, at) => (at * 7) % of);
const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

async function answer(path: string, body: string | Uint8Array, type = "application/json") {
  const headers = { "content-type": type, "x-request-id": "same" };
  const response = await fetch(`${server.url}${path}`, { method: "POST", headers, body });
  const text = (await response.text())
    .replaceAll(/"(created|created_at)":\d+/g, '"$1":0')
    .replaceAll(/"(id|item_id|call_id|signature|request_id)":"(?!same)[^"]*"/g, '"$1":"x"');
  return { status: response.status, type: response.headers.get("content-type"), text };
}

/** Sends the body unchanged, and made large by added blanks. Both answers must be equal. */
async function both(path: string, body: string, type?: string) {
  const short = await answer(path, body, type);
  const large = await answer(path, `${body}${" ".repeat(LARGE)}`, type);
  expect(large).toEqual(short);
  return short;
}

describe("requests", () => {
  const chat = (more: object = {}) => ({ messages, seed: 5, max_tokens: 8, ...more });
  const completion = (more: object = {}) => ({ prompt: "Hello", seed: 5, max_tokens: 8, ...more });
  const response = (more: object = {}) => ({ input: "Hello", max_output_tokens: 8, temperature: 0, ...more });
  const message = (more: object = {}) => ({
    ...{ model: "m", max_tokens: 8, temperature: 0, messages: [{ role: "user", content: "Hello" }] },
    ...more,
  });
  const steps = { script: [[300, 301], [302], [303, 304]] };
  test.each<[string, string, object, number]>([
    ["a chat", CHAT, chat(), 200],
    ["a stream", CHAT, chat({ stream: true, stream_options: { include_usage: true } }), 200],
    [
      "an assistant goes on",
      CHAT,
      chat({
        messages: [...messages, { role: "assistant", content: "So" }],
        echo: true,
        add_generation_prompt: false,
        continue_final_message: true,
      }),
      200,
    ],
    ["its prompt's text", CHAT, chat({ return_prompt_text: true, return_token_ids: true }), 200],
    [
      "forced and forbidden ids",
      CHAT,
      chat({ logit_bias: { "300": 100, "301": 100, "302": -100 }, stop_token_ids: ids(50) }),
      200,
    ],
    ["allowed ids, twice", CHAT, chat({ allowed_token_ids: [...ids(2000), ...ids(2000)] }), 200],
    ["ids of no vocabulary", CHAT, chat({ stop_token_ids: [5, 999_999, -1, 2 ** 60] }), 400],
    ["a bias that is no id", CHAT, chat({ logit_bias: { " 5 ": 1, x: 1 } }), 400],
    ["log probabilities of ids", CHAT, chat({ logprobs: true, logprob_token_ids: [5, 6] }), 200],
    ["of too many", CHAT, chat({ logprobs: true, logprob_token_ids: ids(200) }), 400],
    ["words that may not come", CHAT, chat({ bad_words: ["the", "a"] }), 200],
    ["too many of them", CHAT, chat({ bad_words: Array.from({ length: 2000 }, (_, at) => `w${at % 1500}`) }), 400],
    [
      "an empty one among many",
      CHAT,
      chat({ bad_words: ["", ...Array.from({ length: 2000 }, (_, at) => `w${at}`)] }),
      400,
    ],
    ["a script", CHAT, chat({ understudy: steps, return_token_ids: true }), 200],
    ["a text", CHAT, chat({ understudy: { script: "As ordered." } }), 200],
    ["an echo", CHAT, chat({ understudy: { echo: true } }), 200],
    ["a broken script", CHAT, chat({ understudy: { script: [[1], []] } }), 400],
    ["an id beyond the vocabulary", CHAT, chat({ understudy: { script: [[1], [2, 999_999]] } }), 400],
    ["tools", CHAT, chat({ tools, tool_choice: "required" }), 200],
    ["tools with tool_choice none", CHAT, chat({ tools, tool_choice: "none" }), 200],
    [
      "a schema",
      CHAT,
      chat({
        response_format: {
          type: "json_schema",
          json_schema: {
            name: "n",
            schema: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] },
          },
        },
        max_tokens: 60,
      }),
      200,
    ],
    ["names of a template", CHAT, chat({ chat_template_kwargs: { a: 1.5 }, documents: [{ title: "t" }] }), 200],
    ["another model", CHAT, chat({ model: "nobody" }), 404],
    ["a prompt that is too long", CHAT, chat({ messages: [{ role: "user", content: "word ".repeat(6000) }] }), 400],
    ["messages with errors", CHAT, chat({ messages: [{ role: "user" }, 7, { content: 5 }] }), 400],
    ["a completion", COMPLETIONS, completion(), 200],
    ["several prompts with two choices each", COMPLETIONS, completion({ prompt: ["Hello", "World", ""], n: 2 }), 400],
    ["prompts of ids with echo", COMPLETIONS, completion({ prompt: [ids(5), ids(6)], echo: true, logprobs: 2 }), 200],
    ["a text with echo", COMPLETIONS, completion({ echo: true, stream: true }), 200],
    ["an unknown id", COMPLETIONS, completion({ prompt: [5, 999_999] }), 400],
    ["an id of more than 32 bits", COMPLETIONS, completion({ prompt: [5, 2 ** 40] }), 400],
    ["half a character", COMPLETIONS, completion({ prompt: "\ud800" }), 400],
    ["a batch", `${CHAT}/batch`, chat({ messages: [messages, messages.slice(1)] }), 200],
    ["a batch with an empty conversation", `${CHAT}/batch`, chat({ messages: [messages, []] }), 400],
    ["an invocation", "/invocations", completion({ model: "whoever" }), 200],
    ["an invocation of a chat", "/invocations", chat(), 200],
    ["a response", RESPONSES, response(), 200],
    [
      "a response that echoes many fields",
      RESPONSES,
      response({
        ...{ instructions: 'Be "short".', metadata: { a: "b", __proto__x: "c" }, user: "u", max_tool_calls: 3 },
        ...{ prompt_cache_key: "k", prompt_cache_options: { ttl: "30m" }, prompt_cache_retention: "in-memory" },
        ...{ reasoning: { effort: "low" }, safety_identifier: "s", service_tier: "flex", truncation: "auto" },
        ...{ text: { format: { type: "text" }, verbosity: "low" }, parallel_tool_calls: null, request_id: "same" },
        tools: [
          { type: "function", name: "f", parameters: { a: 1.0 } },
          { type: "custom", name: "g" },
        ],
        tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "f" }] },
      }),
      200,
    ],
    [
      "a response's stream with log probabilities",
      RESPONSES,
      response({ stream: true, include: ["message.output_text.logprobs"], top_logprobs: 2, request_id: "same" }),
      200,
    ],
    ["a response in the background", RESPONSES, response({ background: true }), 400],
    ["a response that goes on from none", RESPONSES, response({ previous_response_id: "resp_1" }), 404],
    ["an input that is no message", RESPONSES, response({ input: [{ type: "object" }] }), 400],
    ["a response of a prompt that is too long", RESPONSES, response({ input: "word ".repeat(6000) }), 400],
    ["a response of another model", RESPONSES, response({ model: "nobody" }), 404],
    ["a response with ids of no vocabulary", RESPONSES, response({ stop_token_ids: [999_999] }), 400],
    ["a message", MESSAGES, message(), 200],
    ["a message's stream", MESSAGES, message({ stream: true, system: [{ type: "text", text: "Be short." }] }), 200],
    [
      "a message with a tool that must be called",
      MESSAGES,
      message({ max_tokens: 40, tools: [{ name: "f", input_schema: {} }], tool_choice: { type: "any" } }),
      200,
    ],
    [
      "a message with a tool that is not there",
      MESSAGES,
      message({ tools: [{ name: "f", input_schema: {} }], tool_choice: { type: "tool", name: "g" } }),
      400,
    ],
    ["a message of half a character", MESSAGES, message({ messages: [{ role: "user", content: "\ud800" }] }), 400],
    ["a message of a prompt that is too long", MESSAGES, message({ system: "word ".repeat(6000) }), 400],
    ["a message with little to think", MESSAGES, message({ thinking: { type: "enabled", budget_tokens: 2000 } }), 400],
    ["a message with something wrong in each", MESSAGES, message({ messages: [{ role: "user" }, 7, {}] }), 400],
    ["tokens of a text", "/tokenize", { prompt: "Hello <|end|>", return_token_strs: true }, 200],
    ["tokens of a chat", "/tokenize", { messages, tools }, 200],
    ["tokens of a chat without tools", "/tokenize", { messages, add_special_tokens: true }, 200],
    ["a model that is none", "/tokenize", { model: "nobody", prompt: "Hello" }, 404],
    ["a prompt that is a number", "/tokenize", { prompt: 5 }, 400],
    ["a message without a role", "/tokenize", { messages: [{ content: "Hello" }] }, 400],
    [
      "an image",
      "/tokenize",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      400,
    ],
    ["the start and the end of an answer", "/tokenize", { messages, continue_final_message: true }, 400],
    ["a text of tokens", "/detokenize", { tokens: [...ids(3000), 300, 4_000_000_000] }, 200],
    ["of some that are none", "/detokenize", { tokens: [1, "2", 3.5, 2 ** 40] }, 400],
    ["of one that is too large", "/detokenize", { tokens: [2 ** 40] }, 400],
    ["vectors", "/v1/embeddings", { input: ["Hello", "World"] }, 200],
  ])("%s", async (_, path, body, status) => {
    expect((await both(path, JSON.stringify(body))).status).toBe(status);
  });
});

describe("bodies that vLLM was sent", () => {
  const folder = `${import.meta.dir}/recorded-dialects/`;
  const all = readdirSync(folder).map((name) => ({ name, ...JSON.parse(readFileSync(folder + name, "utf8")) }));
  const routes = [RESPONSES, MESSAGES, `${MESSAGES}/count_tokens`];
  const found = all.flatMap(({ name, request }) => {
    const body = request?.body_text ?? request?.body;
    // The answer contains the body's length.
    if (name.endsWith("bad-json")) return [];
    return body !== undefined && routes.includes(request.path) ? [[name, request.path, body] as const] : [];
  });
  test("the recordings contain such bodies", () => expect(found.length).toBeGreaterThan(100));
  test.each(found)("%s gets the same answer from the reading thread", async (_, path, body) => {
    const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
    // Drawn values differ between requests, so use temperature 0.
    const isDrawn = isObject && ["number", "object", "undefined"].includes(typeof body.temperature);
    const same = isObject ? { request_id: "same", ...body, ...(isDrawn && { temperature: 0 }) } : body;
    await both(path, typeof body === "string" ? body : JSON.stringify(same));
  });
});

test.each([
  ["no JSON", "{'messages': 5}"],
  ["null", "null"],
  ["a list", "[]"],
  ["Python's own numbers", '{"messages":[],"temperature":NaN}'],
  ["too many digits", `{"messages":[],"seed":${"1".repeat(5000)}}`],
  [
    "tools with a float that is whole",
    `{"messages":[],"tools":${JSON.stringify(tools).replace('"object"', '"object","a":1.0')}}`,
  ],
  ["too deep", `{"messages":${"[".repeat(2000)}${"]".repeat(2000)}}`],
])("a body that is %s gets the same answer from the reading thread", async (_, body) => {
  for (const path of [CHAT, RESPONSES, MESSAGES, "/invocations", "/tokenize", "/detokenize"])
    for (const type of ["application/json", "text/plain", "application/merge-patch+json"]) await both(path, body, type);
});

test("byte order marks, UTF-16 and invalid bytes are handled", async () => {
  const text = JSON.stringify({ messages, seed: 5, max_tokens: 2, pad: "x".repeat(LARGE) });
  const plain = await answer(CHAT, text);
  expect(plain.status).toBe(200);
  expect(await answer(CHAT, `\ufeff${text}`)).toEqual(plain);
  expect(await answer(CHAT, Buffer.from(text, "utf16le"))).toEqual(plain);
  expect((await answer(CHAT, Buffer.from([...Buffer.from(text.slice(0, -2)), 0xff, 0x22, 0x7d]))).status).toBe(400);
});

test("bodies without a length, aborted bodies, and bodies that expand in memory are handled", async () => {
  const text = JSON.stringify({ messages, seed: 5, max_tokens: 2, pad: "x".repeat(LARGE) });
  const body = new ReadableStream({
    start(out) {
      for (let at = 0; at < text.length; at += 50_000) out.enqueue(Buffer.from(text.slice(at, at + 50_000)));
      out.close();
    },
  });
  const headers = { "content-type": "application/json", "x-request-id": "same" };
  const chunked = await fetch(`${server.url}${CHAT}`, { method: "POST", headers, body });
  expect(chunked.status).toBe(200);
  const left = new AbortController();
  const endless = new ReadableStream({ pull: (out) => out.enqueue(new Uint8Array(65_536).fill(32)) });
  const sent = fetch(`${server.url}${CHAT}`, { method: "POST", headers, body: endless, signal: left.signal });
  await Bun.sleep(50);
  left.abort();
  await expect(sent).rejects.toThrow();
  const full = await answer(CHAT, `{"messages":[${"[],".repeat(2_100_000)}[]]}`);
  expect(full).toMatchObject({ status: 400, text: expect.stringContaining("at most 2000000 lists and objects") });
  expect((await answer(CHAT, text)).status).toBe(200);
});

test("a refusal of megabytes arrives complete", async () => {
  const wrong = ids(300_000, 2 ** 40).map((id) => 500_000 + id);
  const { status, text } = await answer(CHAT, JSON.stringify({ messages, stop_token_ids: wrong }));
  expect([status, JSON.parse(text).error.param]).toEqual([400, "stop_token_ids"]);
  expect(text.length).toBeGreaterThan(4_000_000);
});

test("the log lines of both requests are equal", async () => {
  const lines = () => server.output().match(/Received request .*\n/g) ?? [];
  const before = lines().length;
  await both(
    CHAT,
    JSON.stringify({ messages, seed: 5, max_tokens: 2, stop_token_ids: [7, 7, 8], bad_words: ["x", "x"] }),
  );
  await eventually(() => lines().length === before + 2);
  const [short, large] = lines().slice(before);
  expect(large).toBe(short!);
});
