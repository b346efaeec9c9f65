/** Tests the command `understudy load`: its documented flags and its results. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeLoadArguments } from "../../../src/cli/load/load-args.ts";
import { loadAliases, loadHelp, loadOptions } from "../../../src/cli/load/load-options.ts";
import { settingsOf } from "../../../src/cli/load/load-settings.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { main } from "../../program.ts";

setDefaultTimeout(60_000);
const page = readFileSync(new URL("../../../docs/how-to/load.md", import.meta.url), "utf8");
const folder = mkdtempSync(join(tmpdir(), "understudy-load-"));

async function run(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([process.execPath, main, "load", ...argv], { cwd: folder, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, out, err };
}

/** Returns the settings of a command line, or its refusal. */
function settings(line: string, env: Record<string, string> = {}) {
  const taken = takeLoadArguments(line.split(" ").filter(Boolean));
  return "error" in taken ? taken : settingsOf(taken.values, { env, command: "", version: "0", read: () => "" });
}

describe("documentation", () => {
  test("every flag in the text exists, and the help has all flags", () => {
    const known = new Set([...Object.keys(loadOptions), ...Object.keys(loadAliases), "endpoint-type"]);
    const named = [...page.matchAll(/`--(?:\[no-\])?([a-z-]+)/g)].map(([, name]) => name!);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
    for (const name of Object.keys(loadOptions)) expect(loadHelp()).toContain(`${name}`);
  });

  test("every command of the page is accepted", () => {
    const lines = [...page.matchAll(/understudy load (.*)/g)].map(([, line]) => line!);
    expect(lines.length).toBeGreaterThan(3);
    for (const line of lines) {
      const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);
      const taken = takeLoadArguments(words);
      expect(taken).not.toHaveProperty("error");
    }
  });
});

describe("flags", () => {
  test("names of vllm bench serve and aiperf", () => {
    const vllm =
      "--backend openai --base-url http://a:1/v1 --num-prompts 5 --max-concurrency 3 --request-rate inf --random-input-len 9 --random-output-len 4 --goodput ttft:500 e2el:9 --metadata a=b c=d --header X=1 --header Y:2";
    expect(settings(vllm)).toMatchObject({
      dialect: "openai",
      count: 5,
      concurrency: 3,
      loop: { kind: "open", rate: Number.POSITIVE_INFINITY },
      dataset: { inputLen: 9, outputLen: 4 },
      slo: { ttft: 500, e2el: 9 },
      metadata: { a: "b", c: "d" },
      headers: { X: "1", Y: "2" },
    });
    const aiperf =
      "--endpoint-type chat -u http://a:1 -m x --request-count 7 --isl 10 --osl 20 --benchmark-duration 30 --use-legacy-max-tokens";
    expect(settings(aiperf)).toMatchObject({
      dialect: "openai-chat",
      model: "x",
      count: 7,
      durationS: 30,
      legacyMaxTokens: true,
    });
    expect((settings("--url http://a:1/v1") as { url: URL }).url.href).toBe("http://a:1/");
    expect(settings("", { OPENAI_API_KEY: "k" })).toMatchObject({
      headers: { Authorization: "Bearer k" },
      loop: { kind: "closed" },
      concurrency: 1,
    });
    expect(settings("--dataset-name azure --dataset-path f")).toMatchObject({ loop: { kind: "schedule", speedup: 1 } });
    expect(settings("--dataset-name azure --dataset-path f --no-fixed-schedule")).toMatchObject({
      loop: { kind: "closed" },
    });
  });

  test.each([
    ["--concurency 3", "--concurency: unknown flag; did you mean --concurrency"],
    ["--num-prompt 3", "did you mean --num-prompts"],
    ["server:8000", "--url names the server"],
    ["--url server:8000", "--url: takes an address"],
    ["--concurrency 0", "--concurrency: takes a whole number from 1"],
    ["--goodput ttft:x", "--goodput: takes one or more of ttft:MS"],
    ["--goodput ttfb:5", "--goodput: takes one or more of ttft:MS"],
    ["--extra-body [1]", "--extra-body: takes a JSON object"],
    ["--arrival-pattern gamma", "--arrival-pattern: needs --request-rate"],
    ["--request-rate 5 --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2", "both set the rate"],
    ["--ramp-up-start-rps 1", "need --ramp-up-strategy"],
    ["--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2", "needs --num-prompts or --duration"],
    ["--request-rate 5 --arrival-pattern poisson --burstiness 2", "--burstiness: needs --arrival-pattern gamma"],
    ["--request-rate inf --duration 5", "the number of requests has no limit"],
    ["--fixed-schedule --request-rate 5", "a fixed schedule has its own times"],
    ["--replay-speedup 2", "needs the times of a dataset"],
    ["--sweep 4,2", "--sweep: takes rising rates"],
    ["--sweep-until ttft:5@90%", "--sweep-until: needs --sweep"],
    ["--header novalue", "--header: takes NAME=VALUE"],
    ["--endpoint-type images", "--endpoint-type: takes chat or completions"],
    ["--timeout", "--timeout: needs a value"],
    ["--cancel-rate 60 --slow-reader-rate 60", "more than 100 %"],
    ["--ssl-ca-certs nowhere.pem", "holds no certificate"],
    ["--endpoint v1", "takes a path that begins with /"],
  ])("%s is refused: %s", (line, complaint) => {
    expect((settings(line) as { error: string }).error).toContain(complaint);
  });

  test("exit code 2 with one line", async () => {
    expect(await run("--concurency", "3")).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringMatching(/^understudy load: --concurency.*\n$/),
    });
    const missing = await run("--model", "m", "--dataset-name", "custom", "--dataset-path", "nowhere.jsonl");
    expect([missing.code, missing.err]).toEqual([2, expect.stringContaining("nowhere.jsonl")]);
    const closed = await run("--model", "m", "--json", "no/such/folder");
    expect([closed.code, closed.err]).toEqual([2, expect.stringContaining("cannot write")]);
  });

  test("exit code 2 if no server listens, with a model or without", async () => {
    for (const model of [[], ["-m", "m"]]) {
      expect(await run("--url", "http://127.0.0.1:1", ...model)).toEqual({
        code: 2,
        out: "",
        err: "understudy load: cannot reach http://127.0.0.1:1/v1/models: nothing listens there (ECONNREFUSED)\n",
      });
    }
  });
});

describe("against our own server", () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted(["--timing", "constant:ttft=20ms,itl=2ms", "--truth-log", join(folder, "truth.jsonl")]);
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  test("table, files, truth and the server's metrics", async () => {
    const { code, out, err } = await run(
      ...`--url ${server.url} --concurrency 4 --num-prompts 12 --input-len 40 --output-len 10 --check-truth --save-detailed`.split(
        " ",
      ),
      ...`--json r.json --html r.html --metrics-interval 0.1 --goodput ttft:100000 --metadata run=a --api-key very-secret --header X-Key=secret-too`.split(
        " ",
      ),
    );
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain("============ Serving Benchmark Result ============\n");
    expect(out).toMatch(/^Successful requests: {21}12 {8}$/m);
    expect(out).toMatch(/^Mean TTFT \(ms\): {26}\d+\.\d\d +$/m);
    expect(out).toMatch(/^per user {7}mean [\d.]+, p50 [\d.]+, p10 [\d.]+, p1 [\d.]+ tokens\/s$/m);
    expect(out).toMatch(/^retries {8}0 \(no --retries: no request was sent again\)$/m);
    for (const row of ["TTFT from intended time", "sched delay", "goodput", "measured minus true"])
      expect(out).toContain(row);
    const result = JSON.parse(readFileSync(join(folder, "r.json"), "utf8"));
    expect(result).toMatchObject({
      completed: 12,
      failed: 0,
      total_output_tokens: 120,
      request_rate: "inf",
      max_concurrency: 4,
      run: "a",
    });
    expect(result.understudy.command).toContain("--api-key … --header X-Key=…");
    expect(JSON.stringify(result)).not.toContain("secret");
    expect(result.ttfts).toHaveLength(12);
    const { understudy } = result;
    expect(understudy).toMatchObject({
      schema_version: 1,
      errors: {},
      attainment: 1,
      counts: { completed: 12, input_tokens: expect.any(Number) },
    });
    expect(understudy.distributions.itl.count).toBe(108);
    expect(understudy.truth).toMatchObject({
      requests: 12,
      missing: 0,
      without_gaps: 0,
      steps_lost: 0,
      errors: { itl: { count: 108 } },
    });
    const { delta } = understudy.server_metrics;
    const generated = Object.keys(delta).find((series) => series.startsWith("vllm:generation_tokens_total"))!;
    expect(delta[generated]).toBe(120);
    const rows = readFileSync(join(folder, "r.requests.jsonl"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(rows).toHaveLength(12);
    expect(rows[0]).toMatchObject({ output_tokens: 10, chunks: 10, status: 200, error: null });
    expect(readFileSync(join(folder, "r.html"), "utf8")).toContain("<html");
  });

  test("vLLM's name for the file; appended lines; a sweep", async () => {
    const common = `--url ${server.url} --input-len 10 --output-len 3 --num-prompts 4 --no-server-metrics`.split(" ");
    expect((await run(...common, "--request-rate", "200", "--save-result", "--result-dir", "saved")).code).toBe(0);
    expect(readdirSync(join(folder, "saved"))).toEqual([
      expect.stringMatching(/^openai-chat-200\.0qps-Llama-3\.1-8B-Instruct-\d{8}-\d{6}\.json$/),
    ]);
    const swept = await run(
      ...common,
      ..."--sweep 50,100 --append-result --result-filename all.jsonl --sweep-until ttft:100000@90%".split(" "),
    );
    expect(swept.out).toContain("100 is the last rate that keeps ttft <= 100000 ms for at least 90 % of requests");
    const lines = readFileSync(join(folder, "all.jsonl"), "utf8")
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => line.request_rate)).toEqual([50, 100]);
    const stopped = await run(...common, ..."--sweep 50,100 --sweep-until ttft:0@90%".split(" "));
    expect(stopped.out).toContain("no run kept");
  });

  test("the truth from the server's log", async () => {
    const flags = "--num-prompts 5 --input-len 5 --output-len 6 --check-truth-log truth.jsonl --json l.json";
    const { code, out } = await run("--url", server.url, ...flags.split(" "));
    expect([code, out]).toEqual([0, expect.stringContaining("over 5 requests that the server knows\n")]);
    expect(out).not.toContain("unknown to the server");
    const { truth } = JSON.parse(readFileSync(join(folder, "l.json"), "utf8")).understudy;
    expect(truth).toMatchObject({ requests: 5, missing: 0, errors: { itl: { count: 25 }, ttft: { count: 5 } } });
  });

  test("a server that keeps only half of the run's rows is asked during the run", async () => {
    const forgetful = await hosted(["--timing", "constant:ttft=20ms,itl=2ms", "--truth-requests", "200"]);
    try {
      const flags = "--num-prompts 400 --concurrency 8 --input-len 5 --output-len 10 --check-truth --json f.json";
      expect(await run("--url", forgetful.url, ...flags.split(" "))).toMatchObject({ code: 0, err: "" });
      const { truth } = JSON.parse(readFileSync(join(folder, "f.json"), "utf8")).understudy;
      expect(truth).toMatchObject({ requests: 400, missing: 0, errors: { ttft: { count: 400 } } });
    } finally {
      await forgetful.stop();
    }
  });

  test("requests that another server behind the address answered are reported as unknown, with the reason", async () => {
    const servers = [await hosted(["--timing", "none"]), await hosted(["--timing", "none"])];
    const isTruth = (path: string) => path.startsWith("/understudy/");
    let next = 0;
    const balancer = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        const { pathname, search } = new URL(request.url);
        const { url } = servers[isTruth(pathname) ? 0 : next++ % 2]!;
        return fetch(`${url}${pathname}${search}`, {
          method: request.method,
          headers: request.headers,
          body: request.body,
        });
      },
    });
    try {
      const flags = "--num-prompts 20 --input-len 5 --output-len 3 --check-truth --no-server-metrics --json b.json";
      const { code, out } = await run("--url", `http://127.0.0.1:${balancer.port}`, ...flags.split(" "));
      const { truth } = JSON.parse(readFileSync(join(folder, "b.json"), "utf8")).understudy;
      expect([code, truth.requests + truth.missing]).toEqual([0, 20]);
      expect(truth.missing).toBeGreaterThan(0);
      expect(out).toContain(`${truth.missing} requests are unknown to the server that was asked for the truth`);
      expect(out).toContain("the address may belong to several servers");
    } finally {
      await balancer.stop(true);
      for (const server of servers) await server.stop();
    }
  });

  test("HTTPS: with the CA certificate, without checking, and refused", async () => {
    const file = (name: string) => new URL(`../../conformance/tls/${name}`, import.meta.url).pathname;
    const secure = await hosted([
      "--timing",
      "none",
      "--ssl-certfile",
      file("server.pem"),
      "--ssl-keyfile",
      file("server.key"),
    ]);
    try {
      const common = [
        "--url",
        secure.url,
        "--num-prompts",
        "6",
        "--concurrency",
        "3",
        "--input-len",
        "5",
        "--output-len",
        "4",
      ];
      const trusted = await run(...common, "--ssl-ca-certs", file("ca.pem"));
      expect([trusted.code, trusted.err]).toEqual([0, ""]);
      expect((await run(...common, "--insecure")).code).toBe(0);
      const refused = await run(...common, "--model", "m");
      expect([refused.code, refused.err]).toEqual([
        2,
        expect.stringContaining("--ssl-ca-certs FILE adds trusted certificates"),
      ]);
      const plain = secure.url.replace("https:", "http:");
      const other = await run("--url", plain);
      expect([other.code, other.err]).toEqual([2, expect.stringMatching(/the port speaks https .*use --url https:/)]);
    } finally {
      await secure.stop();
    }
  });

  test("conversations carry earlier turns, and each turn waits for the answer before it", async () => {
    const flags =
      "--dataset-name multi_turn --turns 3 --think-time 5ms --input-len 8 --output-len 4 --num-prompts 9 --concurrency 2";
    const { code, err } = await run("--url", server.url, ...flags.split(" "), "--json", "t.json", "--save-detailed");
    expect([code, err]).toEqual([0, ""]);
    const rows = readFileSync(join(folder, "t.requests.jsonl"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const lengths = rows.map((row) => row.input_tokens).sort((a, b) => a - b);
    // A second turn has the first turn, its answer of four tokens, and eight new tokens.
    expect(lengths.at(-1)).toBeGreaterThan(lengths[0] + 8 + 4);
  });

  test("a wrong model, a wrong address for the truth, Ctrl-C", async () => {
    const flags = ["--url", server.url, "--model", "other", "--num-prompts", "2"];
    const unknown =
      'understudy load: the server does not know the model "other"; it serves meta-llama/Llama-3.1-8B-Instruct\n';
    expect(await run(...flags, "--input-len", "5")).toEqual({ code: 2, out: "", err: unknown });
    await Bun.write(join(folder, "one.jsonl"), '{"prompt": "Hello"}\n');
    // The user's own prompts are not counted first, so the requests themselves are refused.
    const result = await run(...flags, "--dataset-name", "custom", "--dataset-path", "one.jsonl");
    expect([result.code, result.err]).toEqual([
      1,
      expect.stringMatching(
        /no request was answered; the server does not know the model "other"; it serves meta.*HTTP 404/,
      ),
    ]);
    expect(result.out).not.toContain("/tokenize");
    const scheme = await run("--url", server.url.replace("http:", "https:"));
    expect([scheme.code, scheme.err]).toEqual([
      2,
      `understudy load: cannot reach ${server.url.replace("http:", "https:")}/v1/models: the port speaks http (EPROTO); use --url ${server.url}\n`,
    ]);
    const child = Bun.spawn(
      [
        process.execPath,
        main,
        "load",
        ...`--url ${server.url} --duration 50 --input-len 5 --output-len 4 --json c.json`.split(" "),
      ],
      {
        cwd: folder,
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    await Bun.sleep(2000);
    child.kill("SIGINT");
    expect(await child.exited).toBe(0);
    const { understudy, completed } = JSON.parse(readFileSync(join(folder, "c.json"), "utf8"));
    expect(understudy.partial).toBe(true);
    expect(completed).toBeGreaterThan(0);
  });
});
