/** Tests that the scrapes of a replay are like those of a server with the same load, with every end counted once. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dialectNames } from "../../../src/metrics/rows/dialect-names.ts";
import type { Results } from "../../../src/tools/replay/results.ts";
import { main } from "../../program.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-scrapes-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = (name: string) => join(folder, name);

function replay(...argv: string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv], { cwd: folder });
  return { exitCode, out: stdout.toString(), err: stderr.toString() };
}

interface Point {
  readonly name: string;
  readonly labels: string;
  readonly value: number;
  readonly atS: number;
}
const pointsOf = (text: string): Point[] =>
  [...text.matchAll(/^([a-zA-Z_:][\w:]*)\{(.*)\} (\S+) (\S+)$/gm)].map(([, name, labels, value, atS]) => ({
    name: name!,
    labels: labels!,
    value: Number(value),
    atS: Number(atS),
  }));

// Long answers for impatient clients on a small KV pool: aborts in every state, preemptions, and refused prompts.
const LOAD = [
  "--format",
  "synthetic:isl=20-4200,osl=1-600,rate=12,requests=600",
  ...["--max-model-len", "4096", "--num-gpu-blocks-override", "600", "--max-num-seqs", "48"],
  ...["--stop-share", "0.5", "--client-timeout", "0.5-30"],
];

describe("a load with every kind of end", () => {
  const files = ["json", "metrics", "openmetrics"] as const;
  const run = (n: number, ...options: string[]) => {
    const { exitCode, err } = replay(
      ...LOAD,
      ...options,
      ...files.flatMap((name) => [`--${name}`, path(`${name}.${n}`)]),
    );
    expect([exitCode, err]).toEqual([0, ""]);
    return files.map((name) => readFileSync(path(`${name}.${n}`), "utf8")) as [string, string, string];
  };
  const [json, page, history] = run(1);
  const { requests, preemptions, tokens, duration_s } = JSON.parse(json) as Results;
  const points = pointsOf(history);

  test("a second run writes the same bytes, and scraping does not change the results", () => {
    expect(run(2)).toEqual([json, page, history]);
    const { exitCode } = replay(...LOAD, "--json", path("unread.json"));
    expect(exitCode).toBe(0);
    expect(readFileSync(path("unread.json"), "utf8")).toBe(json);
  });

  test("each end is counted once, and ends of every kind occur", () => {
    const { arrived, finished, left, unfinished, refused } = requests;
    expect(Math.min(finished, left, refused.too_long, preemptions)).toBeGreaterThan(0);
    expect(arrived).toBe(finished + left + unfinished + refused.too_long + refused.busy);
    const outcome = (name: string) =>
      Number(new RegExp(`^understudy_requests_total\\{outcome="${name}"\\} (\\S+)$`, "m").exec(page)![1]);
    expect(outcome("stop")).toBeGreaterThan(0);
    expect(outcome("length")).toBeGreaterThan(0);
    expect(outcome("stop") + outcome("length")).toBe(finished);
    expect([outcome("abort"), outcome("refused")]).toEqual([left, refused.too_long + refused.busy]);
    const http = (status: string) =>
      Number(new RegExp(`^http_requests_total\\{.*status="${status}"\\} (\\S+)$`, "m").exec(page)?.[1] ?? 0);
    expect([http("2xx"), http("4xx"), http("5xx")]).toEqual([finished + left, refused.too_long, refused.busy]);
    expect(page).toContain("\nunderstudy_requests_open 0.0\n");
    expect(page).toContain("\nunderstudy_streams_open 0.0\n");
  });

  test("each dialect is scraped every 15 s, from the start to the first idle scrape", () => {
    const times = (job: string) =>
      points.filter(({ name, labels }) => name === "up" && labels.startsWith(`job="${job}",`)).map(({ atS }) => atS);
    const last = Math.floor(duration_s / 15) * 15 + 15;
    for (const name of dialectNames) {
      expect([name, times(name)]).toEqual([name, Array.from({ length: last / 15 + 1 }, (_, n) => n * 15)]);
    }
    const at = (wanted: number, name: string) =>
      points.filter((point) => point.atS === wanted && point.name === name).reduce((sum, { value }) => sum + value, 0);
    expect(at(15, "vllm:num_requests_running")).toBeGreaterThan(0);
    for (const gauge of ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]) {
      expect([gauge, at(last, `vllm:${gauge}`)]).toEqual([gauge, 0]);
    }
    expect(at(last, "vllm:generation_tokens_total")).toBe(tokens.generated);
  });

  test("the last scrape equals the page", () => {
    const last = Math.max(...points.map(({ atS }) => atS));
    const known = new Map(
      points.filter(({ atS }) => atS === last).map(({ name, labels, value }) => [`${name} ${labels}`, value]),
    );
    const lines = [...page.matchAll(/^(vllm:\w+)\{(.*)\} (\S+)$/gm)];
    expect(lines.length).toBeGreaterThan(300);
    for (const [, name, labels, value] of lines) {
      expect([name, labels, known.get(`${name} job="vllm",instance="127.0.0.1:8000",${labels}`)]).toEqual([
        name,
        labels,
        Number(value),
      ]);
    }
  });
});

test("options set the interval, the dialects and the start time", () => {
  const { exitCode } = replay(
    ...["--format", "synthetic:isl=9,osl=90,rate=2,requests=9", "--openmetrics", path("few")],
    ...["--scrape-interval", "500ms", "--dialects", "understudy", "--start-time", "1767225600", "--until", "2"],
  );
  expect(exitCode).toBe(0);
  const points = pointsOf(readFileSync(path("few"), "utf8"));
  expect(new Set(points.map(({ labels }) => /job="(\w+)"/.exec(labels)![1]))).toEqual(new Set(["understudy"]));
  expect(points.filter(({ name }) => name === "up").map(({ atS }) => atS - 1767225600)).toEqual([0, 0.5, 1, 1.5, 2]);
  expect(existsSync(path("few.spool"))).toBe(false);
});

const SYNTHETIC = ["--format", "synthetic:isl=9,osl=9,rate=9,requests=9"];
test.each([
  [["--scrape-interval", "0"], "--scrape-interval: takes a time from 1ms to 1h, as 15s"],
  [["--dialects", "vllm,none"], "--dialects: takes names with commas between them: vllm,"],
  [["--client-timeout", "9-3"], "--client-timeout: takes seconds, as 30, or a range, as 5-60"],
  [["--stop-share", "2"], "--stop-share: takes a number from 0 to 1"],
  [["--start-time", "now"], "--start-time: takes a number from 0"],
  [["--openmetrics", join(folder, "no", "such")], `cannot write "${join(folder, "no", "such")}" (ENOENT)`],
])("%j is refused with one line and exit code 2", (argv, line) => {
  const { exitCode, err, out } = replay(...SYNTHETIC, ...argv);
  expect(err).toContain(line);
  expect(err.trimEnd().split("\n")).toHaveLength(1);
  expect([exitCode, out]).toEqual([2, ""]);
});
