/**
 * Measures the load generator's CPU time, the delay with which it sends, and the error of its numbers. A bare C client
 * (stream/reader.c), which only takes the time of each read, is measured in the same run. The server runs on one core, the
 * clients on the other.
 *
 *   bun run bench load [--only cost|open|truth] [--pairs 5] [--rounds 9] [--seconds 30] [--rate 2000] [--streams 200,1000]
 *                      [--no-save]
 */
import loadOptions from "../bin/load-options.json";
import { WallClock } from "../src/base/clock.ts";
import type { RequestRecord } from "../src/tools/load/requests/types.ts";
import { compareWithTruth, ServerTruthSource, type TruthResult } from "../src/tools/load/truth.ts";
import type { Distribution, Result } from "../src/tools/report/result.ts";
import { bar, bars, figure, note, options, progress, root, save, table } from "./lib/bench.ts";
import { complete, read, stampsOf, streamTimes } from "./lib/client.ts";
import { median, medians } from "./lib/numbers.ts";
import { CLIENT_CORE, inTurns, pinned, serve } from "./lib/servers.ts";
import { startLoop, templateOf } from "./stream/capture.ts";

const defaults = { only: "", pairs: 5, rounds: 9, seconds: 30, rate: 2000, streams: "200,1000" };
const { only, pairs, rounds, seconds, rate, streams: sizes } = options(defaults, ["--realtime"]);

const COST_BAR = 1.5;
const LATE_BAR_MS = 2;
const ERROR_BAR = 1.3;
const ITL_BAR_MS = 1;

const folder = `${root}build/bench`;
/**
 * Requests per second of an open loop, about the rate at which the C client begins streams. The rate is no multiple of the
 * server's 50 steps per second, so that requests arrive at all phases of a step. A request that arrives while tokens are
 * written waits.
 */
const SENDS = "433";
const PROMPT = "Tell me about the weather.";

/** Returns the body that `load` sends, so that both clients receive the same bytes. */
const body = (tokens: number, more: object = {}) => ({
  model: "m",
  messages: [{ role: "user", content: PROMPT }],
  max_completion_tokens: tokens,
  stream: true,
  ignore_eos: true,
  stream_options: { include_usage: true, continuous_usage_stats: true },
  ...more,
});

/** Runs `understudy load` on the client's core: `requests` requests with `tokens` output tokens each. */
async function load(port: number, requests: number, tokens: number, flags: readonly string[]): Promise<Result> {
  const [prompts, json] = [`${folder}/load-${process.pid}.jsonl`, `${folder}/load-${process.pid}.json`];
  await Bun.write(prompts, `${JSON.stringify({ prompt: PROMPT, output_tokens: tokens })}\n`.repeat(requests));
  const words = [
    ...[process.execPath, "src/main.ts", "load", "--url", `http://127.0.0.1:${port}`, "--model", "m", "--ignore-eos"],
    ...["--dataset-name", "custom", "--dataset-path", prompts, "--num-prompts", String(requests)],
    ...["--no-server-metrics", "--json", json, ...flags],
  ];
  const child = Bun.spawn(pinned(CLIENT_CORE, words), {
    cwd: root,
    // The installed command starts with the same options of the runtime.
    env: { ...loadOptions, ...process.env },
    stdout: "ignore",
    stderr: "pipe",
  });
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code !== 0) throw new Error(`load: ${complaint}`);
  const result = (await Bun.file(json).json()) as Result;
  await Promise.all([Bun.file(prompts).delete(), Bun.file(json).delete()]);
  if (result.completed !== requests) throw new Error(`load: ${JSON.stringify(result.understudy.errors)}`);
  return result;
}

const clientOf = ({ understudy }: Result) =>
  (understudy as unknown as { client: { cpu_s: number; cpu_share: number } }).client;

/** Records an answer of our server, which the C server replays with any number of events. */
function template(tokens: number) {
  const flags = ["--timing", "none", "--max-model-len", "131072", "--num-gpu-blocks-override", "131072"];
  return templateOf([...flags, "--served-model-name", "m"], body(tokens, { seed: 1 }), `load-${process.pid}`);
}

/** Measures CPU time per event of both clients in turn. Events are 2 ms apart, so that each is a read of its own. */
async function cost() {
  const [streams, events] = [100, 10_000];
  await using server = await startLoop(await template(2000), { events, wait: streams, periodUs: 2000 });
  const reading = { port: server.port, body: body(events), streams, together: true };
  const runs = await inTurns<"c" | "ours", { readonly us: number; readonly reads: number }>("cost", pairs, {
    c: async () => {
      const { cpuUs, events, recvs } = complete(await read(reading), streams);
      return { us: cpuUs / events, reads: recvs / events };
    },
    ours: async () => {
      const result = await load(server.port, streams, events, ["--concurrency", String(streams)]);
      const chunks = (result.understudy.distributions!.icl as Distribution).count + streams;
      return { us: (clientOf(result).cpu_s * 1e6) / chunks, reads: Number.NaN };
    },
  });
  const [c, ours] = [medians(runs.c), medians(runs.ours)];
  const ratios = runs.ours.map(({ us }, pair) => us / runs.c[pair]!.us);
  const ratio = median(ratios);
  table(`CPU per received token, ${streams} streams, an event each every 2 ms, median of ${pairs} pairs`, [
    ["", "µs", "reads/event"],
    ["understudy load", ours.us, ""],
    ["bare C client", c.us, c.reads],
  ]);
  note(`${bar("ratio", ratio, COST_BAR, "×")}; pairs: ${ratios.map(figure).join(" ")}`);
  return { ratio, ratios, oursUs: ours.us, cUs: c.us, readsPerEvent: c.reads };
}

/** Measures how late an open loop sends its requests. The C server answers with 8 tokens. */
async function open() {
  await using server = await startLoop(await template(8), { wait: 1, periodUs: 1000 });
  progress(`open: ${rate} requests/s for ${seconds} s`);
  const result = await load(server.port, rate * seconds, 8, ["--request-rate", String(rate)]);
  const { p50, p99, max } = result.understudy.sched_delay_ms!;
  const { cpu_share: cpuShare } = clientOf(result);
  const warnings = result.understudy.warnings!.filter((warning) => /late|core/.test(warning));
  table(`Open loop, Poisson, ${rate} requests/s for ${seconds} s: delay of sending, ms`, [
    ["", "p50", "p99", "max", "client's CPU"],
    ["understudy load", p50!, p99!, max!, `${(cpuShare * 100).toFixed(0)} %`],
  ]);
  note(`${bar("late p99", p99!, LATE_BAR_MS, "ms")}; warnings: ${warnings.join("; ") || "none"}`);
  return { rate, seconds, p50, p99, max, cpuShare, warnings };
}

/**
 * Converts the C client's times into records that can be compared with the truth. The events of a stream are the role, one per
 * token, the usage and the end mark.
 */
function recordsOfReader(streams: number, tokens: number, stamps: string, times: string): RequestRecord[] {
  const events = stampsOf(stamps);
  const sent = streamTimes(times);
  return Array.from({ length: streams }, (_, i) => {
    const chunkUs = events[i]!.slice(1, 1 + tokens);
    const { sentUs, lastUs } = sent[i]!;
    return {
      ...{ index: i, requestId: `reader-${String(i).padStart(6, "0")}`, status: 200, failure: null, done: true },
      ...{ intendedUs: sentUs, sendUs: sentUs, firstUs: chunkUs[0]!, lastUs: chunkUs[tokens - 1]!, endUs: lastUs },
      ...{ chunkUs, chunkTokens: new Int32Array(tokens), outputTokens: tokens, wantedTokens: tokens, usage: true },
      ...{ inputTokens: 0, cachedTokens: 0, retries: 0, disturbed: null },
    };
  });
}

/** Returns a function that runs the bare C client and compares its times with the truth. */
function cSide(port: number, streams: number, tokens: number, clock: WallClock) {
  const [stamps, perStream] = [`${folder}/stamps-${process.pid}`, `${folder}/times-${process.pid}`];
  const asked = body(tokens, { request_id: "reader-@@@@@@" });
  return async (): Promise<TruthResult> => {
    const at = { headers: {}, tls: { rejectUnauthorized: true } };
    const source = new ServerTruthSource(`http://127.0.0.1:${port}`, at, clock);
    await source.begin();
    const options = { ramp: 1, everyMs: 2, perStream, stamps, stampsMost: tokens + 8 };
    complete(await read({ port, body: asked, streams, ...options }), streams);
    return compareWithTruth(recordsOfReader(streams, tokens, stamps, perStream), await source.end());
  };
}

/** Returns a function that runs `understudy load --check-truth` and returns its own comparison with the truth. */
function oursSide(port: number, streams: number, tokens: number) {
  const open = ["--request-rate", SENDS, "--arrival-pattern", "constant", "--num-warmups", "100", "--check-truth"];
  return async () => (await load(port, streams, tokens, open)).understudy.truth as TruthResult;
}

type Side = "c" | "ours";

/**
 * Compares the times of both clients with the server's truth, at 20 ms per step. A stream lasts 20 s, so that the seconds in
 * which streams begin and end are a small part of the result.
 */
async function truth(streams: number) {
  const tokens = 1000;
  await using server = await serve([
    ...["--timing", "constant:ttft=40ms,itl=20ms", "--max-num-seqs", String(streams), "--served-model-name", "m"],
    ...["--truth-requests", String(4 * streams), "--disable-uvicorn-access-log"],
    // The KV pool has room for all streams, so that no request is preempted.
    ...["--num-gpu-blocks-override", "131072"],
  ]);
  const clock = new WallClock();
  const sides = { c: cSide(server.port, streams, tokens, clock), ours: oursSide(server.port, streams, tokens) };
  // The first round compiles the server's hot path.
  const runs = await inTurns(`truth: ${streams} streams`, rounds, sides, 1).finally(() => clock.close());
  for (const { missing } of [...runs.c, ...runs.ours])
    if (missing > 0) throw new Error(`${missing} requests have no truth`);
  return summary(streams, runs);
}

/**
 * Prints and judges the medians of the rounds. The smallest value of each number is printed, too, because pauses of the machine
 * only ever add to an error.
 */
function summary(streams: number, runs: Readonly<Record<Side, readonly TruthResult[]>>) {
  const quietest = (values: ArrayLike<number>) => Math.min(...Array.from(values, Math.abs));
  const all = (side: Side, metric: string, q: string) => runs[side].map((run) => run.errors![metric]![q as "p50"]!);
  const SHOWN = ["ttft p50", "ttft p99", "itl p50", "itl p95", "itl p99", "e2el p50", "e2el p99"].map(
    (name) => name.split(" ") as [metric: string, q: string],
  );
  const row = (side: Side, name: string, of: typeof quietest) => [name, ...SHOWN.map((each) => of(all(side, ...each)))];
  table(`Measured minus true, ms: ${streams} streams at 20 ms, ${rounds} rounds`, [
    ["", "TTFT p50", "p99", "ITL p50", "p95", "p99", "E2EL p50", "p99"],
    row("ours", "understudy load, median", median),
    row("c", "bare C client, median", median),
    row("ours", "understudy load, smallest", quietest),
    row("c", "bare C client, smallest", quietest),
  ]);
  for (const side of ["ours", "c"] as const)
    note(`ITL p99 of each round, ${side}: ${all(side, "itl", "p99").map(figure).join(" ")}`);
  bars(["ITL error p99", median(all("ours", "itl", "p99")), ITL_BAR_MS, "ms"]);
  for (const [metric, q] of [
    ["itl", "p95"] as const,
    ["itl", "p99"] as const,
    ["ttft", "p50"] as const,
    ["ttft", "p99"] as const,
  ]) {
    const ratio = (of: typeof quietest) => of(all("ours", metric, q)) / of(all("c", metric, q));
    const line = bar(`${metric.toUpperCase()} error ${q} / the C client's`, ratio(median), ERROR_BAR, "×");
    note(`${line}; of the smallest values ${figure(ratio(quietest))}`);
  }
  const figures = (side: Side, of: typeof quietest) => {
    const value = (metric: string, q: string) => of(all(side, metric, q));
    const ttft = { p50: value("ttft", "p50"), p99: value("ttft", "p99") };
    return { ttft, itl: { p50: value("itl", "p50"), p95: value("itl", "p95"), p99: value("itl", "p99") } };
  };
  const each = (side: Side) => ({ median: figures(side, median), quietest: figures(side, quietest) });
  return { streams, rounds, ours: each("ours"), c: each("c") };
}

const figures: Record<string, unknown> = {};
if (only === "" || only === "cost") figures.cost = await cost();
if (only === "" || only === "open") figures.open = await open();
if (only === "" || only === "truth") {
  const all = [];
  for (const streams of sizes.split(",")) all.push(await truth(Number(streams)));
  figures.truth = all;
}
save("load", figures);
