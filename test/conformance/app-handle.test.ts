/** Checks that `app.handle(request)` answers every route like the socket does, including streams. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type App, createApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { METRICS_METHODS } from "../../src/metrics/route.ts";
import { DEV_METHODS, DOCS_METHODS, METHODS } from "../../src/servers/openai/front/served.ts";
import { TRUTH_METHODS } from "../../src/truth/routes.ts";

setDefaultTimeout(30_000);

let app: App;
beforeAll(async () => {
  const flags = [
    "--served-model-name",
    "m",
    "--timing",
    "none",
    "--port",
    "0",
    "--answers",
    "echo",
    "--truth-requests",
    "8",
  ];
  const resolved = resolveServeConfig(flags, { VLLM_SERVER_DEV_MODE: "1" }, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  app = await createApp(resolved.config, { log: () => {} });
});
afterAll(() => app.close(0));

const ROUTES = { ...METHODS, ...DEV_METHODS, ...DOCS_METHODS, ...METRICS_METHODS, ...TRUTH_METHODS };
const SAID = "One two three four five six seven eight nine ten, and so on.";
const BODIES: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: SAID }] },
  "/v1/chat/completions/batch": { messages: [[{ role: "user", content: SAID }]] },
  "/v1/completions": { prompt: SAID },
  "/invocations": { prompt: SAID },
  "/v1/responses": { input: SAID, max_output_tokens: 9 },
  "/v1/messages": { messages: [{ role: "user", content: SAID }] },
  "/v1/messages/count_tokens": { messages: [{ role: "user", content: SAID }] },
  "/tokenize": { prompt: SAID },
  "/detokenize": { tokens: [1, 2] },
};
const STREAMS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"];

function requestOf(method: string, path: string, more: object = {}): [string, RequestInit] {
  const url = `${app.url}${path.replaceAll(/\{\w+\}|:\w+/g, "unknown")}`;
  const body = JSON.stringify({ model: "m", seed: 5, max_tokens: 9, ...BODIES[path], ...more });
  return [url, method === "POST" ? { method, body, headers: { "content-type": "application/json" } } : { method }];
}

/** Returns the response without values that differ in every answer. */
async function shown(response: Response) {
  const body = (await response.text())
    .replaceAll(/"(id|item_id|request_id|first_id|last_id)": ?"[^"]*"/g, '"$1":""')
    .replaceAll(/"(created|created_at|completed_at)": ?\d+/g, '"$1":0')
    .replaceAll(/"(cached_tokens|cache_read_input_tokens|cache_creation_input_tokens|input_tokens)": ?\d+/g, '"$1":0');
  const { status, headers } = response;
  return { status, type: headers.get("content-type"), server: headers.get("server"), vary: headers.get("vary"), body };
}

async function both(method: string, path: string, more: object = {}) {
  const [url, init] = requestOf(method, path, more);
  const [over, handled] = [await shown(await fetch(url, init)), await shown(await app.handle(new Request(url, init)))];
  return { over, handled };
}

const TELLS_TIME = /^\/(metrics|understudy)/;

for (const [path, methods] of Object.entries(ROUTES))
  for (const method of methods.filter((name) => name !== "HEAD"))
    test(`${method} ${path} answers the same without a socket`, async () => {
      const { over, handled } = await both(method, path);
      // Pages with times or with earlier requests always differ. Their headers equal those of the socket; those of other
      // routes equal the handler's.
      if (TELLS_TIME.test(path)) expect([handled.status, handled.type]).toEqual([over.status, over.type]);
      else expect(handled).toEqual(over);
      expect(handled.body.length > 0 || over.body.length === 0).toBe(true);
      if (path in BODIES) expect(handled.status).toBe(200);
    });

test.each(STREAMS)("a stream of %s is the same without a socket", async (path) => {
  const { over, handled } = await both("POST", path, { stream: true });
  expect(handled).toEqual(over);
  expect(handled.type).toStartWith("text/event-stream");
  expect(handled.body.split("\n\n").length).toBeGreaterThan(9);
});

test("a slow reader gets a whole stream, and a reader that cancels ends it", async () => {
  const long = { stream: true, max_tokens: 3000, ignore_eos: true };
  const [url, init] = requestOf("POST", "/v1/completions", long);
  const whole = await (await fetch(url, init)).text();
  const text = (frames: string) =>
    [...frames.matchAll(/"text":"((?:[^"\\]|\\.)*)"/g)].map(([, piece]) => piece).join("");
  let slow = "";
  const decoder = new TextDecoder();
  for await (const part of (await app.handle(new Request(url, init))).body!) {
    slow += decoder.decode(part, { stream: true });
    await Bun.sleep(1);
  }
  expect(text(slow)).toBe(text(whole));
  expect(slow).toEndWith("data: [DONE]\n\n");
  expect(slow.split("\n\n").length).toBeLessThan(whole.split("\n\n").length); // waiting events were joined

  const endless = requestOf("POST", "/v1/completions", { ...long, max_tokens: 8000 });
  const left = await app.handle(new Request(...endless));
  const reader = left.body!.getReader();
  await reader.read();
  const before = app.snapshot().front.outcomes.abort;
  await reader.cancel();
  for (let i = 0; i < 500 && app.snapshot().front.outcomes.abort === before; i++) await Bun.sleep(5);
  expect(app.snapshot().front.outcomes.abort).toBe(before + 1);
  expect(app.snapshot().front.streamsOpen).toBe(0);
});

test("unknown paths and methods, and the API key, work as on the socket", async () => {
  for (const [method, path] of [
    ["GET", "/nothing"],
    ["DELETE", "/ping"],
    ["GET", "/v1/completions"],
  ] as const) {
    const { over, handled } = await both(method, path);
    expect(handled).toEqual(over);
    expect(handled.status).toBeGreaterThan(400);
  }
});

test("a body for the reading thread and an answer in parts work as on the socket", async () => {
  const [url, init] = requestOf("POST", "/v1/completions", { user: "u".repeat(300_000) });
  const [, short] = requestOf("POST", "/v1/completions");
  expect(await shown(await app.handle(new Request(url, init)))).toEqual(
    await shown(await app.handle(new Request(url, short))),
  );
  const tokens = Array.from({ length: 200_000 }, (_, at) => 1000 + (at % 1000));
  const [detokenize] = requestOf("POST", "/detokenize");
  const request = { ...init, body: JSON.stringify({ tokens }) };
  const answers = await Promise.all([app.handle(new Request(detokenize, request)), fetch(detokenize, request)]);
  const [here, there] = await Promise.all(answers.map(shown));
  expect(here!.body.length).toBeGreaterThan(500_000);
  expect(here).toEqual(there!);
});
