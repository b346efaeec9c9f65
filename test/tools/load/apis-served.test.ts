/** Tests `load` with responses, messages and embeddings against our own servers, and the options that these APIs cannot use. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WallClock } from "../../../src/base/clock.ts";
import { takeLoadArguments } from "../../../src/cli/load/load-args.ts";
import { settingsOf } from "../../../src/cli/load/load-settings.ts";
import { Load } from "../../../src/tools/load/load.ts";
import type { LoadDialect } from "../../../src/tools/load/requests/dialects.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { main } from "../../program.ts";
import { hostTriton, type TritonHosted } from "../../triton/child.ts";
import { loadOn } from "./loaded.ts";
import { chunk, END, HEAD } from "./played.ts";
import { rawServer } from "./raw-server.ts";

setDefaultTimeout(60_000);
const folder = mkdtempSync(join(tmpdir(), "understudy-apis-"));
const log = join(folder, "truth.jsonl");
const KEY = "secret-key";

let vllm: HostedServer;
let trtllm: HostedServer;
let triton: TritonHosted;
beforeAll(async () => {
  const timing = ["--timing", "constant:ttft=5ms,itl=1ms", "--served-model-name", "m"];
  vllm = await hosted([...timing, "--api-key", KEY, "--embedding-dimensions", "8", "--truth-log", log]);
  trtllm = await hosted(["--role", "trtllm-serve", "--timing", "none"]);
  triton = await hostTriton(["--openai", "--openai-port=0", "--embedding-dimensions=3"]);
});
afterAll(async () => {
  await Promise.all([vllm.stop(), trtllm.stop(), triton.stop(0)]);
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the settings of a command line, or its refusal. */
function settings(line: string, env: Record<string, string> = {}) {
  const taken = takeLoadArguments(line.split(" ").filter(Boolean));
  return "error" in taken ? taken : settingsOf(taken.values, { env, command: "", version: "0", read: () => "" });
}

/** Runs a command line on one of our servers in this process. */
async function loaded(line: string, on: { readonly url: string } = vllm) {
  const read = settings(line);
  if ("error" in read) throw new Error(String(read.error));
  const options = read as Settings;
  const clock = new WallClock();
  const run = new Load(
    { ...options, url: new URL(on.url), metricsUrl: null, model: options.model ?? "m" },
    { clock, live: null },
  );
  return await run.run().finally(() => clock.close());
}

const SHORT = `--api-key ${KEY} --num-prompts 6 --concurrency 2 --input-len 12`;

describe.each(["openai-responses", "anthropic-messages"] as const)("%s", (backend) => {
  test("streams give tokens, lengths, usage and truth", async () => {
    const { records, result } = await loaded(`--backend ${backend} ${SHORT} --output-len 5 --check-truth`);
    expect(records.map(({ failure }) => failure)).toEqual(records.map(() => null));
    expect(records.map(({ outputTokens, usage, done }) => [outputTokens, usage, done])).toEqual(
      records.map(() => [5, true, true]),
    );
    expect(records.every(({ inputTokens }) => inputTokens >= 12)).toBe(true);
    expect(result).toMatchObject({ completed: 6, failed: 0, total_output_tokens: 30, backend });
    expect(result.understudy.truth).toMatchObject({ requests: 6, missing: 0, errors: { ttft: { count: 6 } } });
    expect(result.understudy.warnings?.filter((warning) => !warning.includes("late"))).toEqual([]);
  });

  test("without streams the truth comes from the server's log", async () => {
    const line = `--backend ${backend} ${SHORT} --output-len 5 --no-stream --check-truth-log ${log}`;
    const { result } = await loaded(line);
    expect(result).toMatchObject({ completed: 6, total_output_tokens: 30 });
    expect(result.understudy.truth).toMatchObject({ requests: 6, missing: 0 });
  });

  test("a conversation carries its earlier turns and answers", async () => {
    const { records } = await loaded(
      `--backend ${backend} --api-key ${KEY} --dataset-name multi_turn --turns 3 --think-time 1ms --input-len 8 --output-len 4 --num-prompts 9`,
    );
    expect(records.map(({ failure }) => failure)).toEqual(records.map(() => null));
    const lengths = records.map(({ inputTokens }) => inputTokens).sort((a, b) => a - b);
    // A second turn has the first turn, its answer of four tokens, and eight new tokens.
    expect(lengths.at(-1)).toBeGreaterThan(lengths[0]! + 8 + 4);
  });

  test("a wrong key is reported with the server's text", async () => {
    const { nothing } = await loaded(`--backend ${backend} --api-key wrong --model m --num-prompts 1 --input-len 4`);
    expect(nothing).toMatch(/status: HTTP 401: /);
  });
});

test("responses of trtllm-serve are measured", async () => {
  const { result } = await loaded(
    "--backend openai-responses --num-prompts 3 --input-len 6 --output-len 4 --check-truth",
    trtllm,
  );
  expect(result).toMatchObject({ completed: 3, failed: 0 });
  expect(result.understudy.truth).toMatchObject({ requests: 3, missing: 0 });
  const { nothing } = await loaded("--backend anthropic-messages --num-prompts 1 --input-len 6", trtllm);
  expect(nothing).toContain("HTTP 404");
});

describe("embeddings", () => {
  test("only whole answers are timed, and no token latency is reported", async () => {
    const { records, result } = await loaded(`--backend openai-embeddings ${SHORT}`);
    expect(records.map(({ failure, usage, inputTokens }) => [failure, usage, inputTokens])).toEqual(
      records.map(() => [null, true, 12]),
    );
    expect(result).toMatchObject({ completed: 6, failed: 0, total_input_tokens: 72, mean_e2el_ms: expect.any(Number) });
    const flat = Object.keys(result).join();
    expect(flat).not.toMatch(/ttft|tpot|itl|output/);
    const {
      distributions = {},
      throughput,
      definitions,
      warnings = [],
      steady,
      timeseries,
      adj,
    } = result.understudy as typeof result.understudy & { readonly throughput: object };
    expect(Object.keys(distributions)).toEqual(["e2el", "e2el_intended", "e2el_eof"]);
    expect([distributions.e2el!.count, distributions.e2el!.min! > 0]).toEqual([6, true]);
    expect(Object.keys(throughput)).toEqual(["input_tokens_per_s", "requests_per_s"]);
    const rest = JSON.stringify([definitions, steady, timeseries, adj]);
    expect(rest).not.toMatch(/ttft|tpot|itl|output_t/);
    expect(warnings.filter((warning) => !warning.includes("late"))).toEqual([]);
    expect(warnings.join()).not.toContain("TTFT");
  });

  test("embeddings of Triton's OpenAI front end are measured", async () => {
    const line = "--backend openai-embeddings --model vllm_model --num-prompts 3 --input-len 6";
    const { result, nothing } = await loaded(line, { url: triton.openai });
    expect([nothing, result.completed]).toEqual([null, 3]);
  });

  test("the command: tables, files and a sweep without columns of zeros", async () => {
    const argv = `--backend openai-embeddings --url ${vllm.url} ${SHORT} --goodput e2el:60000 --json e.json --html e.html --save-detailed`;
    const run = async (line: string) => {
      const child = Bun.spawn([process.execPath, main, "load", ...line.split(" ")], {
        cwd: folder,
        stdout: "pipe",
        stderr: "pipe",
      });
      const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      expect([code, err]).toEqual([0, ""]);
      return out;
    };
    const out = await run(argv);
    expect(out).toMatch(/^Total input tokens: +72 +$/m);
    expect(out).toMatch(/^Mean E2EL \(ms\): +[\d.]+ +$/m);
    expect(out).toMatch(/^goodput +[\d.]+ requests\/s, 100\.0 % of all/m);
    expect(out.replace(/^warning.*$/gm, "")).not.toMatch(/TTFT|TPOT|ITL|generated|Output|per user|NaN|undefined/);
    expect(JSON.parse(readFileSync(join(folder, "e.json"), "utf8"))).toMatchObject({
      completed: 6,
      errors: ["", "", "", "", "", ""],
    });
    const page = readFileSync(join(folder, "e.html"), "utf8");
    const text = page.replace(/<script>[\s\S]*/, "");
    expect(text).toContain("E2E by ");
    expect(text.slice(text.indexOf("</header>"))).not.toMatch(/TTFT|TPOT|ITL|decode|NaN|undefined|tokens\/s/);
    const swept = await run(
      `--backend openai-embeddings --url ${vllm.url} ${SHORT.replace("--concurrency 2", "--sweep concurrency:1,2")}`,
    );
    expect(swept).toMatch(/^concurrency +req\/s +E2EL p50 +E2EL p99 +good$/m);
  });

  test("datasets from files send only their prompts; messages are refused", async () => {
    const file = (name: string, ...rows: object[]) => {
      writeFileSync(join(folder, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
      return `--backend openai-embeddings --api-key ${KEY} --dataset-name custom --dataset-path ${join(folder, name)}`;
    };
    const { records } = await loaded(file("p.jsonl", { prompt: "Hello there" }, { prompt: [5, 6, 7] }));
    expect(records.map(({ failure, inputTokens }) => [failure, inputTokens > 0])).toEqual([
      [null, true],
      [null, true],
    ]);
    const chat = file("m.jsonl", { messages: [{ role: "user", content: "Hi" }] });
    await expect(loaded(chat)).rejects.toThrow("messages are for chats");
    const talk = file("s.jsonl", { session: "a", prompt: "one" }, { session: "a", prompt: "two" });
    await expect(loaded(talk)).rejects.toThrow("which a request for embeddings cannot carry");
  });

  test("a failed request is not in any latency, and infinitely slow in adj", async () => {
    let next = 0;
    const vector = '{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":4}}';
    const ok = `HTTP/1.1 200 OK\r\nContent-Length: ${vector.length}\r\n\r\n${vector}`;
    const server = rawServer((_, wire) =>
      wire.send(next++ % 2 === 0 ? ok : "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    );
    const { result } = await loadOn(server, {
      ...{ dialect: "openai-embeddings", count: 4, stream: false, metrics: ["e2el"] },
      dataset: { name: "random", inputLen: 4 },
    });
    server.stop();
    expect(result).toMatchObject({ completed: 2, failed: 2 });
    expect(Object.keys(result.understudy.adj ?? {})).toEqual(["e2el", "e2el_intended"]);
  });
});

/** A stream that each API accepts as complete. */
const STREAMS: Readonly<Partial<Record<LoadDialect, string>>> = {
  "openai-responses": ["response.output_text.delta", "response.completed"]
    .map((type) => `data: ${JSON.stringify({ type, delta: "a", response: { status: "completed" } })}\n\n`)
    .join(""),
  "anthropic-messages": [
    { type: "content_block_delta", delta: { type: "text_delta", text: "a" } },
    { type: "message_delta", delta: { stop_reason: "end_turn" } },
    { type: "message_stop" },
  ]
    .map((event) => `data: ${JSON.stringify(event)}\n\n`)
    .join(""),
};

/** Returns the paths, headers and bodies that a server receives for a command line. */
async function asked(dialect: LoadDialect, line: string, env: Record<string, string> = {}) {
  const server = rawServer((_, wire) => wire.send(HEAD + chunk(STREAMS[dialect]!) + END));
  const read = settings(`--backend ${dialect} --num-prompts 1 --input-len 4 ${line}`, env);
  if ("error" in read) throw new Error(String(read.error));
  const { nothing } = await loadOn(server, { ...(read as Settings), url: new URL(server.url), metricsUrl: null });
  server.stop();
  expect(nothing).toBeNull();
  return server.asked.map(({ path, headers, body }) => ({ path, headers, body: JSON.parse(body) }));
}

describe("request bodies", () => {
  test("a request for a response has vLLM's fields", async () => {
    const [request] = await asked("openai-responses", "--output-len 5 --temperature 0.5 --api-key k");
    expect([request!.path, request!.headers.get("authorization")]).toEqual(["/v1/responses", "Bearer k"]);
    expect(request!.body).toEqual({
      ...{ model: "m", input: expect.any(String), max_output_tokens: 5, store: false, stream: true },
      ...{ temperature: 0.5, ignore_eos: true },
    });
  });

  test("a request for a message has the headers of Anthropic's clients", async () => {
    const [request] = await asked("anthropic-messages", "--output-len 5 --temperature 0.5", {
      ANTHROPIC_API_KEY: "a",
      OPENAI_API_KEY: "o",
    });
    const { path, headers, body } = request!;
    expect([path, headers.get("x-api-key"), headers.get("authorization"), headers.get("anthropic-version")]).toEqual([
      ...["/v1/messages", "a", "Bearer a", "2023-06-01"],
    ]);
    // Anthropic's servers refuse unknown fields.
    expect(body).toEqual({
      ...{ model: "m", messages: [{ role: "user", content: expect.any(String) }], max_tokens: 5, stream: true },
      temperature: 0.5,
    });
    const [custom] = await asked("anthropic-messages", "--api-key a --header Anthropic-Version=x X-API-Key=b");
    expect([custom!.headers.get("anthropic-version"), custom!.headers.get("x-api-key")]).toEqual(["x", "b"]);
    const [none] = await asked("anthropic-messages", "", { OPENAI_API_KEY: "o" });
    expect([none!.headers.get("authorization"), none!.headers.get("x-api-key")]).toEqual([undefined, undefined]);
  });

  test("system messages have their own field, and a length is required", async () => {
    const path = join(folder, "system.jsonl");
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ];
    writeFileSync(path, `${JSON.stringify({ messages })}\n`);
    const line = `--dataset-name custom --dataset-path ${path}`;
    const read = settings(`--backend anthropic-messages ${line} --output-len 3`) as Settings;
    const server = rawServer((_, wire) => wire.send(HEAD + chunk(STREAMS["anthropic-messages"]!) + END));
    const url = new URL(server.url);
    await loadOn(server, { ...read, url, metricsUrl: null });
    expect(JSON.parse(server.asked[0]!.body)).toMatchObject({
      system: "Be brief.",
      messages: [messages[1]!],
      max_tokens: 3,
    });
    const without = settings(`--backend anthropic-messages ${line}`) as Settings;
    await expect(loadOn(server, { ...without, url, metricsUrl: null })).rejects.toThrow("set --output-len N");
    server.stop();
  });

  test("a server that mentions stream_options is not asked again, if it was not sent", async () => {
    const error = '{"error":{"message":"stream_options: unknown"}}';
    const server = rawServer((_, wire) =>
      wire.send(`HTTP/1.1 400 Bad\r\nContent-Length: ${error.length}\r\n\r\n${error}`),
    );
    await loadOn(server, { dialect: "openai-responses", count: 2 });
    expect(server.asked).toHaveLength(2);
    server.stop();
  });
});

describe("refused with one line", () => {
  test.each([
    ["openai-responses --min-tokens 2", "--min-tokens: not with --backend openai-responses"],
    ["openai-responses --legacy-max-tokens", "--legacy-max-tokens: not with --backend openai-responses"],
    ["anthropic-messages --min-tokens 2", "--min-tokens: not with --backend anthropic-messages"],
    ["anthropic-messages --ignore-eos", "--ignore-eos: not with --backend anthropic-messages"],
    ["anthropic-messages --legacy-max-tokens", "--legacy-max-tokens: not with"],
    [
      "openai-embeddings --output-len 3",
      "--output-len: not with --backend openai-embeddings, whose answers have no tokens",
    ],
    ["openai-embeddings --ignore-eos", "--ignore-eos: not with"],
    ["openai-embeddings --min-tokens 0", "--min-tokens: not with"],
    ["openai-embeddings --temperature 0", "--temperature: not with"],
    ["openai-embeddings --turns 2", "--turns: not with"],
    ["openai-embeddings --think-time 1s", "--think-time: not with"],
    ["openai-embeddings --dataset-name multi_turn", "--dataset-name multi_turn: not with"],
    ["openai-embeddings --check-truth", "--check-truth: not with"],
    ["openai-embeddings --check-truth-log f", "--check-truth-log: not with"],
    ["openai-embeddings --goodput ttft:5", "--goodput: ttft not with"],
    ["openai-embeddings --sweep 1,2 --sweep-until itl:5@90%", "--sweep-until: itl not with"],
    ["openai-embeddings --percentile-metrics ttft,e2el", "--percentile-metrics: ttft not with"],
    ["openai-embedding", "--backend: takes"],
  ])("--backend %s", (line, says) => {
    const { error } = settings(`--backend ${line}`) as { error: string };
    expect(error).toContain(says);
    expect(error).not.toContain("\n");
  });

  test("aiperf's names of the endpoints", () => {
    const backends = ["responses", "messages", "embeddings"].map(
      (name) => (settings(`--endpoint-type ${name}`) as Settings).dialect,
    );
    expect(backends).toEqual(["openai-responses", "anthropic-messages", "openai-embeddings"]);
    expect(settings("--endpoint-type constructor")).toEqual({
      error: '--endpoint-type: takes chat or completions or responses or messages or embeddings, not "constructor"',
    });
  });
});
