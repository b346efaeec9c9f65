/** Tests that a replay has the results of the engine, writes the same bytes each time, and refuses bad input with one line. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Results } from "../../../src/tools/replay/results.ts";
import { main } from "../../program.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-replay-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = (name: string) => join(folder, name);

function understudy(...argv: string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv], { cwd: folder });
  return { exitCode, out: stdout.toString(), err: stderr.toString() };
}

/** Runs a replay and returns the results that `--json` writes. */
function results(...argv: string[]): Results {
  const { exitCode, err } = understudy(...argv, "--json", path("results.json"));
  expect(err).toBe("");
  expect(exitCode).toBe(0);
  return JSON.parse(readFileSync(path("results.json"), "utf8"));
}

function mooncake(
  name: string,
  rows: readonly (readonly [ms: number, input: number, output: number, ids: number[]])[],
): string {
  const lines = rows.map(([timestamp, input_length, output_length, hash_ids]) =>
    JSON.stringify({ timestamp, input_length, output_length, hash_ids }),
  );
  writeFileSync(path(name), `${lines.join("\n")}\n`);
  return path(name);
}

const CONSTANT = ["--timing", "constant:ttft=10ms,itl=10ms"];

test("adapters wait for each other unless enough may run at a time, and are refused without --enable-lora", () => {
  const format = ["--format", "synthetic:isl=50,osl=20,concurrency=16,requests=64,adapters=4"];
  const last = ["1", "2", "4"].map(
    (most) => results(...format, ...CONSTANT, "--enable-lora", "--max-loras", most).duration_s,
  );
  expect(last[0]).toBeGreaterThan(last[1]!);
  expect(last[1]).toBeGreaterThan(last[2]!);
  const { exitCode, err } = understudy(...format);
  expect([exitCode, err.trim()]).toEqual([2, `understudy replay: ${format.join(" ")}: adapters need --enable-lora`]);
});

describe("results", () => {
  test("a single request has exact times", () => {
    const trace = mooncake("one.jsonl", [[7, 100, 5, [1]]]);
    const { requests, duration_s, ttft_ms, itl_ms, tpot_ms, e2e_ms, queue_ms, tokens, throughput, kv } = results(
      trace,
      ...CONSTANT,
    );
    expect(requests).toMatchObject({ arrived: 1, finished: 1, unfinished: 0, cut: 0 });
    expect(duration_s).toBe(0.05);
    for (const [spread, mean, count] of [
      [ttft_ms, 10, 1],
      [itl_ms, 10, 4],
      [tpot_ms, 10, 1],
      [e2e_ms, 50, 1],
      [queue_ms, 0, 1],
    ] as const) {
      expect(spread.count).toBe(count);
      expect(spread.mean).toBe(mean);
      for (const value of [spread.p50!, spread.p90!, spread.p99!])
        expect(Math.abs(value - mean)).toBeLessThanOrEqual(mean * 0.004);
    }
    expect(tokens).toEqual({ prompt: 100, prompt_cached: 0, generated: 5 });
    expect(throughput).toEqual({ requests_per_s: 20, output_tokens_per_s: 100, total_tokens_per_s: 2100 });
    expect(kv.blocks_peak).toBe(1);
  });

  test("only whole equal blocks hit the cache, and a prompt's last token is always computed", () => {
    const rows = [
      [0, 1536, 1, [1, 2, 3]],
      [1000, 1536, 1, [1, 2, 3]],
      [2000, 1100, 1, [1, 2, 9]],
      [3000, 600, 1, [1, 8]],
      [4000, 1536, 1, [8, 2, 3]],
    ] as const;
    const trace = mooncake(
      "hits.jsonl",
      rows.map(([ms, input, output, ids]) => [ms, input, output, [...ids]]),
    );
    const cached = (...options: string[]) => results(trace, ...CONSTANT, ...options).prefix_cache.hit_tokens;
    // Hits: blocks 1 and 2 of the second prompt, both shared blocks of the third, the first of the fourth. Block 8 of the fifth
    // prompt has other tokens before it than in the fourth.
    expect(cached()).toBe(512 * (2 + 2 + 1));
    // With blocks of 16 tokens, all blocks of the equal prompt hit except its last one.
    expect(cached("--block-size", "16")).toBe(1536 - 16 + 1024 + 512);
    expect(cached("--no-enable-prefix-caching")).toBe(0);
  });

  test("prompts without ids share no blocks", () => {
    const { prefix_cache: cache } = results(
      "--format",
      "synthetic:isl=256,osl=3,concurrency=4,requests=50",
      ...CONSTANT,
    );
    expect(cache).toEqual({ query_tokens: 12_800, hit_tokens: 0, hit_rate: 0 });
  });

  test("a closed loop keeps its concurrency, and an open loop its rate", () => {
    const closed = results(
      "--format",
      "synthetic:isl=16,osl=10,concurrency=4,requests=40",
      "--no-async-scheduling",
      ...CONSTANT,
    );
    expect(closed.requests.finished).toBe(40);
    // Ten rounds of four requests, each of ten steps of 10 ms.
    expect(closed.duration_s).toBe(1);
    expect(closed.queue_ms.mean).toBe(0);
    const open = results("--format", "synthetic:isl=16,osl=1,rate=2,requests=200", ...CONSTANT);
    expect(open.duration_s).toBeWithin(80, 120);
    const fast = results("--format", "synthetic:isl=16,osl=1,rate=2,requests=200", "--rate-scale", "10", ...CONSTANT);
    expect(fast.duration_s).toBeWithin(8, 12);
  });

  test("simultaneous arrivals are planned together, and an arrival at the end of a step is planned in the next step", () => {
    const together = mooncake("together.jsonl", [
      [0, 10, 2, []],
      [0, 10, 2, []],
      [20, 10, 2, []],
    ]);
    const { queue_ms, ttft_ms, steps } = results(together, "--no-async-scheduling", ...CONSTANT);
    expect([queue_ms.mean, ttft_ms.mean]).toEqual([0, 10]);
    expect(steps).toBeLessThanOrEqual(5);
  });

  test("a prompt that is too long is refused and counted, an answer that is too long is cut, and others are complete", () => {
    const trace = mooncake("long.jsonl", [
      [0, 1000, 5, []],
      [0, 999, 5, []],
      [0, 10, 1001, []],
      [0, 10, 5, []],
    ]);
    const { requests, tokens } = results(trace, "--max-model-len", "1000", ...CONSTANT);
    expect(requests).toMatchObject({ arrived: 4, finished: 2, cut: 1, refused: { too_long: 2, busy: 0 } });
    expect(tokens.generated).toBe(1 + 5);
  });

  test("a KV pool that is too small preempts requests, and all requests finish", () => {
    const pool = ["--num-gpu-blocks-override", "40", "--max-model-len", "600", "--block-size", "16"];
    const busy = results("--format", "synthetic:isl=64,osl=200,concurrency=8,requests=64", ...pool, ...CONSTANT);
    expect(busy.requests.finished).toBe(64);
    expect(busy.preemptions).toBeGreaterThan(0);
    expect(busy.kv).toEqual({ blocks_peak: 39, blocks_usable: 39, usage_peak: 1 });
    expect(busy.tokens.generated).toBe(64 * 200);
  });

  test("several engines share the load and finish all requests", () => {
    // At 50 requests per second, one engine runs 16 requests at a time, and four run 64.
    const format = ["--format", "synthetic:isl=16,osl=100,rate=50,requests=256", "--max-num-seqs", "16"];
    const single = results(...format, ...CONSTANT);
    const four = results(...format, "--engines", "4", ...CONSTANT);
    expect([single.requests.finished, four.requests.finished]).toEqual([256, 256]);
    expect(four.duration_s).toBeLessThan(single.duration_s / 2);
    expect(four.queue_ms.mean!).toBeLessThan(single.queue_ms.mean! / 100);
    expect(results(...format, "-dp", "4", ...CONSTANT)).toEqual(four);
  });

  test("with several engines the page counts each step once", () => {
    const format = ["--format", "synthetic:isl=16,osl=100,rate=50,requests=64", "--max-num-seqs", "16"];
    const { steps } = results(...format, "--engines", "4", "--metrics", path("four.txt"), ...CONSTANT);
    const page = readFileSync(path("four.txt"), "utf8");
    const counted = Number(/^understudy_step_start_lateness_seconds_count\S* (\S+)$/m.exec(page)![1]);
    // Steps without a token are not timed.
    expect(counted).toBeWithin(steps / 2, steps + 1);
  });

  test("several engines are balanced by vLLM's rule, whose counts are outdated if many requests end together", () => {
    const format = ["--format", "synthetic:isl=16,osl=100,concurrency=64,requests=256", "--max-num-seqs", "16"];
    const single = results(...format, ...CONSTANT);
    const four = results(...format, "--engines", "4", ...CONSTANT);
    expect([single.requests.finished, four.requests.finished]).toEqual([256, 256]);
    expect(four.duration_s).toBeWithin(single.duration_s / 4.2, single.duration_s / 2);
  });

  test("--until leaves running requests unfinished, and --limit limits the requests", () => {
    const format = ["--format", "synthetic:isl=16,osl=100,concurrency=4,requests=40"];
    const cut = results(...format, "--until", "1.5", ...CONSTANT);
    expect(cut.requests).toMatchObject({ finished: 4, unfinished: 4, arrived: 8 });
    expect(cut.duration_s).toBe(1.5);
    expect(results(...format, "--limit", "6", ...CONSTANT).requests).toMatchObject({ arrived: 6, finished: 6 });
  });
});

describe("output", () => {
  const FORMAT = ["--format", "synthetic:isl=20-900,osl=1-200,rate=30,requests=600"];
  const files = ["json", "metrics", "series", "truth-log"];
  const run = (n: number, ...options: string[]) => {
    const { exitCode, out } = understudy(
      ...FORMAT,
      ...options,
      ...files.flatMap((name) => [`--${name}`, path(`${name}.${n}`)]),
    );
    expect(exitCode).toBe(0);
    return { out, texts: files.map((name) => readFileSync(path(`${name}.${n}`), "utf8")) };
  };
  const first = run(1);

  test("a second run writes the same bytes, and another seed other bytes", () => {
    expect(run(2).texts).toEqual(first.texts);
    expect(run(3, "--seed", "1").texts[0]).not.toBe(first.texts[0]!);
  });

  test("page, series and truth log add up to the results", () => {
    const [json, page, series, truth] = first.texts as [string, string, string, string];
    const { requests, tokens, steps, preemptions } = JSON.parse(json) as Results;
    const sample = (name: string) =>
      Number(
        page
          .split("\n")
          .find((line) => line.startsWith(name))
          ?.split(" ")
          .at(-1),
      );
    expect(sample("vllm:generation_tokens_total")).toBe(tokens.generated);
    expect(sample("vllm:time_to_first_token_seconds_count")).toBe(requests.finished);
    const [header, ...rows] = series
      .trim()
      .split("\n")
      .map((line) => line.split(","));
    const sum = (name: string) => rows.reduce((total, row) => total + Number(row[header!.indexOf(name)]), 0);
    expect(rows.map((row) => row[0])).toEqual(rows.map((_, i) => `${i + 1}`));
    expect([sum("arrived"), sum("finished"), sum("generation_tokens"), sum("preemptions")]).toEqual([
      requests.arrived,
      requests.finished,
      tokens.generated,
      preemptions,
    ]);
    expect(rows.at(-1)!.slice(1, 4)).toEqual(["0", "0", "0"]);
    const lines = truth
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const ended = lines.filter(({ type }) => type === "request");
    expect(ended.length).toBe(requests.finished);
    expect(ended.reduce((total, { outputTokens }) => total + outputTokens, 0)).toBe(tokens.generated);
    expect(lines.filter(({ type }) => type === "step").length).toBeLessThanOrEqual(steps);
  });

  test("a truth log replays to the same latencies", () => {
    const again = results(path("truth-log.1"));
    const { ttft_ms, itl_ms, e2e_ms, queue_ms } = JSON.parse(first.texts[0]!) as Results;
    expect(again).toMatchObject({ ttft_ms, itl_ms, e2e_ms, queue_ms, trace: { format: "truth" } });
  });

  test("the table has every figure, and --help lists the options", () => {
    for (const name of [
      "TTFT",
      "ITL",
      "TPOT",
      "E2E",
      "queue",
      "throughput",
      "prefix cache",
      "preemptions",
      "KV peak",
      "wall time",
    ]) {
      expect(first.out).toContain(name);
    }
    expect(first.out).toContain("600 of 600 finished");
    expect(understudy("--help").out).toContain("--skip-bad");
  });
});

describe("bad input gives one line and exit code 2", () => {
  const bad = mooncake("bad.jsonl", [
    [0, 10, 1, []],
    [5, 10, 1, []],
  ]);
  writeFileSync(bad, `${readFileSync(bad, "utf8").replace("\n", "\nnonsense\n")}`);
  test.each([
    [[path("nowhere.jsonl")], `cannot read "${path("nowhere.jsonl")}" (ENOENT)`],
    [[], "no trace: give a file"],
    [[bad], `${bad}:2: expected a JSON object such as {"timestamp"`],
    [[bad, "second"], '"second": unexpected argument; only one trace is replayed'],
    [[bad, "--format", "parquet"], "--format parquet: unknown format"],
    [[bad, "--limit", "none"], "--limit: takes a whole number from 1 to"],
    [[bad, "--until"], "--until: needs a value"],
    [[bad, "--skip-bad=yes"], '--skip-bad: takes no value, not "yes"'],
    [[bad, "--timestamp-unit", "ns"], "--timestamp-unit: takes s or ms or us, not"],
    [
      ["--format", "synthetic:isl=1,osl=1,rate=1", "--timestamp-unit", "s"],
      "--timestamp-unit is for mooncake, bailian, weka traces, not synthetic",
    ],
    [[bad, "--formt", "azure"], "did you mean --format or --port? (understudy replay --help lists"],
    [[bad, "--max-num-seq", "3"], "--max-num-seq: unknown flag; did you mean --max-num-seqs"],
    [[bad, "--json", join(folder, "no", "such")], `cannot write "${join(folder, "no", "such")}" (ENOENT)`],
    [[bad, "--truth-log", folder], "--truth-log: cannot write"],
    [[bad, "--json", bad], `--json ${bad}: would overwrite the input file`],
    [[bad, "--truth-log", join(folder, ".", "bad.jsonl")], "would overwrite the input file"],
    [[bad, "--json", path("one"), "--series", path("one")], "would overwrite the file of --json"],
  ])("%j", (argv, line) => {
    const { exitCode, err, out } = understudy(...argv);
    expect(err).toStartWith("understudy replay: ");
    expect(err).toContain(line);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect([exitCode, out]).toEqual([2, ""]);
  });

  test("warnings are printed only if the replay begins", () => {
    const argv = ["--format", "synthetic:isl=9,osl=9,rate=9,requests=9"];
    const env = { ...process.env, UNDERSTUDY_PRT: "1" };
    const errorLines = (...words: string[]) => {
      const { stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv, ...words], { cwd: folder, env });
      return stderr.toString().trimEnd().split("\n");
    };
    for (const words of [
      ["--json", join(folder, "no", "such")],
      ["--truth-log", folder],
      ["--json", path("one"), "--series", path("one")],
      ["--num-gpu-blocks-override", "99999999"],
    ])
      expect(errorLines(...words)).toEqual([expect.not.stringContaining("UNDERSTUDY_PRT")]);
    expect(errorLines()).toEqual([expect.stringContaining("UNDERSTUDY_PRT is not an option")]);
  });

  // Only Linux has a device that is always full.
  test.skipIf(process.platform !== "linux").each(["json", "metrics", "series"])("a full disk for --%s", (option) => {
    const { exitCode, err } = understudy(
      "--format",
      "synthetic:isl=9,osl=9,rate=9,requests=9",
      `--${option}`,
      "/dev/full",
    );
    expect([exitCode, err]).toEqual([2, 'understudy replay: cannot write "/dev/full" (ENOSPC)\n']);
  });

  test.skipIf(process.platform !== "linux")(
    "a full disk for the truth log gives one warning, and the replay continues and reports the loss",
    () => {
      const format = ["--format", "synthetic:isl=9,osl=9,rate=9,requests=9"];
      const { exitCode, out, err } = understudy(...format, "--truth-log", "/dev/full", "--metrics", path("full.txt"));
      expect(exitCode).toBe(0);
      expect(err.trim().split("\n")).toHaveLength(1);
      expect(err).toContain("--truth-log /dev/full: ENOSPC");
      expect(out).toContain("9 of 9 finished");
      expect(out).toMatch(/truth log: lost 9 requests, \d+ steps, 9 runs/);
      const page = readFileSync(path("full.txt"), "utf8");
      expect(page).toMatch(/^understudy_truth_dropped_total\{.*kind="request".*\} 9(\.0)?$/m);
    },
  );

  test("a trace is read from a pipe", () => {
    const stdin = Buffer.from(readFileSync(bad));
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", "-", "--skip-bad"], {
      stdin,
    });
    expect([exitCode, stderr.toString()]).toEqual([0, ""]);
    expect(stdout.toString()).toContain("- (mooncake)");
    expect(stdout.toString()).toContain("2 of 2 finished");
  });

  test("--skip-bad skips and counts bad lines", () => {
    const { exitCode, out, err } = understudy(bad, "--skip-bad", "--json", path("skipped.json"));
    expect([exitCode, err]).toEqual([0, ""]);
    expect(out).toContain("1 bad lines");
    expect(out).toContain(`first bad line: ${bad}:2: expected`);
    expect(JSON.parse(readFileSync(path("skipped.json"), "utf8")).requests).toMatchObject({
      finished: 2,
      bad_lines: 1,
    });
    expect(existsSync(path("series"))).toBe(false);
  });
});
