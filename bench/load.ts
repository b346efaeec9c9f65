/**
 * Measures the load generator's CPU time, the delay with which it sends, and the error of its numbers. A bare C client
 * (stream/reader.c), which only takes the time of each read, is measured in the same run. The server runs on one core, the
 * clients on the other.
 *
 *   bun run bench load [--only cost|open|truth] [--pairs 5] [--rounds 9] [--seconds 30] [--rate 2000] [--streams 200,1000]
 *                      [--no-save]
 */
import options from "../bin/load-options.json";
import { WallClock } from "../src/base/clock.ts";
import type { RequestRecord } from "../src/tools/load/requests/types.ts";
import { compareWithTruth, ServerTruthSource, type TruthResult } from "../src/tools/load/truth.ts";
import type { Distribution, Result } from "../src/tools/report/result.ts";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { CLIENT_CORE, pinned, program, type RunningServer, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { complete, read, stampsOf, streamTimes } from "./lib/reader.ts";
import { bar, figure, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { capture } from "./stream/capture.ts";

rejectUnknown(["--only", "--pairs", "--rounds", "--seconds", "--rate", "--streams", "--no-save", "--realtime"]);

const COST_BAR = 1.5;
const LATE_BAR_MS = 2;
const ERROR_BAR = 1.3;
const ITL_BAR_MS = 1;

const only = text("--only", "");
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
  const words = [process.execPath, "src/main.ts", "load", "--url", `http://127.0.0.1:${port}`, "--model", "m"];
  words.push("--dataset-name", "custom", "--dataset-path", prompts, "--num-prompts", String(requests), "--ignore-eos");
  words.push("--no-server-metrics", "--json", json, ...flags);
  const child = Bun.spawn(pinned(CLIENT_CORE, words), {
    cwd: root,
    // The installed command starts with the same options of the runtime.
    env: { ...options, ...process.env },
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

/** Records an answer of our server, which the C server replays with any number of events. Returns the path of the record. */
async function template(tokens: number): Promise<string> {
  const flags = ["--timing", "none", "--max-model-len", "131072", "--num-gpu-blocks-override", "131072"];
  const ours = await start(serverCommand([...flags, "--served-model-name", "m"]), { core: SERVER_CORE });
  try {
    return (await capture(ours.port, body(tokens, { seed: 1 }), `load-${process.pid}`)).path;
  } finally {
    await ours.stop();
  }
}

const anchor = (path: string, flags: readonly string[]): Promise<RunningServer> =>
  start([program("anchor"), "--template", path, ...flags], { core: SERVER_CORE });

/** Measures CPU time per event of both clients in turn. Events are 2 ms apart, so that each is a read of its own. */
async function cost() {
  const [streams, events, pairs] = [100, 10_000, number("--pairs", 5)];
  const path = await template(2000);
  const flags = ["--events", String(events), "--wait", String(streams), "--period-us", "2000"];
  const server = await anchor(path, flags);
  const runs: { c: number; ours: number; reads: number }[] = [];
  try {
    for (let pair = 0; pair < pairs; pair++) {
      progress(`cost: pair ${pair + 1} of ${pairs}`);
      const reader = complete(await read({ port: server.port, body: body(events), streams, together: true }), streams);
      const result = await load(server.port, streams, events, ["--concurrency", String(streams)]);
      const chunks = (result.understudy.distributions!.icl as Distribution).count + streams;
      runs.push({
        c: reader.cpuUs / reader.events,
        ours: (clientOf(result).cpu_s * 1e6) / chunks,
        reads: reader.recvs / reader.events,
      });
    }
  } finally {
    await server.stop();
  }
  const of = (key: "c" | "ours" | "reads") => median(runs.map((run) => run[key]));
  const ratio = median(runs.map(({ c, ours }) => ours / c));
  table(`CPU per received token, ${streams} streams, an event each every 2 ms, median of ${pairs} pairs`, [
    ["", "µs", "reads/event"],
    ["understudy load", of("ours"), ""],
    ["bare C client", of("c"), of("reads")],
  ]);
  console.log(
    `  ${bar("ratio", ratio, COST_BAR, "×")}; pairs: ${runs.map(({ c, ours }) => figure(ours / c)).join(" ")}`,
  );
  return {
    ratio,
    ratios: runs.map(({ c, ours }) => ours / c),
    oursUs: of("ours"),
    cUs: of("c"),
    readsPerEvent: of("reads"),
  };
}

/** Measures how late an open loop sends its requests. The C server answers with 8 tokens. */
async function open() {
  const [rate, seconds] = [number("--rate", 2000), number("--seconds", 30)];
  const path = await template(8);
  const server = await anchor(path, ["--wait", "1", "--period-us", "1000"]);
  progress(`open: ${rate} requests/s for ${seconds} s`);
  try {
    const result = await load(server.port, rate * seconds, 8, ["--request-rate", String(rate)]);
    const { p50, p99, max } = result.understudy.sched_delay_ms!;
    const { cpu_share: share } = clientOf(result);
    const warned = result.understudy.warnings!.filter((warning) => /late|core/.test(warning));
    table(`Open loop, Poisson, ${rate} requests/s for ${seconds} s: delay of sending, ms`, [
      ["", "p50", "p99", "max", "client's CPU"],
      ["understudy load", p50!, p99!, max!, `${(share * 100).toFixed(0)} %`],
    ]);
    console.log(`  ${bar("late p99", p99!, LATE_BAR_MS, "ms")}; warnings: ${warned.join("; ") || "none"}`);
    return { rate, seconds, p50, p99, max, cpuShare: share, warnings: warned };
  } finally {
    await server.stop();
  }
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
    return {
      index: i,
      requestId: `reader-${String(i).padStart(6, "0")}`,
      intendedUs: sent[i]!.sentUs,
      sendUs: sent[i]!.sentUs,
      firstUs: chunkUs[0]!,
      lastUs: chunkUs[tokens - 1]!,
      endUs: sent[i]!.lastUs,
      chunkUs,
      chunkTokens: new Int32Array(tokens),
      inputTokens: 0,
      outputTokens: tokens,
      usage: true,
      wantedTokens: tokens,
      cachedTokens: 0,
      status: 200,
      failure: null,
      retries: 0,
      disturbed: null,
      done: true,
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

/**
 * Compares the times of both clients with the server's truth, at 20 ms per step. A stream lasts 20 s, so that the seconds in
 * which streams begin and end are a small part of the result.
 */
async function truth(streams: number) {
  const tokens = 1000;
  const server = await start(
    serverCommand([
      ...["--timing", "constant:ttft=40ms,itl=20ms", "--max-num-seqs", String(streams), "--served-model-name", "m"],
      ...["--truth-requests", String(4 * streams), "--disable-uvicorn-access-log"],
      // The KV pool has room for all streams, so that no request is preempted.
      ...["--num-gpu-blocks-override", "131072"],
    ]),
    { core: SERVER_CORE },
  );
  const clock = new WallClock();
  const rounds: { c: TruthResult; ours: TruthResult }[] = [];
  try {
    const [count, sides] = [
      number("--rounds", 9),
      [cSide(server.port, streams, tokens, clock), oursSide(server.port, streams, tokens)],
    ];
    for (let round = -1; round < count; round++) {
      progress(`truth: ${streams} streams, round ${round + 1} of ${count}`);
      // The order alternates, so that leftovers in the server and a busier machine affect both clients alike.
      const order = round % 2 === 0 ? [0, 1] : [1, 0];
      const found: TruthResult[] = [];
      for (const side of order) found[side] = await sides[side]!();
      for (const { missing } of found) if (missing > 0) throw new Error(`${missing} requests have no truth`);
      // The first round compiles the server's hot path.
      if (round >= 0) rounds.push({ c: found[0]!, ours: found[1]! });
    }
  } finally {
    clock.close();
    await server.stop();
  }
  return summary(streams, rounds);
}

/**
 * Prints and judges the medians of the rounds. The smallest value of each number is printed, too, because pauses of the machine
 * only ever add to an error.
 */
function summary(streams: number, rounds: readonly { readonly c: TruthResult; readonly ours: TruthResult }[]) {
  const quietest = (values: ArrayLike<number>) => Math.min(...Array.from(values, Math.abs));
  const all = (side: "c" | "ours", metric: string, q: `p${number}`) =>
    rounds.map((round) => round[side].errors![metric]![q]!);
  const row = (side: "c" | "ours", name: string, of: typeof quietest) => [
    name,
    ...(["p50", "p99"] as const).map((q) => of(all(side, "ttft", q))),
    ...(["p50", "p95", "p99"] as const).map((q) => of(all(side, "itl", q))),
    ...(["p50", "p99"] as const).map((q) => of(all(side, "e2el", q))),
  ];
  table(`Measured minus true, ms: ${streams} streams at 20 ms, ${rounds.length} rounds`, [
    ["", "TTFT p50", "p99", "ITL p50", "p95", "p99", "E2EL p50", "p99"],
    row("ours", "understudy load, median", median),
    row("c", "bare C client, median", median),
    row("ours", "understudy load, smallest", quietest),
    row("c", "bare C client, smallest", quietest),
  ]);
  for (const side of ["ours", "c"] as const)
    console.log(`  ITL p99 of each round, ${side}: ${all(side, "itl", "p99").map(figure).join(" ")}`);
  console.log(`  ${bar("ITL error p99", median(all("ours", "itl", "p99")), ITL_BAR_MS, "ms")}`);
  const compared = (metric: string, q: `p${number}`) => {
    const ratio = (of: typeof quietest) => of(all("ours", metric, q)) / of(all("c", metric, q));
    const name = `${metric.toUpperCase()} error ${q} / the C client's`;
    console.log(`  ${bar(name, ratio(median), ERROR_BAR, "×")}; of the smallest values ${figure(ratio(quietest))}`);
  };
  compared("itl", "p95");
  compared("itl", "p99");
  compared("ttft", "p50");
  compared("ttft", "p99");
  const figures = (side: "c" | "ours", of: typeof quietest) => ({
    ttft: { p50: of(all(side, "ttft", "p50")), p99: of(all(side, "ttft", "p99")) },
    itl: { p50: of(all(side, "itl", "p50")), p95: of(all(side, "itl", "p95")), p99: of(all(side, "itl", "p99")) },
  });
  const each = (side: "c" | "ours") => ({ median: figures(side, median), quietest: figures(side, quietest) });
  return { streams, rounds: rounds.length, ours: each("ours"), c: each("c") };
}

const figures: Record<string, unknown> = {};
if (only === "" || only === "cost") figures.cost = await cost();
if (only === "" || only === "open") figures.open = await open();
if (only === "" || only === "truth") {
  const sizes = text("--streams", "200,1000").split(",").map(Number);
  const all = [];
  for (const streams of sizes) all.push(await truth(streams));
  figures.truth = all;
}
save("load", figures);
