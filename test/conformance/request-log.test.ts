/** Tests the log lines of `--enable-log-requests` on a live server. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";

let server: HostedServer;
beforeAll(async () => {
  server = await hosted([
    ...["--served-model-name", "m", "--enable-log-requests", "--max-model-len", "4096"],
    ...["--timing", "linear:base=2ms,prefill=0ms,decode=0ms"],
  ]);
});
afterAll(async () => {
  await server.stop();
});

const post = (path: string, id: string, body: object, signal: AbortSignal | null = null) =>
  fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: JSON.stringify({ model: "m", ...body }),
    signal,
  });

/** Returns the log lines with the id. */
const lines = (id: string) =>
  server
    .output()
    .split("\n")
    .filter((line) => line.includes(id));

test("each prompt has one line with the parameters in use", async () => {
  const body = {
    prompt: ["a", "b"],
    n: 2,
    max_tokens: 3,
    stop: ["it's", "x"],
    seed: 7,
    temperature: 0.001,
    logprobs: 2,
  };
  expect((await post("/v1/completions", "given", body)).status).toBe(200);
  await eventually(() => lines("cmpl-given").length === 2);
  const parameters =
    "SamplingParams(n=2, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, temperature=0.01, " +
    `top_p=1.0, top_k=0, min_p=0.0, seed=7, stop=["it's", 'x'], stop_token_ids=[], bad_words=[], ` +
    "thinking_token_budget=None, include_stop_str_in_output=False, ignore_eos=False, max_tokens=3, min_tokens=0, " +
    "logprobs=2, prompt_logprobs=None, skip_special_tokens=True)";
  expect(lines("cmpl-given")).toEqual(
    [0, 1].map((i) => `Received request cmpl-given-${i}: params: ${parameters}, lora_request: None.`),
  );
});

test("greedy requests log parameters without effect as off, and the resolved token limit", async () => {
  const messages = [{ role: "user", content: "Hello" }];
  const body = { messages, temperature: 0, top_p: 0.5, top_k: 5, min_p: 0.1, max_tokens: 1 };
  await post("/v1/chat/completions", "greedy", body);
  await eventually(() => lines("chatcmpl-greedy").length === 1);
  expect(lines("chatcmpl-greedy")[0]).toContain("temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, seed=None,");
});

test("a refused request is not logged", async () => {
  expect((await post("/v1/completions", "refused", { prompt: "a", max_tokens: -1 })).status).toBe(400);
  expect(lines("cmpl-refused")).toEqual([]);
});

test.each([true, false])("a disconnected client is logged, stream %p", async (stream) => {
  const leave = new AbortController();
  const body = { prompt: ["a", "b"], n: 2, max_tokens: 4000, ignore_eos: true, stream };
  const id = `leaves-${stream}`;
  const answer = post("/v1/completions", id, body, leave.signal).then((response) => response.text());
  await eventually(() => lines(id).length === 2);
  leave.abort();
  expect(await answer.catch((error: Error) => error.name)).toBe("AbortError");
  await eventually(() => lines(id).length === 6);
  expect(lines(id).slice(2)).toEqual([
    `Aborted request(s) cmpl-${id}-0.`,
    `Request cmpl-${id}-0 aborted.`,
    `Aborted request(s) cmpl-${id}-1.`,
    `Request cmpl-${id}-1 aborted.`,
  ]);
});
