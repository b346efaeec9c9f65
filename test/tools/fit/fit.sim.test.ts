/** Tests that a fit recovers an engine's coefficients from benchmark results, and which inputs it refuses. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type FitResult, fitRuns, type Linear, replay } from "../../../src/cli/timing/fit-replay.ts";
import { engineConfig } from "../../../src/embed/options.ts";
import { parseTiming } from "../../../src/engine/timing/parse-timing.ts";
import { readRuns } from "../../../src/tools/fit/read.ts";
import { release } from "../../engine/simulated-engine.ts";
import { main } from "../../program.ts";
import { sampled, times } from "../../size.ts";
import { Benchmark, type BenchmarkOptions } from "./benchmark.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-fit-"));
afterAll(() => rmSync(folder, { recursive: true }));
const root = new URL("../../../", import.meta.url).pathname;

const { engine } = engineConfig({});
const KNOWN: Linear = { kind: "linear", baseUs: 6000, prefillUs: 21, decodeUs: 45, requestOverheadUs: 9000 };

function bench(options: Partial<BenchmarkOptions>, timing = KNOWN): Benchmark {
  const common = { requests: 200, input: [100, 2000], output: [50, 200] } as const;
  return new Benchmark({ ...common, ...options, config: { timing, ...options.config } });
}

function fit(...texts: string[]): FitResult {
  const runs = texts.flatMap((text, i) => readRuns(text, `run ${i}`));
  return fitRuns(runs, engine.maxNumScheduledTokens, (run, timing) => replay(run, { ...engine, timing }, release))!;
}

/** Largest accepted errors: shares of the coefficients, and microseconds of the overhead. */
interface Errors {
  readonly base: number;
  readonly prefill: number;
  readonly decode: number;
  readonly overheadUs: number;
}

function expectNear({ timing }: FitResult, known: Linear, errors: Errors): void {
  const share = (found: number, right: number) => Math.abs(found / right - 1);
  expect(share(timing.baseUs, known.baseUs)).toBeLessThan(errors.base);
  expect(share(timing.prefillUs, known.prefillUs)).toBeLessThan(errors.prefill);
  expect(share(timing.decodeUs, known.decodeUs)).toBeLessThan(errors.decode);
  expect(Math.abs(timing.requestOverheadUs! - known.requestOverheadUs!)).toBeLessThan(errors.overheadUs);
}

describe("each token's time (vllm bench serve --save-detailed, understudy load)", () => {
  test("random coefficients, from a closed loop and single requests: within 0.5, 1 and 3 %, and 0.2 ms", () => {
    const coefficients = fc.record({
      baseUs: fc.integer({ min: 2000, max: 30_000 }),
      prefillUs: fc.integer({ min: 5, max: 60 }),
      decodeUs: fc.integer({ min: 20, max: 150 }),
      requestOverheadUs: fc.integer({ min: 500, max: 20_000 }),
    });
    const property = fc.property(coefficients, fc.boolean(), fc.nat(1000), (found, asyncScheduling, seed) => {
      const known: Linear = { kind: "linear", ...found };
      const closed = bench({ concurrency: 24, seed, config: { asyncScheduling } }, known);
      const alone = bench({ concurrency: 1, requests: 20, seed, config: { asyncScheduling } }, known);
      const answer = fit(closed.vllm(true), alone.vllm(true));
      expectNear(answer, known, { base: 0.005, prefill: 0.01, decode: 0.03, overheadUs: 200 });
      expect([answer.solution.open, answer.fromReplays]).toEqual([[], []]);
    });
    fc.assert(property, { numRuns: times(8) });
  });

  test("a network that adds up to 0.8 ms to each time: within 0.5, 2 and 4 %, and 0.6 ms", () => {
    const networkUs = 800;
    const answer = fit(
      bench({ concurrency: 32, networkUs }).vllm(true),
      bench({ concurrency: 1, requests: 40, networkUs }).vllm(true),
    );
    expectNear(answer, KNOWN, { base: 0.005, prefill: 0.02, decode: 0.04, overheadUs: 600 });
    expect(answer.solution.meanError).toBeLessThan(0.02);
  });

  test("an open loop includes requests that run alone", () => {
    const answer = fit(bench({ rate: 5 }).vllm(true, { understudy: {} }));
    expectNear(answer, KNOWN, { base: 1e-4, prefill: 1e-3, decode: 1e-3, overheadUs: 5 });
  });

  test("if no request runs alone, the overhead is found by replays", () => {
    const answer = fit(bench({ concurrency: 32 }).vllm(true));
    expectNear(answer, KNOWN, { base: 0.005, prefill: 0.01, decode: 0.02, overheadUs: 1000 });
    expect(answer.fromReplays).toEqual(["overhead"]);
  });

  test("the fit also works if a little more overhead costs a whole step", () => {
    const config = { maxNumBatchedTokens: 2048, maxNumScheduledTokens: 2048 };
    const runs = readRuns(bench({ concurrency: 16, input: [100, 5000], config }).vllm(true), "run");
    const small = { ...engine, ...config };
    const { timing } = fitRuns(runs, 2048, (run, tried) => replay(run, { ...small, timing: tried }, release))!;
    const { ttftUs } = replay(runs[0]!, { ...small, timing }, release);
    expect(Math.abs(ttftUs / runs[0]!.ttftUs - 1)).toBeLessThan(0.05);
  });

  test("prompts longer than a step pay the base for each of their steps", () => {
    const config = { maxNumBatchedTokens: 1000, maxNumScheduledTokens: 1000 };
    const runs = readRuns(bench({ concurrency: 1, requests: 60, input: [100, 5000], config }).vllm(true), "run");
    const answer = fitRuns(runs, 1000, () => ({ ttftUs: 1, tpotUs: 1 }))!;
    // Steps of a prompt have a base but no decode, so requests that run one at a time are enough to separate the two.
    expectNear(answer, KNOWN, { base: 0.001, prefill: 0.002, decode: 0.02, overheadUs: 50 });
  });

  test("failed requests are skipped, chunks of several tokens are spread evenly", () => {
    const json = JSON.parse(bench({ rate: 5 }).vllm(true));
    json.ttfts[3] = 0;
    json.output_lens[3] = 0;
    json.itls[3] = [];
    // Every second token gap of one request came together with the next one.
    json.itls[5] = json.itls[5].flatMap((gap: number, i: number, all: number[]) =>
      i % 2 ? [] : [gap + (all[i + 1] ?? 0)],
    );
    const [run] = readRuns(JSON.stringify(json), "run");
    expect(run!.completed).toBe(199);
    expect(run!.requests!.filter(({ laterUs }) => laterUs === null)).toHaveLength(1);
    expectNear(fit(JSON.stringify(json)), KNOWN, { base: 0.01, prefill: 0.02, decode: 0.05, overheadUs: 200 });
  });
});

describe("only means", () => {
  const fixed = { input: [1000, 1000], output: [128, 128], networkUs: 300 } as const;
  const means = (concurrency: number) => bench({ ...fixed, concurrency, requests: Math.max(20, concurrency * 8) });

  const written = [
    ["vllm bench serve", (benchmark: Benchmark) => benchmark.vllm(false)],
    ["aiperf", (benchmark: Benchmark) => benchmark.aiperf()],
  ] as const;

  test.each(sampled("properties", written, 1))(
    "equal lengths, written by %s: replays find all coefficients, within 0.5, 1 and 2 %%, and 0.5 ms",
    (_, textOf) => {
      const answer = fit(...[1, 4, 16, 64].map((concurrency) => textOf(means(concurrency))));
      expectNear(answer, KNOWN, { base: 0.005, prefill: 0.01, decode: 0.02, overheadUs: 500 });
      expect(answer.fromReplays).toEqual(["base", "prefill", "decode", "overhead"]);
    },
  );
});

test("a record per request of aiperf: within 0.5, 2 and 5 %, and 0.4 ms", () => {
  const answer = fit(bench({ rate: 5, networkUs: 300 }).aiperfRecords());
  expectNear(answer, KNOWN, { base: 0.005, prefill: 0.02, decode: 0.05, overheadUs: 400 });
});

describe("the command", () => {
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const run = (...words: string[]) => {
    const command = [process.execPath, main, "timing", "fit", ...words];
    const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: root });
    return { exitCode, out: stdout.toString(), error: stderr.toString() };
  };
  const open = () => file("open.json", bench({ rate: 5 }).vllm(true));

  test("prints a value for --timing, and a report on standard error", () => {
    const { exitCode, out, error } = run(open());
    expect(exitCode).toBe(0);
    expect(out).toBe("linear:base=6ms,prefill=0.021ms,decode=0.045ms,overhead=9ms\n");
    expect(parseTiming(out.trim())).toEqual(KNOWN);
    expect(error).toContain("step times: mean error 0.0 %");
    expect(error).toMatch(/open\.json \(vllm bench serve\) +200 +(\d+\.\d+) +\1 +0\.0 % +(\d+\.\d+) +\2 +0\.0 %/);
  });

  test("--json, several runs in a file, and the engine's own flags", () => {
    const lines = [bench({ concurrency: 8 }).vllm(true), bench({ concurrency: 1, requests: 9 }).vllm(true)].join("\n");
    const { exitCode, out, error } = run(file("appended.jsonl", lines), "--json", "--max-num-seqs", "100");
    expect([exitCode, error]).toEqual([0, ""]);
    const json = JSON.parse(out);
    expect(json).toMatchObject({ schema: "understudy-timing-fit/1", undetermined: [], from_replays: [] });
    expect(json.runs.map(({ source }: { source: string }) => source.split(":").at(-1))).toEqual(["1", "2"]);
    expect(parseTiming(json.timing)).toEqual(json.step);
    for (const { ttft_ms: ttft, tpot_ms: tpot } of json.runs) {
      for (const { measured, replayed } of [ttft, tpot]) expect(Math.abs(replayed / measured - 1)).toBeLessThan(0.02);
    }
  });

  test("reports coefficients that it cannot determine", () => {
    const { error, out } = run(file("alone.json", bench({ concurrency: 1, requests: 20 }).vllm(true)));
    expect(error).toContain("decode is 0: it cannot be separated from base");
    expect(out).toBe("linear:base=6.045ms,prefill=0.021ms,decode=0ms,overhead=8.955ms\n");
  });

  test("reports if there are too few means to compute an error", () => {
    const files = [1, 8, 16].map((concurrency) =>
      file(`means-${concurrency}.json`, bench({ concurrency, requests: 16, input: [500, 500] }).vllm(false)),
    );
    const warning = "as many coefficients as means, so these errors prove nothing";
    expect(run(...files.slice(0, 2)).error).toContain(warning);
    const { error } = run(...files);
    expect(error).not.toContain(warning);
    expect(error).toContain("all coefficients are from replays, because the results have only means");
  });

  test("a folder of a proxy: as exact as a benchmark's lists, with usage or without", () => {
    const records = (name: string, files: Record<string, string>) => {
      mkdirSync(join(folder, name));
      for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, name, file), text);
      return join(folder, name);
    };
    const load = bench({ rate: 5, requests: 60 });
    const failed = {
      match: {},
      answer: { recorded: { status: 503, headers: {}, events: [[1, "{}"]], broken: false } },
    };
    const others = { "a.json": JSON.stringify(failed), "b.json": "{}", "c.json": "none", "d.yaml": "fixtures: []" };
    for (const usage of [true, false]) {
      const { exitCode, out, error } = run(records(`passed-${usage}`, { ...load.records(usage), ...others }));
      expect([exitCode, out]).toEqual([0, run(file("same.json", load.vllm(true))).out]);
      expect(error).toMatch(
        usage ? /passed-true \(proxy\) +60 / : /passed-false \(proxy, 60 prompts counted here\) +60 /,
      );
    }
  });

  test.each<[string, () => string[], string]>([
    ["nothing", () => [], "needs one or more results of a benchmark"],
    ["no file", () => ["nowhere.json"], '"nowhere.json": cannot be read (ENOENT)'],
    [
      "a file that is too large",
      () => {
        const path = file("large.json", "");
        truncateSync(path, 300 * 2 ** 20);
        return [path];
      },
      "is larger than 256 MiB",
    ],
    ["an empty file", () => [file("empty.json", "")], "empty.json: is empty; expected a result of vllm bench serve"],
    ["another file", () => [file("other.json", "{}")], "other.json: expected a result of vllm bench serve"],
    ["no JSON", () => [file("text.txt", "{\nhello")], "text.txt:1: expected a JSON object"],
    ["a list", () => [file("list.json", "[1]")], "list.json:1: expected a JSON object"],
    [
      "lists that do not fit",
      () => [file("short.json", bench({ rate: 5, requests: 3 }).vllm(true, { input_lens: [1] }))],
      "short.json: expected lists of one length under input_lens",
    ],
    [
      "a run that failed",
      () => [file("failed.json", bench({ rate: 5, requests: 3 }).vllm(true, { ttfts: [0, 0, 0] }))],
      "failed.json: expected a request that was answered",
    ],
    [
      "means that are missing",
      () => [file("means.json", bench({ rate: 5, requests: 3 }).vllm(false, { mean_tpot_ms: null }))],
      "means.json: expected a result with completed requests, duration, tokens",
    ],
    [
      "answers of one token",
      () => [file("one.json", bench({ rate: 5, requests: 3, output: [1, 1] }).vllm(true))],
      "one.json: no request has two tokens",
    ],
    ["a folder without records", () => [join(root, "docs")], "has no records of understudy proxy --record"],
    [
      "records that tell no times",
      () => {
        const passed = join(folder, "whole");
        mkdirSync(passed);
        const recorded = { status: 200, headers: {}, events: [[9, "{}"]], broken: false };
        file("whole/1.json", JSON.stringify({ answer: { recorded } }));
        return [passed];
      },
      "none of 1 records is a stream that was answered to its end",
    ],
    [
      "a record that is none",
      () => {
        const passed = join(folder, "none");
        mkdirSync(passed);
        file("none/1.json", JSON.stringify({ answer: { recorded: {} } }));
        return [passed];
      },
      "none/1.json: answer.recorded: takes status, headers",
    ],
    ["an unknown flag", () => [open(), "--jsno"], "--jsno: unknown flag; did you mean --json?"],
    ["a bad value", () => [open(), "--max-num-seqs", "x"], "--max-num-seqs: takes a whole number"],
    [
      "prompts beyond the context",
      () => [open(), "--max-model-len", "500"],
      "requests are longer than --max-model-len 500",
    ],
  ])("%s is refused with one line and exit code 2", (_, words, why) => {
    const { exitCode, out, error } = run(...words());
    expect([exitCode, out]).toEqual([2, ""]);
    expect(error.trimEnd().split("\n")).toHaveLength(1);
    expect(error).toStartWith("understudy timing fit: ");
    expect(error).toContain(why);
  });
});
