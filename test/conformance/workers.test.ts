/** Checks that several worker processes look like one server: one port, one set of metrics, one pause, one shutdown. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fallen, parseScrape, type Scrape, workersRun } from "../../bench/lib/workers-run.ts";
import { parseExposition } from "../metrics/parse.ts";
import { main } from "../program.ts";
import { eventually, type Server, sample, serve } from "../server.ts";
import { figure, sized } from "../size.ts";

setDefaultTimeout(60_000);

const FAST = ["--served-model-name", "m", "--timing", "linear:base=1ms,prefill=0ms,decode=0ms"];
const started: Server[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop().catch(() => {})));
});

async function several(workers: number, flags: readonly string[] = [], env: Record<string, string> = {}) {
  const server = await serve(["--workers", `${workers}`, ...FAST, ...flags], env);
  started.push(server);
  return server;
}
const pidsOf = (server: Server) => /processes: ([\d, ]+)/.exec(server.output())![1]!.split(", ").map(Number);
/** Reports whether a process is alive, on Linux. */
const lives = (pid: number) => existsSync(`/proc/${pid}/exe`);
const fresh = (url: string, init: RequestInit = {}) => fetch(url, { ...init, keepalive: false });
const ask = (server: Server, body: object = {}) =>
  fresh(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 4, ignore_eos: true, ...body }),
  });
const scrape = async (server: Server, path = "/metrics"): Promise<Scrape> => {
  const text = await (await fresh(server.url + path)).text();
  parseExposition(text);
  return parseScrape(text);
};
const by = (scrape: Scrape, name: string) =>
  [...scrape].filter(([series]) => series.startsWith(`${name}{`)).map(([, value]) => value);
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Runs a start that is refused until it exits. */
async function refused(flags: readonly string[]) {
  const child = Bun.spawn([process.execPath, main, "serve", ...flags], { stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, out, lines: err.trimEnd().split("\n") };
}

describe("one server", () => {
  test("there is one banner, and any worker shows all engines, with labels numbered across workers", async () => {
    const server = await several(2, ["--data-parallel-size", "2"]);
    expect(server.output().match(/stands in for/g)).toHaveLength(1);
    expect(server.output()).toContain("in each of 4 engines");
    expect(new Set(pidsOf(server)).size).toBe(2);
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(server)));
    expect(answers.map(({ status }) => status)).toEqual(Array(40).fill(200));
    await Promise.all(answers.map((answer) => answer.text()));
    await eventually(async () => sum(by(await scrape(server), "vllm:generation_tokens_total")) === 160);
    for (let i = 0; i < 10; i++) {
      const page = await scrape(server);
      const tokens = [...page].filter(([series]) => series.startsWith("vllm:generation_tokens_total{"));
      expect(tokens.map(([series]) => /engine="(\d+)"/.exec(series)![1])).toEqual(["0", "1", "2", "3"]);
      // The kernel spreads 40 connections, so both workers got some.
      expect(tokens[0]![1] + tokens[1]![1]).toBeGreaterThan(0);
      expect(tokens[2]![1] + tokens[3]![1]).toBeGreaterThan(0);
      expect(sum(tokens.map(([, value]) => value))).toBe(160);
      expect(page.get('understudy_requests_total{outcome="length"}')).toBe(40);
      expect(page.get("understudy_streams_open")).toBe(0);
    }
  });

  test("the running requests of one worker appear on all pages, and disappear when they end", async () => {
    const server = await several(2);
    const leave = new AbortController();
    const streams = Array.from({ length: 6 }, () =>
      fresh(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 100_000, ignore_eos: true, stream: true }),
        signal: leave.signal,
      }),
    );
    // Read the streams, because unread ones would be collected and cancelled.
    const read = (await Promise.all(streams)).map((stream) => stream.text().catch(() => ""));
    const running = async () => sum(by(await scrape(server), "vllm:num_requests_running"));
    for (let i = 0; i < 5; i++) await eventually(async () => (await running()) === 6);
    leave.abort();
    await Promise.all(read);
    for (let i = 0; i < 5; i++) await eventually(async () => (await running()) === 0);
    await eventually(async () => (await scrape(server)).get('understudy_requests_total{outcome="abort"}') === 6);
  });

  test("pause, resume and resets affect the engines of all workers, also of one that starts later", async () => {
    const server = await several(2, [], { VLLM_SERVER_DEV_MODE: "1" });
    const all = async (paused: boolean) => {
      for (let i = 0; i < 10; i++) {
        const answer = await (await fresh(`${server.url}/is_paused`)).json();
        expect(answer).toEqual({ is_paused: paused });
      }
    };
    const post = async (path: string) => (await fresh(server.url + path, { method: "POST" })).json();
    await all(false);
    expect(await post("/pause")).toEqual({ status: "paused" });
    await all(true);
    process.kill(pidsOf(server)[0]!, "SIGKILL");
    await eventually(async () => (await sample(server.url, "understudy_worker_restarts_total").catch(() => 0)) === 1);
    // The new worker listens some time after the restart is counted.
    await Bun.sleep(500);
    await all(true);
    expect(await post("/resume")).toEqual({ status: "resumed" });
    await all(false);
    expect(await post("/reset_prefix_cache")).toEqual({ success: true });
  });

  test("sleep affects all workers, in /is_sleeping and in the metrics, also one that starts later", async () => {
    const server = await several(2, [], { VLLM_SERVER_DEV_MODE: "1" });
    const post = async (path: string) => (await fresh(server.url + path, { method: "POST" })).json();
    const all = async (sleeps: boolean): Promise<true> => {
      for (let i = 0; i < 8; i++) {
        expect(await (await fresh(`${server.url}/is_sleeping`)).json()).toEqual({ is_sleeping: sleeps });
        const states = [...(await scrape(server))].filter(([series]) => series.startsWith("vllm:engine_sleep_state{"));
        const shown = states
          .filter(([, value]) => value === 1)
          .map(([series]) => /sleep_state="(\w+)"/.exec(series)![1]);
        expect(shown).toEqual(sleeps ? ["weights_offloaded", "weights_offloaded"] : ["awake", "awake"]);
      }
      return true;
    };
    expect(await post("/sleep")).toEqual({ status: "sleeping", level: 1 });
    await eventually(() => all(true)); // until the pages of all workers show it
    process.kill(pidsOf(server)[0]!, "SIGKILL");
    await eventually(async () => (await sample(server.url, "understudy_worker_restarts_total").catch(() => 0)) === 1);
    await Bun.sleep(500);
    await eventually(() => all(true));
    expect(await post("/wake_up")).toEqual({ status: "awake", tags: null });
    await eventually(() => all(false));
  });

  test("SIGTERM ends all workers in order, with exit code 0 and no leftover process or file", async () => {
    const server = await several(2, ["--shutdown-timeout", "20"]);
    // Other servers may start and end meanwhile. The files of this server are those that its workers have mapped.
    const maps = pidsOf(server).map((pid) => readFileSync(`/proc/${pid}/maps`, "utf8"));
    const mine = new Set(maps.join("").match(/\/dev\/shm\/understudy-[^/\s]+/g));
    expect(mine.size).toBe(1);
    // The answer takes two seconds, because it must run when it is checked and when the signal comes.
    const answer = ask(server, { max_tokens: 2000 });
    await eventually(async () => sum(by(await scrape(server), "vllm:num_requests_running")) === 1);
    expect(await server.stop()).toBe(0);
    expect(((await (await answer).json()) as { usage: object }).usage).toMatchObject({ completion_tokens: 2000 });
    expect(server.output()).toContain("ended with 1 request open at the signal");
    expect(pidsOf(server).filter(lives)).toEqual([]);
    expect([...mine].filter((folder) => existsSync(folder))).toEqual([]);
  });

  test("the second signal ends the server at once", async () => {
    const server = await several(2, ["--shutdown-timeout", "60"]);
    const cut = ask(server, { max_tokens: 100_000 }).then(
      (response) => response.text(),
      () => "cut",
    );
    await eventually(async () => sum(by(await scrape(server), "vllm:num_requests_running")) === 1);
    process.kill(server.pid, "SIGINT");
    await Bun.sleep(400); // a signal that comes sooner counts as the same one
    expect(await server.stop("SIGINT")).toBe(130);
    await eventually(() => pidsOf(server).filter(lives).length === 0);
    await cut;
  });

  test("a parent that is killed takes its workers with it", async () => {
    const server = await several(2);
    expect(pidsOf(server).filter(lives)).toHaveLength(2);
    process.kill(server.pid, "SIGKILL");
    await eventually(() => pidsOf(server).filter(lives).length === 0);
  });

  test("a worker that exits with code 0 by itself is restarted, too", async () => {
    const server = await several(2);
    process.kill(pidsOf(server)[1]!, "SIGTERM");
    await eventually(() => /worker 1 \(process \d+\) ended with 0; started anew/.test(server.output()));
    await eventually(async () => (await scrape(server)).get("understudy_worker_restarts_total") === 1);
  });
});

describe("the port", () => {
  const port = (server: { url: string }) => new URL(server.url).port;
  const inUse = (of: string) => [`understudy serve: --port ${of}: 127.0.0.1:${of} is in use; choose another port`];

  test("a port in use is refused in one line, also with SO_REUSEPORT", async () => {
    const alone = Bun.serve({ hostname: "127.0.0.1", port: 0, reusePort: false, fetch: () => new Response("") });
    const sharing = Bun.serve({ hostname: "127.0.0.1", port: 0, reusePort: true, fetch: () => new Response("") });
    const [ours, single] = await Promise.all([several(2), serve(FAST)]);
    started.push(single);
    for (const taken of [`${alone.port}`, `${sharing.port}`, port(ours), port(single)]) {
      expect(await refused(["--workers", "2", "--port", taken])).toEqual({ code: 2, out: "", lines: inUse(taken) });
    }
    // One process cannot share the port of several either.
    expect(await refused(["--port", port(ours)])).toEqual({ code: 2, out: "", lines: inUse(port(ours)) });
    await Promise.all([alone.stop(true), sharing.stop(true)]);
  });

  test("Triton's port is shared and checked in the same way", async () => {
    const free = async () => {
      const probe = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("") });
      const { port: found } = probe;
      await probe.stop(true);
      return `${found}`;
    };
    const metricsPort = await free();
    const server = await several(2, ["--metrics-port", metricsPort]);
    await (await ask(server)).text();
    for (let i = 0; i < 6; i++) {
      const page = await (await fresh(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      expect(page).toMatch(/^nv_inference_count\{model="tensorrt_llm",version="1"\} 1$/m);
    }
    const { code, lines } = await refused(["--workers", "2", "--port", "0", "--metrics-port", metricsPort]);
    expect([code, lines]).toEqual([
      2,
      [`understudy serve: --metrics-port ${metricsPort}: 127.0.0.1:${metricsPort} is in use; choose another port`],
    ]);
  });

  test("of two servers that start at the same time on one port, at most one serves, and the other reports the conflict", async () => {
    const probe = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("") });
    const free = probe.port!;
    await probe.stop(true);
    const children = [0, 1, 2].map(() =>
      Bun.spawn([process.execPath, main, "serve", "--workers", "2", "--port", `${free}`, ...FAST], {
        stdout: "pipe",
        stderr: "pipe",
      }),
    );
    const ends = await Promise.all(
      children.map((child) => Promise.race([child.exited, Bun.sleep(3000).then(() => "serves")])),
    );
    for (const child of children) child.kill();
    const outputs = await Promise.all(children.map((child) => child.stderr.text()));
    expect(ends.filter((end) => end === "serves").length).toBeLessThanOrEqual(1);
    ends.forEach((end, i) => {
      if (end !== "serves") expect([end, outputs[i]!.trimEnd().split("\n")]).toEqual([2, inUse(`${free}`)]);
    });
  });

  test.each([
    ["--host", ["--workers", "2", "--host", "192.0.2.1"]],
    ["--host", ["--host", "192.0.2.1"]],
    ["--metrics-address", ["--workers", "2", "--metrics-port", "8002", "--metrics-address", "192.0.2.1"]],
    ["--metrics-address", ["--metrics-port", "8002", "--metrics-address", "192.0.2.1"]],
  ])("an address without a listener is refused in one line that names %s", async (flag, options) => {
    const { code, lines } = await refused(["--port", "0", ...options]);
    expect([code, lines.length]).toEqual([2, 1]);
    expect(lines[0]).toStartWith(`understudy serve: ${flag} 192.0.2.1: cannot listen there`);
  });

  test("an unknown host name is refused in one line", async () => {
    const { code, lines } = await refused(["--port", "0", "--host", "nowhere.invalid"]);
    expect([code, lines.length]).toEqual([2, 1]);
    expect(lines[0]).toStartWith("understudy serve: --host nowhere.invalid: cannot listen there");
  });

  test.each(["darwin", "win32", "freebsd"])(
    "on %s, where the kernel does not balance connections, --workers is refused with the reason",
    async (platform) => {
      const program = `await (await import("../../src/cli/serve/serve.ts")).runServe(["--workers", "2"], "${platform}")`;
      const child = Bun.spawn([process.execPath, "--eval", program], { cwd: import.meta.dir, stderr: "pipe" });
      expect(await child.exited).toBe(2);
      expect(await child.stderr.text()).toBe(
        `understudy serve: --workers: must be 1 on ${platform}; only Linux spreads the connections of a port over several processes\n`,
      );
    },
  );

  test.each(["0", "65", "-1", "two"])("--workers %s is refused", async (value) => {
    const { code, lines } = await refused([`--workers=${value}`]);
    expect([code, lines]).toEqual([
      2,
      [`understudy serve: --workers: takes a whole number from 1 to 64, not "${value}"`],
    ]);
  });

  test("a truth log that cannot be written is refused before anything starts", async () => {
    const { code, lines } = await refused(["--workers", "2", "--port", "0", "--truth-log", "/nowhere/truth.jsonl"]);
    expect([code, lines]).toEqual([
      2,
      ["understudy serve: --truth-log /nowhere/truth.w0.jsonl: there is no folder /nowhere"],
    ]);
  });
});

describe("one truth", () => {
  // geolens#1240: n worker processes with separate counters behind one /metrics made each counter jump up and down.
  test("geolens#1240: successive scrapes never go backwards, also while a worker is killed", async () => {
    const server = await several(3, ["--disable-uvicorn-access-log"]);
    let over = false;
    const load = Array.from({ length: 6 }, async () => {
      while (!over) {
        await ask(server)
          .then((answer) => answer.text())
          .catch(() => {});
        // Some requests between two scrapes are enough. More would use a whole core.
        await Bun.sleep(20);
      }
    });
    let before: Scrape = new Map();
    const fell: string[] = [];
    let scrapes = 0;
    const look = async () => {
      // The page has every dialect. Null if the scraped worker was killed.
      const now = await scrape(server, "/metrics/all").catch(() => null);
      if (!now) return;
      fell.push(...fallen(before, now));
      before = now;
      scrapes++;
    };
    const rounds = sized("workers", { sample: [0], whole: [0, 1, 2] });
    for (const round of rounds) {
      for (let i = 0; i < 12; i++) await look();
      const restarts = () => before.get("understudy_worker_restarts_total")!;
      const known = restarts();
      process.kill(pidsOf(server)[round]!, "SIGKILL");
      // A few dozen scrapes during the restart are enough.
      for (; restarts() === known; await Bun.sleep(5)) await look();
    }
    over = true;
    await Promise.all(load);
    await look();
    expect(fell).toEqual([]);
    expect(scrapes).toBeGreaterThan(12 * rounds.length);
    expect(before.get("understudy_worker_restarts_total")).toBe(rounds.length);
    expect(sum(by(before, "vllm:generation_tokens_total"))).toBeGreaterThan(0);
  });

  const { workers, requests, concurrency } = sized("workers", {
    sample: { workers: 2, requests: 500, concurrency: 24 },
    whole: { workers: 4, requests: 10_000, concurrency: 64 },
  });
  test(`${requests} requests, disconnects and a killed worker: the counters equal the truth logs exactly`, async () => {
    const beganMs = performance.now();
    const run = await workersRun({ workers, requests, concurrency });
    figure("requests", { workers, requests, concurrency, seconds: (performance.now() - beganMs) / 1000 });
    figure("run", { scrapes: run.scrapes, endings: run.endings, died: run.lives.flatMap(({ died }) => died ?? []) });
    expect(run.fell).toEqual([]);
    expect(run.exitCode).toBe(0);
    expect(run.shown).toEqual(run.counted);
    expect([...run.shown.keys()]).toEqual([...Array(workers).keys()]);
    const outcome = (name: string) => run.last.get(`understudy_requests_total{outcome="${name}"}`)!;
    expect(outcome("abort")).toBe(sum(run.lives.map(({ aborts }) => aborts)));
    expect(outcome("refused")).toBeLessThanOrEqual(run.endings.refused);
    // One worker process was killed and reports its lost requests. No row appears twice.
    expect(run.lives.filter(({ died }) => died !== null)).toHaveLength(1);
    expect(run.lives).toHaveLength(workers + 1);
    const [killed] = run.lives.filter(({ died }) => died !== null);
    for (const [engine, written] of killed!.written) {
      const counted = killed!.counted.get(engine)!;
      for (const name of ["stop", "length", "outputTokens", "promptTokens", "steps"] as const)
        expect(written[name]).toBeLessThanOrEqual(counted[name]);
    }
    const ids = run.lives.flatMap(({ rows }) => rows.map(({ id }) => id));
    expect(new Set(ids).size).toBe(ids.length);
    // Each complete answer is in a log, or was among the last rows of the killed worker.
    const missing = run.complete.difference(new Set(ids)).size;
    const lost =
      sum([...killed!.counted.values()].map(({ length }) => length)) -
      killed!.rows.filter(({ reason }) => reason === "length").length;
    expect(Math.abs(missing - lost)).toBeLessThanOrEqual(concurrency);
    expect(sum(Object.values(run.endings))).toBe(requests);
    expect(run.last.get("understudy_worker_restarts_total")).toBe(1);
    // The log line about lost requests equals the killed worker's state. By chance that may be empty.
    const [running, waiting] = (["running", "waiting"] as const).map((name) =>
      sum(killed!.died!.engines.map((engine) => engine[name])),
    );
    const died = running! + waiting! > 0 ? `${running} running and ${waiting} waiting requests died with it; ` : "";
    expect(run.output).toMatch(
      new RegExp(`^understudy serve: worker \\d \\(process \\d+\\) was killed by SIGKILL; ${died}started anew`, "m"),
    );
  });

  test("each worker writes a separate truth log with the labels of its engines", async () => {
    const folder = mkdtempSync(join(tmpdir(), "understudy-workers-"));
    try {
      const server = await several(2, ["--truth-log", join(folder, "truth.jsonl")]);
      for (let i = 0; i < 20; i++) await (await ask(server)).text();
      await server.stop();
      expect(readdirSync(folder).toSorted()).toEqual(["truth.w0.jsonl", "truth.w1.jsonl"]);
      for (const worker of [0, 1]) {
        const text = await Bun.file(join(folder, `truth.w${worker}.jsonl`)).text();
        const lines = text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line));
        expect(lines[0]).toMatchObject({ type: "header", worker, engines: 2, file: 0 });
        expect(lines.at(-1).type).toBe("end");
        expect(new Set(lines.slice(1, -1).map(({ engine }) => engine))).toEqual(new Set([worker]));
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
