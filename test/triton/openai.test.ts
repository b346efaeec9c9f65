/** Tests Triton's OpenAI front end: routes, errors, defaults, streams and refusals. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "../../src/embed/bun.ts";
import { hostTriton, type TritonHosted } from "./child.ts";

const own = mkdtempSync(join(tmpdir(), "triton-openai-"));
const shipped = new URL("../../src/servers/triton/shipped", import.meta.url).pathname;
let child: TritonHosted;
beforeAll(async () => {
  const version = join(own, "adapted", "1");
  mkdirSync(version, { recursive: true });
  writeFileSync(join(own, "adapted", "config.pbtxt"), 'backend: "vllm"');
  writeFileSync(join(version, "model.json"), '{"enable_lora": "true"}');
  writeFileSync(join(version, "multi_lora.json"), '{"sql": "/adapters/sql"}');
  child = await hostTriton([
    ...["--openai", "--openai-port=0", "--seed=7", "--lora-separator=+", "--embedding-dimensions=3"],
    ...["--http-max-input-size=20000", `--model-repository=${shipped}`, `--model-repository=${own}`],
  ]);
});
afterAll(async () => {
  await child.stop(0);
  rmSync(own, { recursive: true });
});

const get = (path: string, method = "GET") => fetch(`${child.openai}${path}`, { method });
const post = (path: string, body: object) =>
  fetch(`${child.openai}/v1/${path}`, { method: "POST", body: JSON.stringify(body) });
const refused = async (path: string, body: object): Promise<unknown> => {
  const answer = await post(path, body);
  return [answer.status, ((await answer.json()) as { detail: unknown }).detail];
};
const MESSAGES = [{ role: "user", content: "Hi" }];

interface Chunk {
  readonly choices: readonly { readonly delta: object; readonly text: string; readonly finish_reason: string | null }[];
  readonly usage: object | null;
}
async function stream(path: string, body: object): Promise<{ chunks: Chunk[]; end: string | undefined }> {
  const events = (await (await post(path, { ...body, stream: true })).text()).trim().split("\n\n");
  const end = events.pop();
  return { chunks: events.map((event) => JSON.parse(event.slice("data: ".length))), end };
}

test("KServe's ports are closed without their flags, and metrics are on this port", async () => {
  expect([child.url, child.grpc, child.metrics]).toEqual([child.openai, 0, ""]);
  expect((await get("/v2")).status).toBe(404);
  const metrics = await (await get("/metrics")).text();
  expect(metrics).toContain('nv_inference_request_success{model="ensemble",version="1"}');
});

test("ready is an empty 200, models are Triton's, unknown paths and methods get FastAPI's 404 and 405", async () => {
  const ready = await get("/health/ready");
  expect([ready.status, await ready.text(), ready.headers.get("server")]).toEqual([200, "", "uvicorn"]);
  const { data } = (await (await get("/v1/models")).json()) as { data: readonly { id: string }[] };
  const created = expect.any(Number);
  expect(data.map(({ id }) => id)).toEqual(
    expect.arrayContaining(["ensemble", "vllm_model", "adapted", "adapted+sql"]),
  );
  expect(await (await get("/v1/models/ensemble")).json()).toEqual({
    ...{ id: "ensemble", created, object: "model", owned_by: "Triton Inference Server" },
  });
  const unknown = await get("/v1/models/nope");
  expect([unknown.status, await unknown.json()]).toEqual([404, { detail: "Unknown model: nope" }]);
  for (const path of ["/health", "/version", "/ping"]) expect((await get(path)).status).toBe(404);
  const wrong = await get("/v1/chat/completions");
  expect([wrong.status, await wrong.json()]).toEqual([405, { detail: "Method Not Allowed" }]);
});

test("client errors are 400, schema errors 422, server errors 500, oversized bodies 413", async () => {
  expect(await refused("completions", { model: "x", prompt: "Hi" })).toEqual([400, "Unknown model: x"]);
  expect(await refused("completions", { model: "add_sub", prompt: "Hi" })).toEqual([
    500,
    expect.stringContaining("add_sub"),
  ]);
  expect(await refused("chat/completions", { model: "ensemble", messages: [], foo: 1, temperature: 3 })).toEqual([
    422,
    [
      expect.objectContaining({ type: "too_short", loc: ["body", "messages"] }),
      {
        ...{ type: "less_than_equal", loc: ["body", "temperature"], input: 3, ctx: { le: 2 } },
        msg: "Input should be less than or equal to 2",
      },
      { type: "extra_forbidden", loc: ["body", "foo"], msg: "Extra inputs are not permitted", input: 1 },
    ],
  ]);
  const large = await post("completions", { model: "ensemble", prompt: "x".repeat(30_000) });
  const message =
    "Request content size exceeds the maximum allowed input size of 20000 bytes. Use --http-max-input-size to increase the limit.";
  expect([large.status, await large.json()]).toEqual([
    413,
    { error: { message, type: "invalid_request_error", code: "content_too_large" } },
  ]);
});

test("the default is 16 tokens; a chat has a completion's id, no fingerprint, and always ends with stop", async () => {
  const answer = await (
    await post("chat/completions", { model: "vllm_model", messages: MESSAGES, ignore_eos: true })
  ).json();
  const message = { content: expect.any(String), tool_calls: null, role: "assistant", function_call: null };
  expect(answer).toEqual({
    id: expect.stringMatching(/^cmpl-[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/),
    choices: [{ finish_reason: "stop", index: 0, message, logprobs: null }],
    ...{ created: expect.any(Number), model: "vllm_model", system_fingerprint: null, object: "chat.completion" },
    usage: { completion_tokens: 16, prompt_tokens: expect.any(Number), total_tokens: expect.any(Number) },
  });
  const other = await (await post("completions", { model: "ensemble", prompt: "Hi", max_tokens: 2 })).json();
  expect(other).toMatchObject({ object: "text_completion", usage: null, choices: [{ finish_reason: "stop" }] });
});

test("a stream begins with the role, has the fields that were set, and ends with usage (if asked for) and [DONE]", async () => {
  const asked = { model: "vllm_model", messages: MESSAGES, max_tokens: 3, ignore_eos: true };
  const { chunks, end } = await stream("chat/completions", { ...asked, stream_options: { include_usage: true } });
  expect(end).toBe("data: [DONE]");
  expect(chunks[0]!.choices).toEqual([
    { delta: { content: "", function_call: null, role: "assistant" }, logprobs: null, finish_reason: null, index: 0 },
  ] as never);
  expect(Object.keys(chunks[1]!.choices[0]!.delta)).toEqual(["content", "function_call", "role"]);
  expect(chunks.slice(1, -1).map(({ choices }) => choices[0]!.finish_reason)).toEqual([null, null, "stop"]);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
  const plain = await stream("completions", { model: "tensorrt_llm_bls", prompt: "Hi", max_tokens: 2 });
  expect(plain.chunks.map(({ choices }) => choices[0]!.finish_reason)).toEqual([null, null, "stop"]);
});

test.each([
  [{ n: 2 }, "Received n=2, but only single choice (n=1) is currently supported"],
  [{ logit_bias: { 1: 5 } }, "logit bias is not currently supported"],
  [{ logprobs: true }, "logprobs are currently available only for the vLLM backend"],
  [{ model: "vllm_model", top_logprobs: 2 }, "`top_logprobs` can only be used when `logprobs` is True"],
  [
    { tools: [{ type: "function", function: { name: "f" } }] },
    "having tools in the request requires --tool-call-parser to be set",
  ],
  [{ tool_choice: "auto" }, '"auto" tool choice requires --tool-call-parser to be set'],
  [{ tool_choice: "required" }, '"required" tool choice requires CreateChatCompletionRequest.tools to be provided'],
  [{ stream_options: { include_usage: true } }, "`stream_options` can only be used when `stream` is True"],
  [{ model: "adapted+nope" }, "Unknown LoRA: nope; for model: adapted+nope"],
])("%p of a chat is refused", async (more, why) => {
  expect(await refused("chat/completions", { model: "ensemble", messages: MESSAGES, ...more })).toEqual([400, why]);
});

test.each([
  [{ suffix: "x" }, "suffix is not currently supported"],
  [{ prompt: "" }, "prompt must be non-empty"],
  [{ prompt: ["a", "b"] }, "only single string input is supported"],
  [{ best_of: 2 }, "Received best_of=2, but only single choice (best_of=1) is currently supported"],
  [{ logit_bias: {} }, "logit bias is not supported"],
  [{ logprobs: 1 }, "logprobs are currently available only for the vLLM backend"],
])("%p of a completion is refused", async (more, why) => {
  expect(await refused("completions", { model: "ensemble", prompt: "Hi", ...more })).toEqual([400, why]);
});

test("features of vLLM's backend: log probabilities, an adapter by name, a function's arguments, embeddings", async () => {
  const asked = { model: "vllm_model", prompt: "Hello", seed: 5, max_tokens: 2 };
  const shown = (await (await post("completions", { ...asked, logprobs: 1 })).json()) as {
    readonly choices: readonly { readonly text: string; readonly logprobs: { readonly tokens: readonly string[] } }[];
  };
  expect(shown.choices[0]!.logprobs.tokens.join("")).toBe(shown.choices[0]!.text);
  expect((await post("completions", { ...asked, model: "adapted+sql" })).status).toBe(200);
  const parameters = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const tools = [{ type: "function", function: { name: "f", parameters } }];
  const called = (await (
    await post("chat/completions", {
      model: "ensemble",
      messages: MESSAGES,
      tools,
      tool_choice: "required",
      max_tokens: 99,
    })
  ).json()) as {
    choices: { message: { content: string; tool_calls: { function: { name: string; arguments: string } }[] } }[];
  };
  const { content, tool_calls: calls } = called.choices[0]!.message;
  expect([content, calls[0]!.function.name]).toEqual(["", "f"]);
  expect(JSON.parse(calls[0]!.function.arguments)).toEqual({ a: expect.any(Number) });
  expect(await (await post("embeddings", { model: "vllm_model", input: "Hi" })).json()).toMatchObject({
    data: [{ embedding: expect.any(Array), index: 0, object: "embedding" }],
    usage: { prompt_tokens: 1, completion_tokens: 0 },
  });
});

test("models can be loaded by request only with explicit control", async () => {
  const load = await get("/v1/models/ensemble/load", "POST");
  expect([load.status, await load.json()]).toEqual([
    400,
    { detail: "explicit model load / unload is not allowed if polling is enabled" },
  ]);
});

test("every model gives the same text as vLLM's own route for the same prompt and seed", async () => {
  await using vllm = createServer({ seed: 7, timing: "none" });
  await vllm.ready;
  const asked = { prompt: "The river", seed: 42, max_tokens: 12 };
  const answer = await fetch(`${vllm.url}/v1/completions`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify(asked),
  });
  const text = ((await answer.json()) as { choices: readonly { text: string }[] }).choices[0]!.text;
  for (const model of ["vllm_model", "ensemble", "tensorrt_llm_bls", "llmapi"]) {
    const { choices } = (await (await post("completions", { ...asked, model })).json()) as {
      choices: { text: string }[];
    };
    expect(choices[0]!.text).toBe(text);
  }
});
