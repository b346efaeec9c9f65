/** Tests that a server of at most 60 lines over the kernel starts, streams, counts, and ends. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type RenewableApp, startApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { createReusableParts } from "../../src/kernel/create-kernel.ts";
import { importsOf, roomOf } from "../tidy-rules.ts";
import { fourth } from "./fourth-server.ts";

const FILE = "test/kernel/fourth-server.ts";
const text = readFileSync(new URL("./fourth-server.ts", import.meta.url), "utf8");

let app: RenewableApp;
beforeAll(async () => {
  const flags = ["--port", "0", "--seed", "1", "--timing", "linear:base=4ms,prefill=0ms,decode=0ms"];
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  const log = () => {};
  app = await startApp(fourth, resolved.config, { log }, [], await createReusableParts(resolved.config, { log }));
});
afterAll(() => app.close(0));

const post = (body: unknown, signal: AbortSignal | null = null) =>
  fetch(`${app.url}/generate`, { method: "POST", body: JSON.stringify(body), signal });

type Event = { readonly id: number; readonly text: string } | { readonly finish: string };
const eventsOf = (body: string): Event[] =>
  [...body.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json!) as Event);

/** Returns the sum of all samples of a metric. */
async function metric(name: string): Promise<number> {
  const page = await (await fetch(`${app.url}/metrics`)).text();
  const samples = [...page.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))];
  expect(samples, name).not.toEqual([]);
  return samples.reduce((sum, [, value]) => sum + Number(value), 0);
}

test("the server has at most 60 lines, and imports no other server and not the app", () => {
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
  const rooms = new Set(importsOf({ path: FILE, text }).map(roomOf));
  expect([...rooms].sort()).toEqual(["engine", "kernel", "wire"]);
});

test("the server streams an event per token, and the metrics count the tokens", async () => {
  const [promptsBefore, tokensBefore] = [
    await metric("vllm:prompt_tokens_total"),
    await metric("vllm:generation_tokens_total"),
  ];
  const response = await post({ prompt: "Name three colours of the sea.", tokens: 12 });
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const events = eventsOf(await response.text());
  const tokens = events.flatMap((event) => ("id" in event ? [event] : []));
  expect(tokens).toHaveLength(12);
  expect(
    tokens
      .map((token) => token.text)
      .join("")
      .trim(),
  ).not.toBe("");
  expect(events.at(-1)).toEqual({ finish: "length" });
  expect((await metric("vllm:generation_tokens_total")) - tokensBefore).toBe(12);
  expect((await metric("vllm:prompt_tokens_total")) - promptsBefore).toBeGreaterThan(5);
  expect(app.snapshot().front.outcomes.length).toBe(1);
});

test("the server refuses invalid requests with 400", async () => {
  for (const tokens of [0, -1, 1e9, "x", undefined]) {
    const response = await post({ prompt: "Hi", tokens });
    expect([tokens, response.status]).toEqual([tokens, 400]);
  }
  expect((await post({ prompt: "", tokens: 1 })).status).toBe(400);
});

test("tokens are sent one by one, and a client that disconnects frees the engine", async () => {
  const leaving = new AbortController();
  const response = await post({ prompt: "Tell a long story.", tokens: 4000 }, leaving.signal);
  const first = await response.body!.getReader().read();
  expect(eventsOf(new TextDecoder().decode(first.value)).length).toBeLessThan(20);
  expect(app.engines.live).toBe(1);
  leaving.abort();
  for (let tries = 0; app.engines.live > 0 && tries < 1000; tries++) await Bun.sleep(5);
  expect(app.engines.live).toBe(0);
  expect(app.snapshot().front.outcomes.abort).toBe(1);
});

test("renew() starts a new kernel and keeps the listener", async () => {
  const before = app.kernel;
  await app.renew({ log: () => {} }, () => {});
  expect(app.kernel).not.toBe(before);
  const response = await post({ prompt: "Once more.", tokens: 3 });
  expect(eventsOf(await response.text())).toHaveLength(4);
  expect(await metric("vllm:generation_tokens_total")).toBe(3);
});
