/**
 * Tests `understudy load` with small traces in the formats of other tools (test/workloads/traces): its requests and its
 * messages.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../../hosted.ts";
import { main } from "../../program.ts";

setDefaultTimeout(60_000);
const folder = mkdtempSync(join(tmpdir(), "understudy-load-traces-"));
const traceCase = (name: string) => new URL(`../../workloads/traces/${name}`, import.meta.url).pathname;
let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--timing", "none", "--block-size", "16", "--enable-prompt-tokens-details", "traces/model"]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

async function load(...argv: string[]) {
  const json = join(folder, "result.json");
  const all = [main, "load", "--url", server.url, "--json", json, "--no-server-metrics", ...argv];
  const child = Bun.spawn([process.execPath, ...all], { cwd: folder, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, out, err, result: () => JSON.parse(readFileSync(json, "utf8")) };
}

test("bailian: times are seconds, prompts are whole, and the span is printed", async () => {
  const asked = ["--dataset-name", "bailian", "--dataset-path", traceCase("bailian.jsonl"), "--replay-speedup", "1000"];
  const { code, out, err, result } = await load(...asked, "--backend", "openai");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain("\ntrace span: 59.864 s (timestamps in seconds)\n");
  expect(result()).toMatchObject({ completed: 3, total_input_tokens: 130, total_output_tokens: 49 });
});

test("if seconds are read as milliseconds, the printed span shows it, and a warning names the option", async () => {
  const path = join(folder, "seconds.jsonl");
  const rows = [1.25, 3.5, 61.114].map((timestamp) => ({ timestamp, input_length: 20, output_length: 2 }));
  writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
  const asked = ["--dataset-name", "mooncake", "--dataset-path", path];
  const { out } = await load(...asked);
  expect(out).toContain("\ntrace span: 0.06 s (timestamps in milliseconds)\n");
  expect(out).toContain("\nwarning: timestamps were read as milliseconds, but they have fractions");
  const stated = await load(...asked, "--timestamp-unit", "s", "--replay-speedup", "1000");
  expect(stated.out).toContain("\ntrace span: 59.864 s (timestamps in seconds)\n");
  expect(stated.out).not.toContain("warning: timestamps");
});

test("skipped rows are counted by reason; a trace without any request is refused with one line", async () => {
  const asked = ["--dataset-name", "burstgpt", "--dataset-path", traceCase("burst.csv"), "--replay-speedup", "1000"];
  const { out, result } = await load(...asked, "--trace-models", "gpt-4");
  expect(out).toContain(
    "\ntrace span: 1 s (timestamps in seconds)\ndataset: 3 rows, 1 passed over: Model is ChatGPT\n",
  );
  expect(result()).toMatchObject({ completed: 2 });
  const none = await load(...asked);
  expect([none.code, none.out]).toEqual([2, ""]);
  expect(none.err).toContain("no request to send: 3 rows, 3 passed over: Model is gpt-4 (2), Model is ChatGPT (1)");
});

test.each([
  ["big.jsonl", 4, 0],
  ["big2.jsonl.gz", 2, 0],
  ["nohash.jsonl", 2, 0],
  ["delta.jsonl", 3, 592],
])("mooncake rows of %s give the right requests and cached tokens", async (name, completed, cached) => {
  const asked = ["--dataset-name", "mooncake", "--dataset-path", traceCase(name), "--replay-speedup", "10"];
  const { out, result } = await load(...asked, "--seed", name.length.toString(), "--save-detailed");
  expect(out).toContain("\ntrace span: ");
  expect(result()).toMatchObject({ completed });
  const rows = readFileSync(join(folder, "result.requests.jsonl"), "utf8").trim().split("\n");
  const tokens = rows.map((row) => JSON.parse(row).cached_tokens as number).reduce((sum, each) => sum + each, 0);
  // The chat template adds some tokens.
  expect(tokens).toBeWithin(cached, cached + 17);
});

test.each([
  ["weka", 1600, 100],
  ["otel", 120, 30],
])("%s: prompts and answers of the recorded lengths", async (name, input, output) => {
  const asked = ["--dataset-name", name, "--dataset-path", traceCase(`${name}.jsonl`), "--replay-speedup", "1000"];
  const { code, err, result } = await load(...asked, "--backend", "openai");
  expect([code, err]).toEqual([0, ""]);
  expect(result()).toMatchObject({ total_input_tokens: input, total_output_tokens: output });
});
