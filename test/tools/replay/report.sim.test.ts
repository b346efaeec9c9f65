/** Tests that the page of a replay shows its results and single requests, in bounded memory. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Finish } from "../../../src/engine/interface/types.ts";
import type { RequestTimeline } from "../../../src/engine/observer.ts";
import { Moments } from "../../../src/tools/replay/report.ts";
import { RequestSample } from "../../../src/tools/replay/sample.ts";
import type { PageData } from "../../../src/tools/report/plot.ts";
import { main } from "../../program.ts";
import { factsOf } from "../../truth/simulated-run.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-replay-html-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = (name: string) => join(folder, name);

/** Runs a replay. Returns the page, its data and its text, and the results. */
function replay(...argv: string[]): { data: PageData; text: string; page: string; results: Record<string, never> } {
  const command = [process.execPath, main, "replay", ...argv, "--html", path("page.html"), "--json", path("r.json")];
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: folder });
  expect([exitCode, stderr.toString()]).toEqual([0, ""]);
  const page = readFileSync(path("page.html"), "utf8");
  const [, json = ""] = /id="data">([\s\S]*?)<\/script>/.exec(page) ?? [];
  const text = page
    .replace(/<(style|script)[\s\S]*?<\/\1>/g, "")
    .replace(/<[^>]+>/g, " ")
    .replace(/\s+/g, " ");
  return { data: JSON.parse(json), text, page, results: JSON.parse(readFileSync(path("r.json"), "utf8")) };
}

test("the page has the exact times of each request's start, first token and end", () => {
  const format = "synthetic:isl=64,osl=3,concurrency=1,requests=3";
  const { data, text } = replay(format, "--timing", "constant:ttft=10ms,itl=10ms");
  expect(data.waterfall).toMatchObject({
    intended: [null, null, null],
    send: [0, 0.03, 0.06],
    first: [0.01, 0.04, 0.07],
    last: [0.03, 0.06, 0.09],
    inputTokens: [64, 64, 64],
    outputTokens: [3, 3, 3],
    failure: ["", "", ""],
  });
  expect(text).toContain("Requests 33.3 /s");
  expect(text).toContain("all 3 requests, one bar each");
  expect(text).toMatch(/TTFT 10 (10\.0\d ){6}3/);
});

test("the page has the numbers of the results, and two runs give the same page", () => {
  const argv = ["synthetic:isl=500-1500,osl=50-150,rate=30,requests=300", "--max-num-seqs", "8"];
  const { page, text, results } = replay(...argv);
  const {
    ttft_ms: ttft,
    requests,
    throughput,
  } = results as unknown as {
    ttft_ms: Record<string, number>;
    requests: Record<string, number>;
    throughput: Record<string, number>;
  };
  expect(text).toContain(`completed ${requests.finished}`);
  expect(text).toContain(
    `request_throughput ${throughput.requests_per_s!.toLocaleString("en-US", { maximumFractionDigits: 3 })}`,
  );
  const [p50, p90] = [ttft.p50!, ttft.p90!].map((ms) => Math.round(ms).toLocaleString("en-US"));
  expect(text).toMatch(new RegExp(`TTFT [\\d,.]+ [\\d,.]+ ${p50}(\\.\\d+)? ${p90}(\\.\\d+)? `));
  expect(replay(...argv).page).toBe(page);
});

test("the page, the JSON and the terminal show model and timing", () => {
  const trace = "synthetic:isl=10,osl=2,concurrency=1,requests=2";
  const preset = replay(trace, "--model", "Qwen/Qwen3-32B", "--timing", "llama-3.1-8b-bf16-h100-tp1-vllm");
  const timing = "preset llama-3.1-8b-bf16-h100-tp1-vllm, 12 ms a request before the queue";
  expect(preset.text).toContain(`Model Qwen/Qwen3-32B timing ${timing}`);
  expect(preset.results).toMatchObject({ model: "Qwen/Qwen3-32B", timing });
  const { stdout } = Bun.spawnSync([process.execPath, main, "replay", trace, "--timing", "constant:ttft=9ms,itl=3ms"]);
  expect(stdout.toString()).toContain("\nmeta-llama/Llama-3.1-8B-Instruct; timing constant: TTFT 9 ms, ITL 3 ms\n");
});

test("the page marks requests whose clients left, and unfinished requests", () => {
  const { data } = replay(
    "synthetic:isl=10,osl=100,rate=20,requests=60",
    "--timing",
    "constant:ttft=10ms,itl=10ms",
    "--client-timeout",
    "0.5",
    "--until",
    "2",
  );
  const kinds = new Set(data.waterfall!.failure.map((failure) => failure.split(":")[0]));
  expect(kinds).toEqual(new Set(["left", "unfinished"]));
});

test("of many requests an evenly spaced sample is kept, with token times", () => {
  const sample = new RequestSample();
  const observer = sample.observer();
  for (let step = 1; step <= 100_000; step++) {
    observer.step(factsOf(step, { dueUs: step * 10 }));
    const timeline = {
      id: `${step}`,
      arrivalUs: step * 10 - 20,
      scheduledUs: step * 10 - 15,
      prefillEndUs: step * 10,
      endUs: step * 10,
      promptTokens: 5,
      outputTokens: 2,
      runs: [step - 1, 2, 1],
      reason: Finish.Length,
    };
    observer.request(timeline as unknown as RequestTimeline);
  }
  expect(sample.seen).toBe(100_000);
  expect(sample.records.length).toBeGreaterThan(1900);
  expect(sample.records.length).toBeLessThanOrEqual(4000);
  const gaps = new Set(sample.records.slice(1).map(({ index }, i) => index - sample.records[i]!.index));
  expect(gaps.size).toBe(1);
  const { chunkUs, endUs } = sample.records.at(-1)!;
  expect([...(chunkUs as Float64Array)]).toEqual([endUs - 10, endUs]);
});

test("of many points in time, evenly spaced ones are kept, as many as plots need", () => {
  const moments = new Moments();
  const counts = { arrived: 0, finished: 0, left: 0, cut: 0, tooLong: 0, busy: 0 };
  for (let second = 1; second <= 30_000; second++) moments.row(second * 1e6, [], counts);
  expect(moments.run.length).toBeGreaterThan(2000);
  expect(moments.run.length).toBeLessThanOrEqual(4096);
  expect(moments.server.map(({ t }) => t)).toEqual(moments.run.map(({ t }) => t));
  expect(new Set(moments.run.slice(1).map(({ t }, i) => t - moments.run[i]!.t)).size).toBe(1);
});
