/** Checks that a server started with the flags of another stand-in behaves like it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample, serve } from "../server.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
beforeAll(async () => {
  const flags =
    "--compat llm-d-inference-sim --host 127.0.0.1 --model m --mode echo --max-num-seqs 1 --max-waiting-queue-length 1";
  const times = "--time-to-first-token 300ms --inter-token-latency 100ms --startup-duration 1ms";
  server = await hosted([...flags.split(" "), ...times.split(" ")]);
});
afterAll(() => server.stop());

const ask = (content: string, max_tokens = 3) =>
  fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content }], max_tokens }),
  });

test("--mode echo answers with the last message, and an order still has priority", async () => {
  const body = (await (await ask("One two")).json()) as { choices: { message: { content: string } }[] };
  expect(body.choices[0]!.message.content).toBe("One two");
  const ordered = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-understudy": '{"script": "Three"}' },
    body: JSON.stringify({ model: "m", prompt: "One two", max_tokens: 9 }),
  });
  expect(((await ordered.json()) as { choices: { text: string }[] }).choices[0]!.text).toBe("Three");
});

test("with one running and one waiting request, the next gets 429", async () => {
  const LONG = "One two three four five six seven eight nine ten";
  const of = (name: string) => sample(server.url, `vllm:num_requests_${name}{`);
  const first = ask(LONG, 20);
  // If the second request arrived before the first runs, it would be the one that waits.
  await eventually(async () => (await of("running")) === 1);
  const open = [first, ask(LONG, 20)];
  await eventually(async () => (await of("waiting")) === 1);
  expect((await ask("Hello")).status).toBe(429);
  expect((await Promise.all(open)).map(({ status }) => status)).toEqual([200, 200]);
});

test("the probes of that stand-in are answered only with --compat", async () => {
  expect((await fetch(`${server.url}/health/ready`)).status).toBe(200);
  expect((await fetch(`${server.url}/health/ready`, { method: "POST" })).status).toBe(405);
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as { paths: object };
  expect(Object.keys(document.paths)).toContain("/health/ready");
  const plain = await hosted(["--timing", "none"]);
  expect((await fetch(`${plain.url}/health/ready`)).status).toBe(404);
  await plain.stop();
});

test.each([
  ["429", 429, "Too Many Requests"],
  ["404", 404, "NotFoundError"],
  ["200", 400, "BadRequestError"],
  ["soon", 400, "BadRequestError"],
])("X-Return-Error: %s", async (header, status, type) => {
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-return-error": header },
    body: JSON.stringify({ model: "m", prompt: "One", max_tokens: 1, stream: true }),
  });
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({
    error: { type, code: status, message: expect.stringContaining("X-Return-Error") },
  });
});

test("--startup-duration: the server is healthy but not ready for this time, and answers name the pod", async () => {
  const flags = ["--compat", "llm-d-inference-sim", "--host", "127.0.0.1", "--startup-duration", "4s"];
  // A separate process, because the duration counts from its start.
  const late = await serve(flags, { POD_NAME: "pod-1", POD_NAMESPACE: "here" });
  const status = async (path: string) => (await fetch(late.url + path)).status;
  expect([await status("/health/ready"), await status("/health")]).toEqual([503, 200]);
  const { headers } = await fetch(`${late.url}/v1/models`);
  expect(["pod", "port", "namespace"].map((name) => headers.get(`x-inference-${name}`))).toEqual([
    "pod-1",
    "0",
    "here",
  ]);
  await eventually(async () => (await status("/health/ready")) === 200);
  await late.stop();
});

const FUNCTION = { type: "function", function: { name: "f", parameters: { type: "object" } } };

test.each<[string, object, RegExp]>([
  ["a tool that is forced", { tools: [FUNCTION], tool_choice: "required" }, /"finish_reason":"tool_calls"/],
  ["a call on order", { tools: [FUNCTION], understudy: { call: true } }, /"finish_reason":"tool_calls"/],
  ["a tool that may be called", { tools: [FUNCTION] }, /"content":"One two"/],
  ["a constraint", { structured_outputs: { choice: ["yes", "no"] } }, /"content":"(yes|no)"/],
])("tools need no flag, and an answer with a required form is not an echo: %s", async (_, fields, answer) => {
  const body = { model: "m", messages: [{ role: "user", content: "One two" }], ...fields };
  const headers = { "content-type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  expect(await (await fetch(`${server.url}/v1/chat/completions`, request)).text()).toMatch(answer);
});

test("X-Cache-Threshold-Finish-Reason has an effect only with --compat", async () => {
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-cache-threshold-finish-reason": "true" },
    body: JSON.stringify({ model: "m", prompt: "One two", max_tokens: 9 }),
  });
  expect(await answer.json()).toMatchObject({ choices: [{ finish_reason: "cache_threshold", text: "" }] });
});
