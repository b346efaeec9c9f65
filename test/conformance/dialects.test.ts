/**
 * Tests parts of responses, messages and thinking that cannot be recorded: the amount of thinking, the contents of a store,
 * answers in the background, and the cost of an image.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(30_000);

// biome-ignore lint/suspicious/noExplicitAny: JSON of several shapes
type Json = any;
const NAMED = ["--served-model-name", "m"];
let thinking: HostedServer;
let storing: HostedServer;
let seeing: HostedServer;
beforeAll(async () => {
  [thinking, storing, seeing] = await Promise.all([
    hosted([...NAMED, "--timing", "none", "--reasoning-parser", "qwen3"]),
    hosted([...NAMED, "--timing", "linear:base=20ms,prefill=0ms,decode=0ms", "--response-store", "3"]),
    hosted([...NAMED, "--timing", "none", "--image-tokens", "100", "--enable-prompt-tokens-details"]),
  ]);
});
afterAll(() => Promise.all([thinking, storing, seeing].map((server) => server.stop())));

async function call(
  server: HostedServer,
  path: string,
  body?: object,
  method = "POST",
): Promise<{ status: number; json: Json }> {
  const init = { method, headers: { "content-type": "application/json" } };
  const response = await fetch(server.url + path, body === undefined ? init : { ...init, body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}
const HELLO = [{ role: "user", content: "Hello" }];
async function think(fields: object) {
  const { json } = await call(thinking, "/v1/chat/completions", { messages: HELLO, seed: 3, ...fields });
  const [{ message, finish_reason: finish }] = json.choices;
  const tokens: number = json.usage.completion_tokens_details.reasoning_tokens;
  return { ...message, finish, tokens, all: json.usage.completion_tokens as number };
}

test("the thinking and its length follow from the seed, and can be ordered or limited", async () => {
  const [first, again, other] = await Promise.all([think({}), think({}), think({ seed: 4 })]);
  expect([first.reasoning, first.content, first.tokens]).toEqual([again.reasoning, again.content, again.tokens]);
  expect(other.reasoning).not.toBe(first.reasoning);
  expect(first.finish).toBe("stop");
  expect((await think({ understudy: { reasoning: 7 } })).tokens).toBe(7);
  expect((await think({ thinking_token_budget: 5 })).tokens).toBe(5);
  expect((await think({ thinking_token_budget: 5, understudy: { reasoning: 3 } })).tokens).toBe(3);
  const none = await think({ understudy: { reasoning: 0 } });
  expect([none.reasoning, none.tokens]).toEqual([null, 0]);
});

test("max_tokens can cut the thinking: no content, finish reason length", async () => {
  const cut = await think({ max_tokens: 6, understudy: { reasoning: 50 } });
  expect([cut.content, cut.finish, cut.tokens, cut.all]).toEqual([null, "length", 5, 6]);
  expect(cut.reasoning.length).toBeGreaterThan(0);
});

test("enable_thinking false, effort none and messages without thinking give text without thinking", async () => {
  for (const fields of [{ chat_template_kwargs: { enable_thinking: false } }, { reasoning_effort: "none" }])
    expect((await think(fields)).reasoning).toBeNull();
  const { json } = await call(thinking, "/v1/messages", {
    model: "m",
    max_tokens: 20,
    messages: HELLO,
    thinking: { type: "disabled" },
  });
  expect(json.content.map(({ type }: Json) => type)).toEqual(["text"]);
});

test("an ordered text follows its thinking", async () => {
  const answer = await think({ understudy: { script: "Some text.", reasoning: 4 } });
  expect([answer.content, answer.tokens]).toEqual(["Some text.", 4]);
});

const respond = (fields: object) =>
  call(storing, "/v1/responses", { model: "m", input: "Hello", max_output_tokens: 3, ...fields });
const stored = (id: string) => call(storing, `/v1/responses/${id}`, undefined, "GET");

test("a store keeps a limited number of responses and drops the oldest", async () => {
  const ids: string[] = [];
  for (let i = 0; i < 4; i++) ids.push((await respond({})).json.id);
  const statuses = await Promise.all(ids.map(async (id) => (await stored(id)).status));
  expect(statuses).toEqual([404, 200, 200, 200]);
  expect((await respond({ previous_response_id: ids[0] })).status).toBe(404);
  expect((await respond({ previous_response_id: ids[3] })).json.previous_response_id).toBe(ids[3]);
});

test("a background response is queued at once and completes by itself", async () => {
  const { json } = await respond({ background: true, max_output_tokens: 10, ignore_eos: true });
  expect([json.status, json.output]).toEqual(["queued", []]);
  await eventually(async () => (await stored(json.id)).json.status === "incomplete");
  const done = (await stored(json.id)).json;
  expect([done.usage.output_tokens, done.output[0].type]).toEqual([10, "message"]);
  expect((await call(storing, `/v1/responses/${json.id}/cancel`)).status).toBe(400);
});

test("a background response can be cancelled, which frees its place in the engine", async () => {
  const { json } = await respond({ background: true, max_output_tokens: 3000, ignore_eos: true });
  const cancelled = await call(storing, `/v1/responses/${json.id}/cancel`);
  expect([cancelled.status, cancelled.json.status]).toEqual([200, "cancelled"]);
  const running = async () =>
    /^vllm:num_requests_running\{[^}]*\} (\S+)$/m.exec(await (await fetch(`${storing.url}/metrics`)).text())?.[1];
  await eventually(async () => (await running()) === "0.0");
  expect((await stored(json.id)).json.status).toBe("cancelled");
  expect((await call(storing, `/v1/responses/${json.id}/cancel`)).status).toBe(400);
});

test("events of a background response can be read from any number on, while more arrive", async () => {
  const first = await fetch(`${storing.url}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "m",
      input: "Hello",
      background: true,
      stream: true,
      max_output_tokens: 8,
      ignore_eos: true,
    }),
  });
  const reader = first.body!.getReader();
  const { value } = await reader.read();
  const id = /"id":"(resp_[0-9a-f]+)"/.exec(new TextDecoder().decode(value))![1]!;
  await reader.cancel();
  const numbers = async (query: string) => {
    const text = await (await fetch(`${storing.url}/v1/responses/${id}?stream=true${query}`)).text();
    return Array.from(text.matchAll(/"sequence_number":(\d+)/g), ([, number]) => Number(number));
  };
  const all = await numbers("");
  expect(all).toEqual(all.map((_, i) => i));
  expect(all.length).toBe(4 + 8 + 4);
  expect(await numbers("&starting_after=9")).toEqual(all.slice(10));
});

const picture = (data: string) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } });
const promptTokens = async (content: Json) =>
  (await call(seeing, "/v1/chat/completions", { messages: [{ role: "user", content }], max_tokens: 1 })).json.usage;

test("--image-tokens: an image costs this many tokens in chat, messages and responses, and is cached", async () => {
  const text = { type: "text", text: "Hello" };
  const plain = (await promptTokens([text])).prompt_tokens;
  expect((await promptTokens([text, picture("AAAA")])).prompt_tokens).toBe(plain + 100);
  expect((await promptTokens([picture("AAAA"), text, picture("BBBB")])).prompt_tokens).toBe(plain + 200);
  expect((await promptTokens([text, picture("AAAA")])).prompt_tokens_details.cached_tokens).toBeGreaterThan(90);
  expect((await promptTokens([text, picture("CCCC")])).prompt_tokens_details.cached_tokens).toBe(0);
  const source = { type: "base64", media_type: "image/png", data: "AAAA" };
  const asked = { model: "m", messages: [{ role: "user", content: [text, { type: "image", source }] }] };
  expect((await call(seeing, "/v1/messages/count_tokens", asked)).json.input_tokens).toBe(plain + 100);
  const parts = [
    { type: "input_text", text: "Hello" },
    { type: "input_image", image_url: "data:image/png;base64,AAAA" },
  ];
  const response = await call(seeing, "/v1/responses", {
    input: [{ role: "user", content: parts }],
    max_output_tokens: 1,
  });
  expect(response.json.usage.input_tokens).toBe(plain + 100);
  const tokens = await call(seeing, "/tokenize", { messages: [{ role: "user", content: [text, picture("AAAA")] }] });
  expect(tokens.json.count).toBe(plain + 100);
  const sound = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
  expect((await call(seeing, "/v1/chat/completions", { messages: [{ role: "user", content: [sound] }] })).status).toBe(
    400,
  );
});
