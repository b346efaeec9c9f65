/**
 * Checks that the server cleans up after clients that leave or stop reading:
 *
 * 1. For a minute, ten thousand connections are opened and cut every ten seconds. After a round, all gauges must return to 0
 *    and the server must have counted the aborts. After all rounds, it must have about the memory and the descriptors that it
 *    had after the first.
 * 2. In 40 rounds, 500 streams are cut at once by FIN or RST. The same must hold.
 * 3. For two minutes, a thousand clients stop reading endless answers while a hundred others read.
 *
 *   bun run bench flood [--rounds 40] [--streams 500] [--seconds 60] [--per-10s 10000] [--stalled 1000]
 *                       [--stall-seconds 120] [--no-save]
 */
import { readdirSync } from "node:fs";
import { posted, RawSocket, WAYS, type Way } from "../test/conformance/raw-socket.ts";
import { bars, note, options, progress, save, table } from "./lib/bench.ts";
import { chat, Page, prose, type ReaderOptions, read } from "./lib/client.ts";
import { slope } from "./lib/numbers.ts";
import { residentMb, serve } from "./lib/servers.ts";

const defaults = { rounds: 40, streams: 500, seconds: 60, "per-10s": 10_000, stalled: 1000, "stall-seconds": 120 };
const { rounds, streams, seconds, "per-10s": per10s, stalled, "stall-seconds": stallSeconds } = options(defaults);

/** Time of a step, about that of a real engine with a thousand sequences. */
const STEP_MS = 40;
const SPREAD_S = 10;
/** Output tokens of each answer: more than the time allows, but few enough that all answers fit the core's 4 million blocks. */
const ENDLESS = 6000;
const READING = 100;
/** Bound on the time until all gauges are 0. Longer than a step, because closing sockets and reading pages take time, too. */
const WITHIN_MS = 250;
/** Receive buffer of sockets that stop reading, in bytes. A small one makes the kernel accept little of the answer. */
const SMALL_BUFFER = 4096;
/** Connections per second, during each spread round, that leave before their request is complete. */
const HALF_HEADS = 50;
const MEMORY_SHARE = 0.1;
const STALL_MB = 50;
const GAUGES = [
  ...["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"],
  ...["understudy_requests_open", "understudy_streams_open", "understudy_held_bytes"],
];

await using server = await serve([
  ...["--timing", `linear:base=${STEP_MS}ms,prefill=0ms,decode=0ms`, "--disable-uvicorn-access-log"],
  ...["--max-num-seqs", "2048", "--max-model-len", "131072", "--num-gpu-blocks-override", "1048576"],
]);
const { port, pid } = server;
const memory = () => ({ mb: residentMb(pid), descriptors: readdirSync(`/proc/${pid}/fd`).length });
const endless = (streams: number, more: Omit<ReaderOptions, "port" | "body">) =>
  read({ port, body: chat(`@@@@@@ ${prose(20)}`, ENDLESS), streams, ...more });

/** Returns the gauges that are not 0 after four seconds. Returns early if all are 0. */
async function leftover(): Promise<string[]> {
  for (const fromMs = performance.now(); ; await Bun.sleep(5)) {
    const page = await Page.of(port);
    const left = GAUGES.filter((name) => page.value(name) !== 0);
    if (left.length === 0 || performance.now() > fromMs + 4000) return left;
  }
}

const aborts = async () => (await Page.of(port)).value("understudy_requests_total", 'outcome="abort"') || 0;

/** The kinds of rounds: streams that are cut at once, and connections that are opened over ten seconds and cut. */
const KINDS = {
  "at once": { rounds, count: streams, spreadS: 0, ways: ["fin", "rst"], reading: { together: true, cut: 5 } },
  "over 10 s": {
    ...{ rounds: Math.max(2, Math.round(seconds / SPREAD_S)), count: per10s, spreadS: SPREAD_S, ways: WAYS },
    reading: { ramp: Math.ceil(per10s / (SPREAD_S * 100)), everyMs: 10, cut: 1 },
  },
} as const;

async function halfHeads(untilMs: number): Promise<number> {
  const text = posted("/v1/completions", { model: "x", prompt: "x" });
  let count = 0;
  while (performance.now() < untilMs) {
    const socket = await RawSocket.connect(port).catch(() => null);
    socket?.write(text.slice(0, count % text.length));
    const way: Way = WAYS[count++ % WAYS.length]!;
    setTimeout(() => {
      socket?.leave(way);
      setTimeout(() => socket?.destroy(), 1000);
    }, 20);
    await Bun.sleep(1000 / HALF_HEADS);
  }
  return count;
}

async function cutRound({ count, spreadS, reading }: (typeof KINDS)[keyof typeof KINDS], ending: Way) {
  const before = await aborts();
  const untilMs = performance.now() + spreadS * 1000;
  const cutting = endless(count, { ...reading, ending });
  const [{ cut, errors, refused }, heads] = await Promise.all([cutting, halfHeads(untilMs)]);
  await Bun.sleep(Math.max(0, untilMs - performance.now()));
  const fromMs = performance.now();
  const left = await leftover();
  const clearMs = performance.now() - fromMs;
  const counted = (await aborts()) - before;
  if (spreadS > 0) await Bun.sleep(1500); // lets half-closed sockets close
  return { how: ending, cut, counted, halfHeads: heads, errors: errors + refused, ...memory(), left, clearMs };
}

/** Runs all rounds of a kind, prints and judges them. */
async function measureCuts(name: keyof typeof KINDS) {
  const kind = KINDS[name];
  const seen: Awaited<ReturnType<typeof cutRound>>[] = [];
  for (let round = 0; round < kind.rounds; round++) {
    const ending = kind.ways[round % kind.ways.length]!;
    progress(`flood: ${name}, round ${round + 1} of ${kind.rounds}, ${ending}`);
    seen.push(await cutRound(kind, ending));
  }
  // Clients that leave within their body count, too.
  const isWrong = (counted: number) => (kind.spreadS > 0 ? counted < kind.count : counted !== kind.count);
  const wrong = seen.filter(({ cut, counted, left }) => cut !== kind.count || isWrong(counted) || left.length > 0);
  const [first, last] = [seen[0]!, seen.at(-1)!];
  const growthPercent = 100 * Math.abs(last.mb / first.mb - 1);
  table(`${kind.count} connections cut ${name}`, [
    ["", "cut", "counted", "incomplete requests", "errors", "MB", "descriptors", "ms until gauges are 0", "above 0"],
    ...seen.map(({ left, ...row }) => [...Object.values(row), left.join(" ") || "-"]),
  ]);
  const holds = bars(
    ["rounds with a wrong count of aborts or a gauge above 0", wrong.length, 0, "rounds"],
    ["longest time until gauges are 0", Math.max(...seen.map(({ clearMs }) => clearMs)), WITHIN_MS, "ms"],
    ["file descriptors, more than after the first round", Math.max(0, last.descriptors - first.descriptors), 0, ""],
    ["memory after the last round, change since the first", growthPercent, MEMORY_SHARE * 100, "%"],
  );
  const trendKb = slope(seen.slice(seen.length >> 1).map(({ mb }) => mb)) * 1000;
  note(`trend of memory over the second half: ${trendKb.toFixed(0)} KB per round`);
  return { name, holds, growthPercent, trendKb, rounds: seen };
}

const reading = (seconds: number) => endless(READING, { together: true, gaps: true, durationMs: seconds * 1000 });

const fresh = memory();
const cuts = [await measureCuts("over 10 s"), await measureCuts("at once")];
progress("flood: streams alone");
const alone = await reading(20);
await leftover();
const stallBeforeMb = residentMb(pid);
progress(`flood: ${stalled} that stop reading`);
const stallMs = stallSeconds * 1000;
const stalls = endless(stalled, { together: true, stallMs, durationMs: stallMs, rcvbuf: SMALL_BUFFER });
const stallMb: number[] = [];
const watching = setInterval(() => stallMb.push(residentMb(pid)), 1000);
await Bun.sleep(5000);
const beside = await reading(stallSeconds - 15);
const { events: stalledEvents } = await stalls;
clearInterval(watching);
const left = await leftover();
const afterMb = residentMb(pid);

const mostMb = Math.max(...stallMb);
const grownMb = mostMb - stallBeforeMb;
table(`${READING} clients that read while ${stalled} others stop for ${stallSeconds} s`, [
  ["", "events", "gap p50 us", "gap p99", "gap max"],
  ...Object.entries({ alone, "while others are stalled": beside }).map(([name, { events, gapUs }]) => [
    ...[name, events, gapUs!.p50, gapUs!.p99, gapUs!.max],
  ]),
]);
bars(["growth of RSS while clients stall", Math.max(0, grownMb), STALL_MB, "MB"]);
const rss = [`${stallBeforeMb.toFixed(0)} MB before`, `${mostMb.toFixed(0)} at most`, `${afterMb.toFixed(0)} after`];
note(`RSS ${rss.join(", ")}; gauges above 0: ${left.join(" ") || "none"}`);
save("flood", {
  ...{ freshMb: fresh.mb, freshDescriptors: fresh.descriptors, cuts, stalled, stallSeconds, stalledEvents },
  ...{ stallBeforeMb, stallMb: stallMb.map(Math.round), grownMb, afterMb, left },
  gapUs: { alone: alone.gapUs, beside: beside.gapUs },
});
if (!cuts.every(({ holds }) => holds) || left.length > 0 || grownMb > STALL_MB) process.exitCode = 1;
