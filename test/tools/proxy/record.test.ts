/** Tests that exchanges recorded by a proxy are played back by another server with the same bytes and gaps. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { posted } from "../../conformance/raw-socket.ts";
import { cleanAnswer } from "../../faults/wire.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { eventually, sample } from "../../server.ts";
import { figure, sampled, sized } from "../../size.ts";
import { type TimedWire, timedWire } from "./timed-wire.ts";

setDefaultTimeout(300_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-record-"));
const records = join(folder, "records");
const FLAGS = ["--served-model-name", "m", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"];
let server: HostedServer;
let proxy: Bun.Subprocess;
let proxyPort: number;
beforeAll(async () => {
  server = await hosted([...FLAGS, "--timing", "constant:ttft=20ms,itl=7ms", "--output-tokens", "constant:20"]);
  const ready = join(folder, "ready.json");
  const words = ["proxy", "--to", server.url, "--port", "0", "--ready-file", ready, "--record", records];
  proxy = Bun.spawn([process.execPath, main, ...words], { stdout: "ignore", stderr: "ignore" });
  await eventually(() => existsSync(ready), 2000);
  proxyPort = Number(new URL(JSON.parse(readFileSync(ready, "utf8")).url).port);
});
afterAll(async () => {
  proxy.kill();
  await server.stop();
  rmSync(folder, { recursive: true });
});

const weather = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const messagesOf = (n: number) => [{ role: "user", content: `Say it, ${n}` }];
/** 40 exchanges with different requests. */
const EXCHANGES: readonly (readonly [path: string, body: object])[] = Array.from({ length: 5 }, (_, n) => [
  ["/v1/chat/completions", { messages: messagesOf(n), stream: true, stream_options: { include_usage: true } }] as const,
  ["/v1/chat/completions", { messages: messagesOf(n) }] as const,
  [
    "/v1/chat/completions",
    { messages: messagesOf(n), tools: [weather], tool_choice: "required", stream: true },
  ] as const,
  ["/v1/messages", { messages: messagesOf(n), max_tokens: 20, stream: true }] as const,
  ["/v1/messages", { messages: messagesOf(n), max_tokens: 20 }] as const,
  ["/v1/responses", { input: `Say it, ${n}`, stream: true }] as const,
  ["/v1/completions", { prompt: `Say it, ${n}`, stream: true, max_tokens: 9 }] as const,
  ["/v1/chat/completions", { messages: messagesOf(n), understudy: { script: "x", times: n } }] as const,
]).flat();

const ask = (port: number, [path, body]: (typeof EXCHANGES)[number]) =>
  timedWire(port, posted(path, { model: "m", seed: 1, ...body }, ["Connection: close"]));
const dateless = (head: string) =>
  head
    .split("\r\n")
    .filter((line) => !line.startsWith("date: "))
    .toSorted();

/** Returns the largest difference between corresponding gaps of two answers, in milliseconds. */
function offBy(first: TimedWire, second: TimedWire): number {
  const gaps = ({ eventMs }: TimedWire) => eventMs.slice(1).map((ms, at) => ms - eventMs[at]!);
  const [a, b] = [gaps(first), gaps(second)];
  return Math.max(0, ...a.map((gap, at) => Math.abs(gap - b[at]!)));
}

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

test("recorded answers are played back with the same heads and events, and with accurate gaps", async () => {
  const exchanges = sampled("record", EXCHANGES, 5);
  const passed: TimedWire[] = [];
  for (const exchange of exchanges) passed.push(await ask(proxyPort, exchange));
  await eventually(() => readdirSync(records).length === exchanges.length);
  const player = await hosted([...FLAGS, "--fixtures", records]);
  const port = Number(new URL(player.url).port);
  const off: number[] = [];
  // For comparison, the differences if the original server answers the same request again.
  const control: number[] = [];
  const serverPort = Number(new URL(server.url).port);
  for (const [at, exchange] of exchanges.entries()) {
    const played = await ask(port, exchange);
    const [a, b] = [cleanAnswer(passed[at]!.bytes), cleanAnswer(played.bytes)];
    expect(dateless(b.head)).toEqual(dateless(a.head));
    expect(b.events).toEqual(a.events);
    off.push(offBy(passed[at]!, played));
    control.push(offBy(passed[at]!, await ask(serverPort, exchange)));
  }
  // Every request was answered from its record, so the engine generated no token.
  expect(await sample(player.url, 'understudy_requests_total{outcome="abort"}')).toBe(0);
  expect(await sample(player.url, "vllm:generation_tokens_total")).toBe(0);
  await player.stop();
  figure("exchanges", exchanges.length);
  figure("medianOffByMs", median(off));
  figure("medianOffByMsControl", median(control));
  figure("largestOffByMs", Math.max(...off));
  figure("largestOffByMsControl", Math.max(...control));
});

test("with --replay-timing scheduled the engine generates the recorded text, and an invalid recording is reported", async () => {
  const before = existsSync(records) ? readdirSync(records).length : 0;
  const body = { model: "m", messages: messagesOf(99), seed: 1 };
  const passed = cleanAnswer((await ask(proxyPort, ["/v1/chat/completions", body])).bytes);
  await eventually(() => readdirSync(records).length === before + 1);
  const player = await hosted([...FLAGS, "--fixtures", records, "--replay-timing", "scheduled", "--timing", "none"]);
  const played = await ask(Number(new URL(player.url).port), ["/v1/chat/completions", body]);
  const textIn = (answer: string) => JSON.parse(answer).choices[0].message.content;
  expect(textIn(cleanAnswer(played.bytes).events[0]!)).toBe(textIn(passed.events[0]!));
  expect(await sample(player.url, "vllm:generation_tokens_total")).toBeGreaterThan(10);
  await player.stop();
  const wrong = join(folder, "wrong");
  await Bun.write(
    join(wrong, "1.json"),
    '{"answer": {"recorded": {"status": 200, "headers": {}, "events": [[5, "a"], [3, "b"]]}}}',
  );
  const other = await hosted([...FLAGS, "--fixtures", wrong]);
  await eventually(() => other.output().includes("answer.recorded: events: times must rise"));
  await other.stop();
  figure("replayTimings", sized("record", { sample: 1, whole: 2 }));
});
