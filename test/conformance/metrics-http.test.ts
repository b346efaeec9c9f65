/**
 * Checks that HTTP requests are counted like by vLLM 0.33's middleware: the statuses and labels of the recorded sequence
 * (`recorded/vllm-0.33-metrics-after-sequence.json`), and requests that the middleware does not see.
 * Moves http_requests_total, http_request_size_bytes, http_response_size_bytes, http_request_duration_highr_seconds and
 * http_request_duration_seconds.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";

let server: HostedServer;
beforeAll(async () => {
  const flags = "--timing constant:ttft=5ms,itl=5ms --api-key secret --max-model-len 256 --disable-uvicorn-access-log";
  server = await hosted(flags.split(" "));
});
afterAll(async () => void (await server.stop()));

const KEY = { authorization: "Bearer secret" };
const post = (path: string, body: unknown, more: RequestInit = {}) =>
  fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...KEY },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...more,
  });
const chat = { messages: [{ role: "user", content: "Hello, world!" }], max_tokens: 3, ignore_eos: true };

/** Returns every http_ sample except buckets, sums of times and creation times. */
async function counts(): Promise<Map<string, number>> {
  const page = await (await fetch(`${server.url}/metrics`)).text();
  const lines = page.split("\n").filter((line) => /^http_/.test(line) && !/_bucket|seconds_sum|_created/.test(line));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}

/** Returns the changes of the samples during an action. */
async function delta(act: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await counts();
  await act();
  const changed = async () => {
    const after = await counts();
    return Object.fromEntries(
      [...after]
        .map(([key, value]) => [key, value - (before.get(key) ?? 0)] as const)
        .filter(([key, by]) => by !== 0 || !before.has(key)),
    );
  };
  let last = await changed();
  // A stream is counted when its end has been written, maybe after the client has read it.
  await eventually(async () => {
    const now = await changed();
    const same = JSON.stringify(now) === JSON.stringify(last);
    last = now;
    return same;
  });
  return last;
}

const counted = (handler: string, method: string, status: string, requestBytes: number, responseBytes: number) => ({
  [`http_requests_total{handler="${handler}",method="${method}",status="${status}"}`]: 1,
  [`http_request_size_bytes_count{handler="${handler}"}`]: 1,
  ...(requestBytes > 0 ? { [`http_request_size_bytes_sum{handler="${handler}"}`]: requestBytes } : {}),
  [`http_response_size_bytes_count{handler="${handler}"}`]: 1,
  ...(responseBytes > 0 ? { [`http_response_size_bytes_sum{handler="${handler}"}`]: responseBytes } : {}),
  http_request_duration_highr_seconds_count: 1,
  [`http_request_duration_seconds_count{handler="${handler}",method="${method}"}`]: 1,
});
const size = (body: unknown) => Buffer.byteLength(typeof body === "string" ? body : JSON.stringify(body));
/** Drops changes of 0: a new sum of 0 is not a change. */
const withoutZeros = (changes: Record<string, number>) =>
  Object.fromEntries(Object.entries(changes).filter(([, by]) => by !== 0));

test("at the start there is only the histogram without labels, at 0", async () => {
  expect([...(await counts()).keys()]).toEqual(["http_request_duration_highr_seconds_count"]);
});

test.each([
  ["a plain chat", "/v1/chat/completions", chat, "2xx"],
  ["bad JSON", "/v1/chat/completions", "{", "4xx"],
  ["an unknown model", "/v1/chat/completions", { ...chat, model: "nope" }, "4xx"],
  ["a prompt too long", "/v1/completions", { prompt: Array(1100).fill(0) }, "4xx"],
  ["tokenize", "/tokenize", { prompt: "a" }, "2xx"],
])("%s: counted with the lengths of both bodies", async (_, path, body, status) => {
  let bytes = 0;
  const changes = await delta(async () => {
    bytes = (await (await post(path, body)).bytes()).length;
  });
  expect(withoutZeros(changes)).toEqual(counted(path, "POST", status, size(body), bytes));
});

test("a stream counts once, when it is complete, without a length", async () => {
  const body = { ...chat, stream: true };
  const changes = await delta(async () => void (await (await post("/v1/chat/completions", body)).text()));
  expect(withoutZeros(changes)).toEqual(counted("/v1/chat/completions", "POST", "2xx", size(body), 0));
});

test("while a stream is open it is not counted", async () => {
  const before = await counts();
  const open = await post("/v1/chat/completions", { ...chat, stream: true, max_tokens: 100 });
  const reader = open.body!.getReader();
  await reader.read();
  expect(await counts()).toEqual(before);
  const changes = await delta(async () => void (await reader.cancel()));
  expect(withoutZeros(changes)).toMatchObject({
    'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}': 1,
  });
});

test("a plain request whose client disconnected counts as 2xx without a body", async () => {
  const body = { ...chat, max_tokens: 200 };
  const changes = await delta(async () => {
    const left = new AbortController();
    const answer = post("/v1/chat/completions", body, { signal: left.signal });
    await Bun.sleep(50);
    left.abort();
    await answer.catch(() => {});
    await eventually(async () => (await counts()).size > 0);
    await Bun.sleep(50);
  });
  expect(withoutZeros(changes)).toEqual(counted("/v1/chat/completions", "POST", "2xx", size(body), 0));
});

test("a disabled route has a handler label", async () => {
  const changes = await delta(() => post("/inference/v1/generate", {}));
  expect(changes).toMatchObject({
    'http_requests_total{handler="/inference/v1/generate",method="POST",status="4xx"}': 1,
  });
});

test("an unknown path and a wrong method have no handler label", async () => {
  for (const [path, method] of [
    ["/v1/nothing", "GET"],
    ["/v1/chat/completions", "GET"],
    ["/v1/models", "DELETE"],
  ] as const) {
    let bytes = 0;
    const changes = await delta(async () => {
      bytes = (await (await fetch(`${server.url}${path}`, { method, headers: KEY })).bytes()).length;
    });
    expect(withoutZeros(changes)).toEqual(counted("none", method, "4xx", 0, bytes));
  }
});

test("health, ping, version, load, metrics, paths that contain these names, and requests without a key are not counted", async () => {
  const changes = await delta(async () => {
    for (const path of [
      "/health",
      "/ping",
      "/version",
      "/load",
      "/metrics",
      "/metrics/all",
      "/v1/health",
      "/pingpong",
    ]) {
      await (await fetch(`${server.url}${path}`, { headers: KEY })).text();
    }
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
    const preflight = { origin: "http://a", "access-control-request-method": "POST" };
    expect((await fetch(`${server.url}/v1/models`, { method: "OPTIONS", headers: preflight })).status).toBe(400);
  });
  expect(changes).toEqual({});
});
