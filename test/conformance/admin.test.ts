/**
 * Changes a live server through the admin API while a stream runs: timing, admission, fixtures, logs. A rejected change has
 * no effect.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-admin-"));
  writeFileSync(join(folder, "hello.yaml"), "match: { user: Hello }\nanswer: From the folder\n");
  server = await hosted([
    "--served-model-name",
    "m",
    "--timing",
    "constant:ttft=10ms,itl=10ms",
    "--admin-key",
    "secret",
  ]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

const admin = (init: RequestInit = {}, key = "secret") =>
  fetch(`${server.url}/admin/config`, { ...init, headers: { authorization: `Bearer ${key}` } });
const change = (changes: unknown) =>
  admin({ method: "POST", body: typeof changes === "string" ? changes : JSON.stringify(changes) });
const holds = async () => (await (await admin()).json()) as Record<string, unknown>;
const ask = (content = "Hello", more: object = {}) =>
  fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content }], max_tokens: 8, ...more }),
  });
const bodyOf = async (response: Response) =>
  ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content;

test("the path needs the key, and does not exist without the option", async () => {
  expect((await admin({}, "guess")).status).toBe(401);
  expect((await fetch(`${server.url}/admin/config`)).status).toBe(401);
  expect((await admin({ method: "POST", body: "{}" }, "")).status).toBe(401);
  expect((await admin({ method: "DELETE" })).status).toBe(405);
  const plain = await hosted(["--timing", "none"]);
  expect((await fetch(`${plain.url}/admin/config`)).status).toBe(404);
  await plain.stop();
});

test("the timing changes during a stream, and its text does not", async () => {
  const wanted = { max_tokens: 120, seed: 4, ignore_eos: true };
  const whole = await bodyOf(await ask("Tell", wanted));
  const stream = await ask("Tell", { ...wanted, stream: true });
  const times: number[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of stream.body!) {
    for (const line of decoder.decode(bytes, { stream: true }).split("\n")) {
      const piece = /"delta":(\{.*?\})[,}]/.exec(line)?.[1];
      if (piece === undefined) continue;
      text += (JSON.parse(piece) as { content?: string }).content ?? "";
      times.push(performance.now());
    }
    if (times.length === 20)
      expect((await change({ timing: "constant:ttft=100ms,itl=100ms", speed: 20 })).status).toBe(200);
  }
  expect(text).toBe(whole);
  expect(await holds()).toMatchObject({ timing: "constant:ttft=100ms,itl=100ms", speed: 20 });
  const median = (list: number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!;
  const gaps = times.slice(1).map((at, i) => at - times[i]!);
  expect(median(gaps.slice(30))).toBeLessThan(median(gaps.slice(2, 18)) * 0.8);
  await change({ timing: "constant:ttft=10ms,itl=10ms", speed: null });
});

test("pages with the engine's configuration show the current timing", async () => {
  const flags = "--served-model-name m --timing constant:ttft=1ms,itl=1ms --jitter 0.2 --admin-key secret".split(" ");
  const server = await hosted(flags, { VLLM_SERVER_DEV_MODE: "1" });
  const stated = async () => {
    const info = (await (await fetch(`${server.url}/server_info?config_format=json`)).json()) as {
      vllm_config: object;
    };
    const lines = (await (await fetch(`${server.url}/understudy/requests`)).text()).split("\n");
    return { info: info.vllm_config, header: (JSON.parse(lines[0]!) as { engine: object }).engine };
  };
  const pace = (ttftUs: number) => ({ timing: { kind: "constant", ttftUs, itlUs: 1000 } });
  const before = { ...pace(1000), noise: { jitterSigma: 0.2 } };
  expect(await stated()).toMatchObject({ info: before, header: before });
  const body = JSON.stringify({ timing: "constant:ttft=9ms,itl=1ms", jitter: null, speed: 3 });
  const headers = { authorization: "Bearer secret" };
  expect((await fetch(`${server.url}/admin/config`, { method: "POST", headers, body })).status).toBe(200);
  const after = { ...pace(9000), speed: 3 };
  const { info, header } = await stated();
  expect({ info, header }).toMatchObject({ info: after, header: after });
  expect([info, header].filter((engine) => "noise" in engine)).toEqual([]);
  await server.stop();
});

test("admission limits apply from the next request on, with the refusal that the change sets", async () => {
  await change({ "limit-concurrency": 1, "overload-status": 429, "retry-after": 3 });
  const first = ask("Tell", { max_tokens: 100, ignore_eos: true });
  await Bun.sleep(100);
  const refused = await ask();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3"]);
  await change({ "limit-concurrency": null, "overload-status": null, "retry-after": null });
  expect((await ask()).status).toBe(200);
  expect((await first).status).toBe(200);
});

test("vLLM's queue limits can be set and removed", async () => {
  await change({ "max-num-queued-reqs": 1 });
  const first = ask("Tell", { max_tokens: 100, ignore_eos: true });
  await Bun.sleep(100);
  expect((await ask()).status).toBe(503);
  await change({ "max-num-queued-reqs": null });
  expect((await ask()).status).toBe(200);
  await first;
});

test("waiting prompts are limited by their tokens", async () => {
  await change({ timing: "constant:ttft=500ms,itl=1ms", "max-num-queued-tokens": 1 });
  const both = async () => (await Promise.all([ask(), ask()])).map(({ status }) => status).toSorted();
  expect(await both()).toEqual([200, 503]);
  await change({ "max-num-queued-tokens": null });
  expect(await both()).toEqual([200, 200]);
  await change({ timing: "constant:ttft=10ms,itl=10ms" });
});

test("streams are limited, and each form of refusal has the time of a retry", async () => {
  const long = { max_tokens: 100, ignore_eos: true, stream: true };
  await change({ "max-streams": 1, "retry-after": 2, "retry-after-form": ["ms", "date"] });
  const first = await ask("Tell", long);
  const refused = await ask("Tell", long);
  expect([refused.status, refused.headers.get("retry-after-ms")]).toEqual([503, "2000"]);
  expect(refused.headers.get("retry-after")).toEndWith(" GMT");
  expect((await ask()).status).toBe(200);
  await change({ "max-streams": null, "retry-after": null, "retry-after-form": null });
  const second = await ask("Tell", long);
  expect(second.status).toBe(200);
  await Promise.all([first.text(), second.text()]);
});

test("random faults can be started and stopped", async () => {
  const stream = async () => (await ask("Tell", { stream: true })).text();
  expect((await change({ "fault-rate": 100, "fault-types": ["S3"] })).status).toBe(200);
  expect(await stream()).toStartWith("data:{");
  await change({ "fault-rate": null, "fault-types": null });
  expect(await stream()).toStartWith("data: {");
});

test("a new folder of fixtures is watched, and a missing one changes nothing", async () => {
  const before = await holds();
  const missing = await change({ fixtures: join(folder, "nowhere"), speed: 3 });
  expect(missing.status).toBe(400);
  expect(await missing.json()).toMatchObject({ error: { param: "fixtures" } });
  expect(await holds()).toEqual(before);
  expect((await change({ fixtures: folder })).status).toBe(200);
  expect(await bodyOf(await ask())).toBe("From the folder");
  await change({ fixtures: null });
  expect(await bodyOf(await ask())).not.toBe("From the folder");
});

test("logs can be switched on and off", async () => {
  const lines = () =>
    server
      .output()
      .split("\n")
      .filter((line) => line.includes("/v1/chat/completions HTTP")).length;
  await change({ "disable-uvicorn-access-log": true });
  const before = lines();
  await ask();
  await change({ "disable-uvicorn-access-log": false, "enable-log-requests": true });
  await ask("Heard");
  await eventually(() => lines() === before + 1 && server.output().includes("Received request"));
  await change({ "enable-log-requests": null });
});

test("the log level changes during a stream, and above info requests have no line", async () => {
  const logged = (mark: string) => server.output().includes(`${mark} HTTP`);
  const stream = await ask("Tell", { max_tokens: 60, ignore_eos: true, stream: true });
  expect((await change({ "uvicorn-log-level": "warning" })).status).toBe(200);
  await fetch(`${server.url}/health?quiet`);
  expect((await change({ uvicorn_log_level: "loud" })).status).toBe(400);
  expect(await holds()).toMatchObject({ "uvicorn-log-level": "warning" });
  await change({ "uvicorn-log-level": "debug" });
  await fetch(`${server.url}/health?loud`);
  await eventually(() => logged("/health?loud"));
  expect(logged("/health?quiet")).toBe(false);
  expect(await stream.text()).toEndWith("data: [DONE]\n\n");
  await change({ "uvicorn-log-level": null });
});

test.each([
  ["no JSON", null],
  ["[1]", null],
  ['{"speed": 2, "max-num-seqs": 1}', "max-num-seqs"],
  ['{"timing": "none"}', "timing"],
  ['{"jitter": 9}', "jitter"],
])("%s changes nothing", async (body, param) => {
  const before = await holds();
  const answer = await change(body);
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ error: { param, code: 400 } });
  expect(await holds()).toEqual(before);
});

test("--admin-key and --workers exclude each other", async () => {
  const child = Bun.spawn([process.execPath, main, "serve", "--admin-key", "k", "--workers", "2"], {
    cwd: new URL("../../", import.meta.url).pathname,
    stderr: "pipe",
  });
  const complaint = await new Response(child.stderr).text();
  expect(await child.exited).toBe(2);
  expect(complaint).toContain("--admin-key: changes one process");
});

test("--compat llm-d-inference-sim: its latency keys change together or not at all", async () => {
  const flags = "--compat llm-d-inference-sim --host 127.0.0.1 --model m --admin-key secret --inter-token-latency 1us";
  const like = await hosted(flags.split(" "));
  const config = async (changes?: object) => {
    const body = changes === undefined ? {} : { method: "POST", body: JSON.stringify(changes) };
    const answer = await fetch(`${like.url}/admin/config`, { ...body, headers: { authorization: "Bearer secret" } });
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> & { error?: object } };
  };
  const tookMs = async (more: object = {}) => {
    const before = performance.now();
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 2, ignore_eos: true, ...more });
    await (await fetch(`${like.url}/v1/completions`, { method: "POST", headers, body })).text();
    return performance.now() - before;
  };
  await tookMs();
  expect(await tookMs()).toBeLessThan(400);
  const changed = await config({ "time-to-first-token": "400ms", "inter-token-latency": "100ms" });
  expect(changed).toMatchObject({ status: 200, json: { "time-to-first-token": "400ms", "prefill-overhead": null } });
  expect(await tookMs()).toBeGreaterThan(490);
  const refused = await config({ "inter-token-latency": "1ms", "time-to-first-token-std-dev": "200ms" });
  expect(refused).toMatchObject({ status: 400, json: { error: { param: "time-to-first-token-std-dev" } } });
  expect((await config()).json).toEqual(changed.json);
  await config({ "time-to-first-token": null, "inter-token-latency": "1us", "kv-cache-transfer-latency": "400ms" });
  expect(await tookMs({ kv_transfer_params: { do_remote_prefill: true } })).toBeGreaterThan(390);
  await like.stop();
});
