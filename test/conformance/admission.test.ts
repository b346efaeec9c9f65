/**
 * Checks the refusals of a full server, that they stop when there is room again, and that OpenAI's client retries at the
 * stated time.
 */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { posted, RawSocket } from "./raw-socket.ts";

setDefaultTimeout(30_000);

const FLAGS = ["--served-model-name", "m", "--timing", "linear:base=5ms,prefill=0ms,decode=0ms"];
const BUSY =
  "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";
const BACKLOG =
  "The engine has reached its prefill token backlog limit. Please try again later or on a different instance.";

let server: HostedServer;
let others: RawSocket[] = [];
afterEach(async () => {
  for (const other of others) other.destroy();
  others = [];
  await server.stop();
});

const long = (stream: boolean, fields: object = {}) =>
  posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 4000, ignore_eos: true, stream, ...fields });

/** Starts a server and sends requests that fill it. */
async function filled(flags: readonly string[], requests: readonly string[]): Promise<void> {
  server = await hosted([...FLAGS, ...flags]);
  for (const request of requests) {
    const other = await RawSocket.connect(Number(new URL(server.url).port));
    other.write(request);
    others.push(other);
  }
  await eventually(async () => (await running()) === requests.length);
}
const running = async () =>
  (await sample(server.url, "vllm:num_requests_running")) + (await sample(server.url, "vllm:num_requests_waiting{"));
const post = (fields: object = {}) =>
  fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", prompt: "x", max_tokens: 2, ignore_eos: true, ...fields }),
  });
async function refusal(answer: Response, message: string, status = 503): Promise<void> {
  const type = status === 429 ? "Too Many Requests" : "Service Unavailable";
  expect(await answer.json()).toEqual({ error: { message, type, param: null, code: status } });
  expect(answer.status).toBe(status);
}

/** Closes one request and waits until another one is accepted. */
async function freed(fields: object = {}): Promise<void> {
  others.shift()!.destroy();
  await eventually(async () => (await post(fields)).status === 200);
}

test("--limit-concurrency: one more is refused", async () => {
  await filled(["--limit-concurrency", "2"], [long(true), long(false)]);
  const answers = await Promise.all([post(), post({ stream: true })]);
  for (const answer of answers) await refusal(answer, BUSY);
  expect(answers.map(({ headers }) => headers.get("retry-after"))).toEqual([null, null]);
  for (const path of ["/health", "/metrics", "/v1/models"]) expect((await fetch(server.url + path)).status).toBe(200);
  await freed();
  const refused = await sample(server.url, 'understudy_requests_total{outcome="refused"');
  expect(refused).toBeGreaterThanOrEqual(2);
});

test("--limit-concurrency: requests without their body count", async () => {
  server = await hosted([...FLAGS, "--limit-concurrency", "1"]);
  const other = await RawSocket.connect(Number(new URL(server.url).port));
  others.push(other);
  other.write(long(true).slice(0, -5));
  await eventually(async () => (await post()).status === 503);
  await freed();
});

test("--max-streams: one more is refused, plain requests are not", async () => {
  await filled(["--max-streams", "2"], [long(true), long(true)]);
  await refusal(await post({ stream: true }), BUSY);
  expect((await post()).status).toBe(200);
  await freed({ stream: true });
});

test("--max-num-queued-reqs: one more is refused", async () => {
  await filled(["--max-num-queued-reqs", "2"], [long(true), long(true)]);
  await refusal(await post(), BUSY);
  await freed();
});

test.each([
  ["--max-num-queued-reqs 6000", BUSY],
  ["--max-num-queued-tokens 8000", BACKLOG],
])("%s: a request counts with all its choices before they reach the engine", async (flags, message) => {
  server = await hosted([...FLAGS, ...flags.split(" ")]);
  const many = { n: 5000, temperature: 1, prompt: [1, 2] };
  const answers = await Promise.all([post(many), post(many)]);
  expect(answers.map(({ status }) => status)).toEqual([200, 503]);
  await refusal(answers[1]!, message);
});

test("--max-num-queued-tokens: one more is refused", async () => {
  const prompt = Array.from({ length: 600 }, (_, i) => i + 100);
  const flags = ["--max-num-queued-tokens", "500", "--max-num-seqs", "1"];
  await filled(flags, [long(true), long(true, { prompt })]);
  await refusal(await post(), BACKLOG);
  others.pop()!.destroy();
  await freed();
});

const FORMS: readonly {
  flags: string;
  status: number;
  headers: (headers: Headers, nowMs: number) => unknown[];
  want: unknown[];
}[] = [
  {
    flags: "--overload-status 429",
    status: 429,
    headers: (h) => [h.get("retry-after"), h.get("retry-after-ms")],
    want: [null, null],
  },
  {
    flags: "--retry-after 1.2",
    status: 503,
    headers: (h) => [h.get("retry-after"), h.get("retry-after-ms")],
    want: ["2", null],
  },
  {
    flags: "--overload-status 429 --retry-after 1.2 --retry-after-form ms",
    status: 429,
    headers: (h) => [h.get("retry-after"), h.get("retry-after-ms")],
    want: [null, "1200"],
  },
  {
    flags: "--overload-status 429 --retry-after 30 --retry-after-form date ms",
    status: 429,
    headers: (h, nowMs) => {
      const text = h.get("retry-after")!;
      const inS = (Date.parse(text) - nowMs) / 1000;
      return [new Date(text).toUTCString() === text, inS > 25 && inS < 40, h.get("retry-after-ms")];
    },
    want: [true, true, "30000"],
  },
];
test.each(FORMS)("a refusal has the status and headers of $flags", async ({ flags, status, headers, want }) => {
  await filled([...flags.split(" "), "--max-num-queued-reqs", "1"], [long(true)]);
  const answer = await post();
  expect(headers(answer.headers, Date.now())).toEqual(want);
  await refusal(answer, BUSY, status);
  // Other refusals do not change.
  const wrong = await post({ model: "none" });
  expect([wrong.status, wrong.headers.get("retry-after"), wrong.headers.get("retry-after-ms")]).toEqual([
    404,
    null,
    null,
  ]);
});

test.each(["ms", "seconds", "date"])("OpenAI's client retries after the stated time: %s", async (form) => {
  await filled(
    ["--max-num-queued-reqs", "1", "--overload-status", "429", "--retry-after", "1", "--retry-after-form", form],
    [long(true)],
  );
  const client = new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, maxRetries: 1 });
  const startMs = performance.now();
  const answer = client.completions.create({ model: "m", prompt: "x", max_tokens: 1 });
  const refusedOnce = async () => (await sample(server.url, 'understudy_requests_total{outcome="refused"')) === 1;
  await eventually(refusedOnce);
  others.shift()!.destroy();
  expect((await answer).choices).toHaveLength(1);
  // Without the header the client waits half a second. A date has whole seconds, rounded up.
  expect(performance.now() - startMs).toBeGreaterThan(form === "date" ? 0 : 950);
  expect(await refusedOnce()).toBe(true);
});

test("a paused server is not full", async () => {
  server = await hosted([...FLAGS, "--retry-after", "1"], { VLLM_SERVER_DEV_MODE: "1" });
  await fetch(`${server.url}/pause`, { method: "POST" });
  const answer = await post();
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, null]);
});
