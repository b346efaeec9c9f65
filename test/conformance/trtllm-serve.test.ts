/** Tests `serve --role trtllm-serve` where TensorRT-LLM's server differs from vLLM's: one test per route and difference. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(20_000);

let seconds = 1_700_000_000;

async function start(line: string): Promise<RenewableApp> {
  const flags = `--role trtllm-serve --port 0 --max-seq-len 2048 ${line}`.split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createRenewableApp(resolved.config, { log: () => {}, epochSeconds: () => seconds });
}

let app: RenewableApp;
beforeAll(async () => {
  app = await start("--timing none --max-num-tokens 512 --tool-call-parser hermes --reasoning-parser deepseek_r1");
});
afterAll(() => app.close(0));

const get = (path: string) => fetch(app.url + path);
const post = (path: string, body: object, more: RequestInit = {}) =>
  fetch(app.url + path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
    ...more,
  });
const MESSAGES = [{ role: "user", content: "Say something." }];
const chat = (more: object = {}) =>
  post("/v1/chat/completions", { model: "m", messages: MESSAGES, max_tokens: 4, ...more });
const complete = (more: object = {}) => post("/v1/completions", { model: "m", prompt: "Once", max_tokens: 4, ...more });
/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;
const json = async (response: Promise<Response>): Promise<Json> => (await response).json();
/** Returns the events of a stream, each with its end. */
const events = async (response: Promise<Response>) => (await (await response).text()).split(/(?<=\n\n)/);
const chunk = (event: string) => JSON.parse(event.slice("data: ".length));

test("/health answers 200 without a body, and 503 with a text after the engine has died", async () => {
  const healthy = await get("/health");
  expect([healthy.status, await healthy.text(), healthy.headers.get("content-type")]).toEqual([200, "", null]);
  const dying = await start("--timing none");
  dying.kernel.backend.die!();
  await eventually(async () => (await fetch(`${dying.url}/health`)).status === 503);
  const text = await (await fetch(`${dying.url}/health`)).text();
  expect(text).toBe("LLM is unavailable. Please check the server logs for more details.");
  const generated = await fetch(`${dying.url}/health_generate`);
  expect([generated.status, await generated.text()]).toEqual([500, "Generation health check failed"]);
  await dying.close(0);
});

test("/health_generate runs a chat of one token", async () => {
  const before = app.snapshot().engines[0]!.generationTokens;
  const response = await get("/health_generate");
  expect([response.status, await response.text()]).toEqual([200, "Generation health check OK"]);
  expect(app.snapshot().engines[0]!.generationTokens).toBe(before + 1);
});

test("/version and /server_info answer", async () => {
  expect(await json(get("/version"))).toEqual({ version: expect.stringMatching(/^1\.\d+\.\d+$/) });
  expect(await json(get("/server_info"))).toEqual({ disaggregated_params: {} });
});

test("/v1/models: one card without vLLM's members, created anew at each call", async () => {
  const list = await (await get("/v1/models")).text();
  expect(list).toBe(
    `{"object":"list","data":[{"id":"meta-llama/Llama-3.1-8B-Instruct","object":"model","created":${seconds},"owned_by":"tensorrt_llm"}]}`,
  );
  seconds++;
  expect((await json(get("/v1/models"))).data[0].created).toBe(seconds);
});

test("routes of vLLM are missing, and those of every FastAPI application exist", async () => {
  for (const path of [
    "/ping",
    "/load",
    "/tokenize",
    "/detokenize",
    "/v1/models/m",
    "/v1/messages",
    "/v1/embeddings",
    "/_internal/tokenize",
    "/metrics/vllm",
  ])
    expect([path, (await get(path)).status]).toEqual([path, 404]);
  expect((await get("/kv_cache_events")).status).toBe(405);
  expect(await json(get("/nowhere"))).toEqual({ detail: "Not Found" });
  const { paths } = await json(get("/openapi.json"));
  expect(Object.keys(paths)).toContain("/v1/kv_cache_hints");
  expect((await get("/docs")).status).toBe(200);
});

test("without return_perf_metrics there is no /prometheus/metrics, and nothing to drain", async () => {
  expect((await get("/prometheus/metrics")).status).toBe(404);
  for (const [path, method] of [
    ["/metrics", "GET"],
    ["/perf_metrics", "GET"],
    ["/kv_cache_events", "POST"],
  ] as const)
    expect(await json(fetch(app.url + path, { method }))).toEqual([]);
});

test("any model is accepted and echoed back", async () => {
  expect((await json(chat({ model: "anything" }))).model).toBe("anything");
  expect(chunk((await events(complete({ model: "else", stream: true })))[0]!).model).toBe("else");
});

test("an error of the arguments is flat; a prompt beyond an iteration prints its length as a float", async () => {
  const response = await complete({ prompt: Array.from({ length: 600 }, () => 5) });
  expect(response.status).toBe(400);
  expect(await response.text()).toBe(
    '{"object":"error","message":"The sum of prompt length (600.0), query length (0) should not exceed max_num_tokens (512)","type":"BadRequestError","param":null,"code":400}',
  );
  const refused = await chat({ lora_request: { lora_name: "a", lora_int_id: 1 } });
  expect(await refused.json()).toMatchObject({ object: "error", type: "BadRequestError", param: null, code: 400 });
});

test("a body that does not fit the schema gets the text of Python's list of errors", async () => {
  const error = async (asked: Promise<Response>) => {
    const response = await asked;
    return [response.status, ((await response.json()) as Json).error];
  };
  const extra =
    "[{'type': 'extra_forbidden', 'loc': ('body', 'enable_thinking'), 'msg': 'Extra inputs are not permitted', 'input': False}]";
  expect(await error(chat({ enable_thinking: false }))).toEqual([400, extra]);
  const missing = "[{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': {'prompt': 'a'}}]";
  expect(await error(post("/v1/completions", { prompt: "a" }))).toEqual([400, missing]);
  expect(await error(complete({ max_tokens: "x" }))).toEqual([
    400,
    expect.stringMatching(/^\[\{'type': 'int_parsing', 'loc': \('body', 'max_tokens'\)/),
  ]);
  expect(await error(complete({ suffix: "end" }))).toEqual([
    400,
    expect.stringContaining("'loc': ('body',), 'msg': 'Value error, suffix is not supported'"),
  ]);
  expect(await error(complete({ priority: 2 }))).toEqual([400, expect.stringContaining("less than or equal to 1")]);
});

test("stream_options without a stream are refused, in a chat even null members of it count", async () => {
  for (const [response, message] of [
    [chat({ stream_options: {} }), "stream_options can only be set if stream is true"],
    [complete({ stream_options: { include_usage: true } }), "Stream options can only be defined when stream is true."],
  ] as const)
    expect((await json(response)).error).toContain(message);
});

test("without max_tokens an answer continues to max_seq_len, and larger limits are cut silently", async () => {
  for (const more of [{ max_tokens: null }, { max_tokens: 99_999 }]) {
    const { usage, choices } = await json(complete({ ...more, ignore_eos: true }));
    expect([usage.total_tokens, choices[0].finish_reason]).toEqual([2048, "length"]);
  }
});

test("a whole chat has every member in order, including nulls", async () => {
  seconds = 1_700_000_500;
  const text = await (await chat({ n: 2 })).text();
  const { choices, id } = JSON.parse(text);
  const usage =
    /"usage":\{"prompt_tokens":(\d+),"total_tokens":(\d+),"completion_tokens":8,"prompt_tokens_details":\{"cached_tokens":\d+\}\}/;
  expect(text).toMatch(usage);
  expect(id).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
  const choice = ({ index, message }: { index: number; message: { content: string; reasoning_content: string } }) =>
    `{"index":${index},"message":{"role":"assistant","content":${JSON.stringify(message.content)},"reasoning_content":${JSON.stringify(message.reasoning_content)}` +
    `,"reasoning":null,"tool_calls":[]},"logprobs":null,"finish_reason":"length","stop_reason":null,"mm_embedding_handle":null,"disaggregated_params":null,"avg_decoded_tokens_per_iter":1.0}`;
  expect(text.replace(usage, '"usage":0')).toBe(
    `{"id":"${id}","object":"chat.completion","created":${seconds},"model":"m","choices":[${choices.map(choice)}],"usage":0,"prompt_token_ids":null,"prompt_token_ids_b64":null}`,
  );
});

test("a completion in one piece, of several prompts: index = prompt × n + choice", async () => {
  const text = await (await complete({ prompt: ["a", "b"], n: 2, echo: true })).text();
  const { choices, id } = JSON.parse(text);
  expect(id).toMatch(/^cmpl-[0-9a-f]{32}$/);
  expect(choices.map(({ index, text }: { index: number; text: string }) => [index, text[0]])).toEqual([
    [0, "a"],
    [1, "a"],
    [2, "b"],
    [3, "b"],
  ]);
  expect(Object.keys(choices[0])).toEqual(
    "index text token_ids logprobs context_logits finish_reason stop_reason disaggregated_params avg_decoded_tokens_per_iter".split(
      " ",
    ),
  );
});

test("a chat's stream: a first event per choice with a blank before its end, nulls left out, one id, [DONE]", async () => {
  const all = await events(chat({ stream: true, n: 2, max_tokens: 3 }));
  const { id } = chunk(all[0]!);
  expect(id).toMatch(/^chatcmpl-\d+$/);
  const head = `{"id":"${id}","object":"chat.completion.chunk","created":${seconds},"model":"m","choices":[`;
  expect(all.slice(0, 2)).toEqual(
    [0, 1].map((index) => `data: ${head}{"index":${index},"delta":{"role":"assistant"}}]} \n\n`),
  );
  expect(all.at(-1)).toBe("data: [DONE]\n\n");
  const between = all.slice(2, -1);
  for (const event of between) {
    expect(event).not.toContain("null");
    expect(event).toStartWith(`data: ${head}`);
    expect(event).not.toEndWith(" \n\n");
    expect(Object.keys(chunk(event).choices[0].delta)).toEqual(["content", "reasoning_content"]);
  }
  const ends = between.map(chunk).filter(({ choices }) => choices[0].finish_reason);
  expect(ends.map(({ choices: [choice] }) => [choice.index, choice.finish_reason]).sort()).toEqual([
    [0, "length"],
    [1, "length"],
  ]);
});

test("include_usage is true by default inside stream_options, and the usage follows the last choice", async () => {
  for (const stream_options of [{}, { include_usage: true }]) {
    const all = await events(chat({ stream: true, stream_options }));
    const last = chunk(all.at(-2)!);
    expect(last.choices).toEqual([]);
    expect(JSON.stringify(last.usage)).toMatch(
      /^\{"prompt_tokens":\d+,"total_tokens":\d+,"completion_tokens":4,"prompt_tokens_details":\{"cached_tokens":\d+\}\}$/,
    );
    expect(all.slice(0, -2).join("")).not.toContain("usage");
  }
  const without = await events(chat({ stream: true, stream_options: { include_usage: false } }));
  expect(without.join("")).not.toContain("usage");
  const all = await events(complete({ stream: true, stream_options: { continuous_usage_stats: true } }));
  expect(all.slice(0, 4).map((event) => chunk(event).usage.completion_tokens)).toEqual([1, 2, 3, 4]);
});

test("a completion's stream prints nulls, and the index identifies the prompt", async () => {
  const all = await events(complete({ stream: true, prompt: ["a", "b"], max_tokens: 2 }));
  const { id } = chunk(all[0]!);
  expect(id).toMatch(/^cmpl-\d+$/);
  const texts = all.slice(0, -1).map(chunk);
  expect(new Set(texts.map(({ choices: [choice] }) => choice.index))).toEqual(new Set([0, 1]));
  expect(all[0]).toMatch(
    /"text":"[^"]*","token_ids":null,"logprobs":null,"finish_reason":null,"stop_reason":null,"avg_decoded_tokens_per_iter":1.0\}\],"usage":null\}\n\n$/,
  );
});

test("finish reasons: stop with its string, tool_calls with a parsed call, reasoning by its own member", async () => {
  const [thought] = (await json(chat({ max_tokens: 900 }))).choices;
  expect(thought.message.reasoning_content.length).toBeGreaterThan(0);
  const [stopped] = (await json(complete({ max_tokens: 500, stop: ["a", "e", "i"] }))).choices;
  expect([stopped.finish_reason, ["a", "e", "i"].includes(stopped.stop_reason)]).toEqual(["stop", true]);
  const parameters = { type: "object", properties: { city: { enum: ["Bern"] } }, required: ["city"] };
  const tools = [{ type: "function", function: { name: "weather", parameters } }];
  const asked = { tools, tool_choice: "required", max_tokens: 400 };
  const [called] = (await json(chat(asked))).choices;
  expect(called.finish_reason).toBe("tool_calls");
  expect(called.message.tool_calls[0].function).toEqual({
    name: "weather",
    arguments: expect.stringContaining("Bern"),
  });
  const streamed = (await events(chat({ ...asked, stream: true }))).slice(0, -1).map(chunk);
  expect(streamed.at(-1).choices[0].finish_reason).toBe("tool_calls");
  expect(streamed.some(({ choices: [choice] }) => choice.delta.tool_calls)).toBe(true);
});

test("log probabilities of chats and completions", async () => {
  const plain = await start("--timing none");
  const body = JSON.stringify({ model: "m", messages: MESSAGES, max_tokens: 3, logprobs: true, top_logprobs: 2 });
  const headers = { "content-type": "application/json" };
  const answer: Json = await json(fetch(`${plain.url}/v1/chat/completions`, { method: "POST", body, headers }));
  await plain.close(0);
  const { content } = answer.choices[0].logprobs;
  expect(content.map((entry: Json) => entry.top_logprobs.length)).toEqual([2, 2, 2]);
  const [other] = (await json(complete({ logprobs: 1 }))).choices;
  expect(other.logprobs.tokens).toHaveLength(4);
});

test("fields of TensorRT-LLM that vLLM lacks are accepted", async () => {
  const both = {
    ...{
      top_k: 0,
      min_p: 0,
      top_p_min: 0,
      use_beam_search: false,
      best_of: 1,
      length_penalty: 1,
      early_stopping: "never",
    },
    ...{
      ignore_eos: true,
      min_tokens: 1,
      stop_token_ids: [],
      prompt_ignore_length: 0,
      lora_request: null,
      priority: 0.7,
    },
    ...{ disaggregated_params: null, conversation_params: { conversation_id: "c" }, add_special_tokens: false },
  };
  expect((await complete({ ...both, detokenize: true, return_context_logits: false })).status).toBe(200);
  const inChat = { prompt_token_ids: null, cache_salt: "s", agent_hierarchy: null, thinking: { type: "disabled" } };
  expect((await chat({ ...both, ...inChat, max_completion_tokens: 2 })).status).toBe(200);
  const formats = [
    [{ type: "regex", regex: "[ab]{3}" }, /^[ab]{3}$/],
    [{ type: "json", schema: { type: "object", properties: { a: { const: 1 } }, required: ["a"] } }, /"a": ?1/],
  ] as const;
  for (const [response_format, fits] of formats)
    expect((await json(complete({ response_format, max_tokens: 300 }))).choices[0].text).toMatch(fits);
  expect(await json(complete({ response_format: { type: "ebnf" } }))).toMatchObject({ object: "error", code: 400 });
});

test("without detokenize the answer has ids instead of text", async () => {
  const [choice] = (await json(complete({ detokenize: false }))).choices;
  expect([choice.text, choice.token_ids.length]).toEqual(["", 4]);
  const [first] = await events(complete({ detokenize: false, stream: true }));
  expect(chunk(first!).choices[0]).toMatchObject({ text: "", token_ids: [expect.any(Number)] });
});

test("answers have no CORS header and no request id", async () => {
  const { headers } = await chat();
  expect([...headers.keys()].sort()).toEqual(["content-length", "content-type", "date", "server"]);
  const { headers: streamed } = await chat({ stream: true });
  expect([streamed.get("content-type"), streamed.get("vary")]).toEqual(["text/event-stream; charset=utf-8", null]);
});

test("/v1/responses: responses can be created, read and deleted, and unknown ids are refused", async () => {
  const made = await json(post("/v1/responses", { model: "m", input: "Hello", max_output_tokens: 4 }));
  expect(made.object).toBe("response");
  const path = `/v1/responses/${made.id}`;
  expect((await json(get(path))).id).toBe(made.id);
  const remove = (of: string) => fetch(app.url + of, { method: "DELETE" });
  expect(await json(remove(path))).toEqual({ id: made.id, object: "response", deleted: true });
  const gone = await remove(path);
  expect([gone.status, await gone.json()]).toEqual([
    404,
    {
      object: "error",
      message: `Response with id '${made.id}' not found.`,
      type: "InvalidRequestError",
      param: null,
      code: 404,
    },
  ]);
  expect((await json(remove("/v1/responses/x"))).message).toBe(
    "Invalid 'response_id': 'x'. Expected an ID that begins with 'resp'.",
  );
});

const GREEDY =
  "Greedy decoding in the LLM API does not allow multiple returns. Please set to best_of=1, got best_of=2. Please set to " +
  "best_of=1 or set an environment variable TLLM_ALLOW_N_GREEDY_DECODING=1 to allow best_of > 1 under the greedy decoding.";

test.each([
  [{ temperature: -1 }, "require temperature >= 0, got temperature=-1.0"],
  [{ top_p: 2 }, "require 0 <= top_p <= 1, got top_p=2.0"],
  [{ top_p: -0.5, temperature: -1 }, "require 0 <= top_p <= 1, got top_p=-0.5"],
  [{ top_k: -1 }, "require top_k >= 0, got top_k=-1"],
  [{ min_p: 1.5 }, "require 0 <= min_p <= 1, got min_p=1.5"],
  [{ n: 3, best_of: 2 }, "best_of (2) cannot be less than n (3)"],
  [{ n: 2, temperature: 0 }, GREEDY],
  [{ best_of: 2, top_k: 1 }, GREEDY],
  [{ max_tokens: 0 }, "[TensorRT-LLM][ERROR] Assertion failed: mMaxNewTokens > 0"],
  [{ n: 0, max_tokens: 0 }, "[TensorRT-LLM][ERROR] Assertion failed: numReturnSequences.value() > 0"],
  [{ repetition_penalty: 0 }, "[TensorRT-LLM][ERROR] Assertion failed: repetitionpenalty.value() > 0.f"],
  [{ min_tokens: -1 }, "[TensorRT-LLM][ERROR] Assertion failed: minTokens.value() >= 0"],
  [{ length_penalty: -0.5 }, "[TensorRT-LLM][ERROR] Assertion failed: lengthPenalty.value() >= 0.f"],
])("sampling parameters %j are refused in the LLM API's words", async (more, message) => {
  for (const asked of [chat, complete]) {
    const answer = await asked(more);
    const body = { object: "error", message, type: "BadRequestError", param: null, code: 400 };
    expect([answer.status, await answer.json()]).toEqual([400, body]);
  }
});

test.each([
  { temperature: 7 },
  { top_p: 0 },
  { top_k: 0 },
  { temperature: null, top_p: null },
  { presence_penalty: 3, frequency_penalty: -9.5 },
  { min_tokens: 9, max_tokens: 3 },
])("sampling parameters %j are accepted", async (more) => {
  for (const asked of [chat, complete]) expect((await asked(more)).status).toBe(200);
});

test("top_k 1 and top_p 0 are greedy: the prompt alone decides", async () => {
  const texts = [];
  for (const more of [{ top_k: 1 }, { top_p: 0 }, { temperature: 0 }])
    texts.push((await json(complete({ ...more, max_tokens: 12 }))).choices[0].text);
  expect(new Set(texts).size).toBe(1);
});
