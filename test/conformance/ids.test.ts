/** Checks that ids repeat with `--seed`, differ between workers, and are never equal on two servers without it. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { type App, createApp } from "../../src/app/create-app.ts";
import { idsOf, mix } from "../../src/base/random.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { createServer } from "../../src/embed/bun.ts";
import { eventually, serve } from "../server.ts";

setDefaultTimeout(60_000);

const FLAGS = [
  ...["--served-model-name", "m", "--timing", "none", "--port", "0", "--enable-request-id-headers"],
  ...["--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"],
  ...["--embedding-dimensions", "4", "--max-model-len", "512"],
];
const EPOCH_S = 1_800_000_000.25;

const apps: App[] = [];
afterAll(() => Promise.all(apps.map((app) => app.close(0))));

async function started(...flags: string[]): Promise<App> {
  const resolved = resolveServeConfig([...FLAGS, ...flags], {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  const app = await createApp(resolved.config, { log: () => {}, epochSeconds: () => EPOCH_S });
  apps.push(app);
  return app;
}

const messages = [{ role: "user", content: "Hello" }];
const schema = { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "look", parameters: schema } }];
const choice = { type: "function", function: { name: "look" } };
const chat = { model: "m", messages, max_tokens: 300 };
type Ask = readonly [path: string, body?: object];
const ASKS: Readonly<Record<string, Ask>> = {
  "a chat": ["/v1/chat/completions", chat],
  "a stream of a chat": ["/v1/chat/completions", { ...chat, stream: true }],
  "a batch": ["/v1/chat/completions/batch", { model: "m", messages: [messages, messages], max_tokens: 2 }],
  "a tool call": ["/v1/chat/completions", { ...chat, tools, tool_choice: choice }],
  "a stream of a tool call": ["/v1/chat/completions", { ...chat, tools, tool_choice: "required", stream: true }],
  "a completion": ["/v1/completions", { model: "m", prompt: "Hello", max_tokens: 3 }],
  "a stream of a completion": ["/v1/completions", { model: "m", prompt: "Hello", max_tokens: 3, stream: true }],
  "a response": ["/v1/responses", { model: "m", input: "Hello", max_output_tokens: 300 }],
  "a stream of a response": ["/v1/responses", { model: "m", input: "Hello", max_output_tokens: 300, stream: true }],
  "a message": ["/v1/messages", chat],
  "a stream of a message": ["/v1/messages", { ...chat, stream: true }],
  embeddings: ["/v1/embeddings", { model: "m", input: "Hello" }],
  models: ["/v1/models"],
  "a path that is not served": ["/nothing"],
};

/** Returns the status, headers and body of an answer. */
async function answer({ url }: Pick<App, "url">, [path, body]: Ask): Promise<string> {
  const headers = { "content-type": "application/json" };
  const asked = body && { method: "POST", body: JSON.stringify(body), headers };
  const response = await fetch(url + path, asked);
  return [response.status, ...[...response.headers].map((header) => header.join(": ")), await response.text()].join(
    "\n",
  );
}

async function answers(app: Pick<App, "url">): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [name, ask] of Object.entries(ASKS)) found[name] = await answer(app, ask);
  return found;
}

const ID =
  /\b(?:chatcmpl-tool|chatcmpl|cmpl|embd|modelperm|resp|msg|rs|fc)[-_]([0-9a-f]{16})\b|(?:"signature":"|x-request-id: )([0-9a-f]{32})\b/g;
/** Returns the random parts of all ids. */
const idsIn = (found: Readonly<Record<string, string>>) =>
  new Set(Object.values(found).flatMap((text) => [...text.matchAll(ID)].map(([, short, long]) => short ?? long!)));

/** Kinds of ids that must have been checked, and the answers with them. */
const SEEN = {
  "a chat": ['"id":"chatcmpl-', "x-request-id: "],
  "a batch": ['"id":"chatcmpl-'],
  "a tool call": ['"id":"chatcmpl-tool-'],
  "a stream of a tool call": ['"id":"chatcmpl-tool-'],
  "a completion": ['"id":"cmpl-'],
  "a response": ['"id":"resp_', '"id":"rs_', '"id":"msg_'],
  "a stream of a response": ['"item_id":"rs_', '"item_id":"msg_'],
  "a message": ['"id":"chatcmpl-', '"signature":"'],
  "a stream of a message": ['"signature":"'],
  embeddings: ['"id":"embd-'],
  models: ['"id":"modelperm-'],
  "a path that is not served": ["x-request-id: "],
} as const;

for (const seed of ["7", "0"])
  test(`--seed ${seed}: the same requests get the same bytes from another server`, async () => {
    const [first, second] = await Promise.all([started("--seed", seed), started("--seed", seed)]);
    const found = await answers(first!);
    for (const [name, ids] of Object.entries(SEEN)) for (const id of ids) expect(found[name]).toContain(id);
    expect(await answers(second!)).toEqual(found);
    // A server also returns no id twice.
    const again = await answers(first!);
    expect([...idsIn(again)].filter((id) => idsIn(found).has(id))).toEqual([]);
  });

test("times on the metrics page follow the given wall clock", async () => {
  const app = await started("--seed", "7");
  await answer(app, ASKS["a completion"]!);
  const values = async (series: RegExp) => {
    const page = await (await fetch(`${app.url}/metrics/all`)).text();
    return [...page.matchAll(series)].map(([, value]) => Number(value));
  };
  const created = await values(/^vllm:\w+_created\{.*\} (\S+)$/gm);
  expect(created.length).toBeGreaterThan(5);
  // The time is 0 until the executor was polled.
  let polledUs: number | undefined;
  await eventually(async () => {
    [polledUs] = await values(/^nv_trt_llm_general_metrics\{.*"timestamp".*\} (\S+)$/gm);
    return polledUs! > 0;
  });
  // In a process of many tests the server is at most some minutes old.
  for (const seconds of [...created, polledUs! / 1e6]) expect(Math.abs(seconds - EPOCH_S)).toBeLessThan(3600);
});

test("two servers share no id without --seed or with different seeds", async () => {
  const all = await Promise.all([started(), started(), started("--seed", "1"), started("--seed", "2")]);
  const ids = await Promise.all(all.map(async (app) => [...idsIn(await answers(app))]));
  for (const id of ids) expect(id.length).toBeGreaterThan(25);
  expect(new Set(ids.flat()).size).toBe(ids.flat().length);
});

test("mistral's ids of nine characters also repeat", async () => {
  const calls = async () => {
    const app = await started("--seed", "7", "--tool-call-parser", "mistral");
    return answer(app, ASKS["a tool call"]!);
  };
  const text = await calls();
  expect(text).toMatch(/"id":"[0-9A-Za-z]{9}"/);
  expect(await calls()).toBe(text);
});

test("createServer({ seed }) behaves like the flag", async () => {
  const idsFor = async (options: { readonly seed?: number }) => {
    const server = createServer({ ...options, timing: "none", servedModelName: ["m"] });
    try {
      await server.ready;
      const body = await answer(server, ASKS["a completion"]!);
      return /"id":"cmpl-(\w+)"/.exec(body)![1]!;
    } finally {
      await server.close();
    }
  };
  expect(await idsFor({ seed: 7 })).toBe(idsOf(mix(7, 0))(8));
  expect(await idsFor({})).not.toBe(await idsFor({}));
});

test("--workers 2 --seed 7: each worker has different ids, and they repeat", async () => {
  const server = await serve(["--workers", "2", "--seed", "7", "--timing", "none", "--served-model-name", "m"]);
  try {
    const body = JSON.stringify(ASKS["a completion"]![1]);
    const headers = { "content-type": "application/json", connection: "close" };
    const asked = Array.from({ length: 40 }, async () => {
      const response = await fetch(`${server.url}/v1/completions`, { method: "POST", body, headers, keepalive: false });
      return ((await response.json()) as { id: string }).id.slice("cmpl-".length);
    });
    const ids = new Set(await Promise.all(asked));
    expect(ids.size).toBe(40);
    const [first, second] = [0, 1].map((worker) => {
      const next = idsOf(mix(7, worker));
      return Array.from({ length: 40 }, () => next(8)).filter((id) => ids.has(id));
    });
    // The kernel spreads 40 connections, so both workers got some.
    expect(first!.length).toBeGreaterThan(0);
    expect(second!.length).toBeGreaterThan(0);
    expect(first!.length + second!.length).toBe(40);
  } finally {
    await server.stop();
  }
});
