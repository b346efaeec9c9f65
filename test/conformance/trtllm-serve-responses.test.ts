/** Tests `/v1/responses` of the role trtllm-serve where it differs from vLLM's server. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";

setDefaultTimeout(20_000);

async function start(line: string): Promise<RenewableApp> {
  const flags = `--role trtllm-serve --port 0 --max-seq-len 2048 ${line}`.split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createRenewableApp(resolved.config, { log: () => {}, epochSeconds: () => 1_700_000_000 });
}

let app: RenewableApp;
beforeAll(async () => {
  app = await start("--max-num-tokens 512 --timing none");
});
afterAll(() => app.close(0));

/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;
const send = (body: object) =>
  fetch(`${app.url}/v1/responses`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
const respond = (more: object) => send({ model: "m", input: "Hello", max_output_tokens: 4, ...more });
const answered = async (asked: Promise<Response>): Promise<[number, Json]> => {
  const response = await asked;
  return [response.status, await response.json()];
};
const flat = (message: string, type = "BadRequestError", code = 400): [number, Json] => [
  code,
  { object: "error", message, type, param: null, code },
];
const INVALID = (id: string) =>
  flat(`Invalid 'response_id': '${id}'. Expected an ID that begins with 'resp'.`, "InvalidRequestError");

test("a response has the real server's members in their order, with the request's values", async () => {
  const text = await (await respond({ model: "any", background: true, user: "u" })).text();
  const { id, output, usage } = JSON.parse(text);
  expect(id).toMatch(/^resp_[0-9a-f]{32}$/);
  const input = usage.input_tokens;
  expect(text).toBe(
    `{"id":"${id}","created_at":1700000000,"instructions":null,"metadata":null` +
      ',"model":"meta-llama/Llama-3.1-8B-Instruct","object":"response"' +
      `,"output":${JSON.stringify(output)},"parallel_tool_calls":false,"temperature":1.0,"tool_choice":"auto","tools":[]` +
      ',"top_p":1.0,"background":true,"max_output_tokens":4,"max_tool_calls":null,"previous_response_id":null' +
      ',"prompt":null,"reasoning":null,"service_tier":"auto","status":"incomplete","text":null,"top_logprobs":0' +
      `,"truncation":"disabled","usage":{"input_tokens":${input},"input_tokens_details":{"cached_tokens":0` +
      `,"cache_write_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":${input + 4}}` +
      ',"user":"u"}',
  );
  const kept = await fetch(`${app.url}/v1/responses/${id}`);
  expect(await kept.text()).toBe(text);
});

test("the events of a stream have that body, and a background request is answered the same way", async () => {
  const text = await (await respond({ stream: true, background: true })).text();
  const bodies = text
    .split("\n\n")
    .flatMap((event) => (event.startsWith("event: response.") ? [JSON.parse(event.split("\ndata: ")[1]!)] : []))
    .filter(({ response }) => response);
  expect(bodies.map(({ response }) => response.status)).toEqual(["in_progress", "in_progress", "incomplete"]);
  for (const { response } of bodies) {
    expect(response).not.toHaveProperty("kv_transfer_params");
    expect(response.background).toBe(true);
  }
});

test.each([
  [{ temperature: -1 }, "require temperature >= 0, got temperature=-1.0"],
  [{ top_p: 2 }, "require 0 <= top_p <= 1, got top_p=2.0"],
  [{ max_output_tokens: 0 }, "[TensorRT-LLM][ERROR] Assertion failed: mMaxNewTokens > 0"],
])("%j is refused flat, in the LLM API's words", async (more, message) => {
  expect(await answered(respond(more))).toEqual(flat(message));
  expect(await answered(respond({ ...more, stream: true }))).toEqual(flat(message));
});

test("numbers that JSON does not have are never repeated", async () => {
  const textOf = async (member: string) => {
    const response = await fetch(`${app.url}/v1/responses`, {
      method: "POST",
      body: `{"model":"m","input":"a","max_output_tokens":2,${member}}`,
      headers: { "content-type": "application/json" },
    });
    return [response.status, await response.text()];
  };
  for (const member of ['"temperature":Infinity', '"temperature":NaN', '"top_p":NaN', '"temperature":1e999'])
    expect(await textOf(member)).toEqual([500, "Internal Server Error"]);
  expect(await textOf('"top_p":Infinity')).toEqual([
    400,
    JSON.stringify(flat("require 0 <= top_p <= 1, got top_p=inf")[1]),
  ]);
});

test("a prompt that is too long gets a flat error", async () => {
  const [status, body] = await answered(respond({ input: "word ".repeat(900) }));
  expect([status, body]).toEqual(flat(body.message));
  expect(body.message).toMatch(/^The sum of prompt length \(\d+\.0\), query length \(0\) should not exceed /);
});

test("max tokens above the context are cut silently and echoed unchanged", async () => {
  const [status, body] = await answered(respond({ max_output_tokens: 5_000_000, temperature: 7 }));
  expect([status, body.max_output_tokens, body.temperature]).toEqual([200, 5_000_000, 7]);
  const [, without] = await answered(respond({ max_output_tokens: null }));
  expect(without.max_output_tokens).toBeNull();
});

test("unknown response ids are refused", async () => {
  for (const method of ["GET", "DELETE"]) {
    const of = (id: string) => answered(fetch(`${app.url}/v1/responses/${id}`, { method }));
    for (const id of ["abc", "response"]) expect(await of(id)).toEqual(INVALID(id));
    expect(await of("resp_1")).toEqual(flat("Response with id 'resp_1' not found.", "InvalidRequestError", 404));
  }
  expect(await answered(respond({ previous_response_id: "zz" }))).toEqual(INVALID("zz"));
  expect(await answered(respond({ previous_response_id: "resp_1" }))).toEqual(
    flat("Response with id 'resp_1' not found.", "InvalidRequestError", 404),
  );
});

test("a response continues an earlier one", async () => {
  const [, { id, usage }] = await answered(respond({}));
  const [status, next] = await answered(respond({ previous_response_id: id }));
  expect([status, next.previous_response_id]).toEqual([200, id]);
  expect(next.usage.input_tokens).toBeGreaterThan(usage.input_tokens);
});

test.each([
  [{ prompt: { id: "p" } }, "prompt template is not supported"],
  [{ background: true, store: false }, "background can only be used when `store` is true"],
])("validators of the whole body refuse %j", async (more, message) => {
  const [status, { error }] = await answered(respond(more));
  expect(status).toBe(400);
  expect(error).toStartWith(`[{'type': 'value_error', 'loc': ('body',), 'msg': 'Value error, ${message}', 'input': {`);
});

test("missing fields and wrong types get the schema's error, unknown fields are ignored, and null means absent", async () => {
  expect(await answered(send({ input: "a" }))).toEqual([
    400,
    { error: "[{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': {'input': 'a'}}]" },
  ]);
  const [status, { error }] = await answered(respond({ max_output_tokens: "x" }));
  expect([status, error]).toEqual([
    400,
    expect.stringMatching(/^\[\{'type': 'int_parsing', 'loc': \('body', 'max_output_tokens'\)/),
  ]);
  const more = { kv_transfer_params: 5, client_metadata: {}, top_k: "no", background: null, truncation: null };
  expect((await respond(more)).status).toBe(200);
});

test("tools are accepted without a parser, and the tool choice is not checked", async () => {
  const tools = [{ type: "function", name: "weather", parameters: { type: "object", properties: {} }, strict: false }];
  for (const more of [
    { tools },
    { tools, tool_choice: { type: "function", name: "weather" } },
    { tool_choice: "auto" },
  ]) {
    const [status, { output }] = await answered(respond(more));
    expect([status, output.map(({ type }: Json) => type)]).toEqual([200, ["message"]]);
  }
});

test.each([
  ["", 2],
  [" --fix responses-counted", 4],
])("requests to /v1/responses count nowhere, as in the product%s", async (fix, requests) => {
  const flags = "--timing none --return-perf-metrics --perf-metrics-max-requests 9 --enable-iter-perf-stats";
  const counting = await start(flags + fix);
  const post = async (path: string, more: object) => {
    const body = JSON.stringify({ model: "m", ...more });
    const headers = { "content-type": "application/json" };
    const response = await fetch(counting.url + path, { method: "POST", body, headers });
    expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
  };
  const rowsOf = async (path: string) => (await (await fetch(counting.url + path)).json()) as Json[];
  await post("/v1/completions", { prompt: "One", max_tokens: 4 });
  for (const stream of [false, true]) await post("/v1/responses", { input: "Two", max_output_tokens: 4, stream });
  await post("/v1/chat/completions", { messages: [{ role: "user", content: "Three" }], max_tokens: 4 });
  expect((await rowsOf("/perf_metrics")).length).toBe(requests);
  const text = await (await fetch(`${counting.url}/prometheus/metrics`)).text();
  const sumOf = (name: string) =>
    [...text.matchAll(new RegExp(`^trtllm_${name}\\{[^}]*\\} (\\S+)$`, "gm"))].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  expect([sumOf("request_success_total"), sumOf("e2e_request_latency_seconds_count")]).toEqual([requests, requests]);
  // Iterations count, whichever route caused them.
  expect((await rowsOf("/metrics")).length + sumOf("num_requests_completed_total")).toBeGreaterThan(0);
  await counting.close(0);
});
