/**
 * Measures streams from outside the server: CPU time per event in its first seconds, while its compilers work, and later; rate,
 * gaps and memory of many streams. Each is measured in turn with the bare C server.
 */

import { bars, figure, has, note, number, table, text } from "../lib/bench.ts";
import { besideStreams, sameChat } from "../lib/client.ts";
import { median, medians } from "../lib/numbers.ts";
import { type RunningServer, residentMb, serve, withCpu } from "../lib/servers.ts";
import { againstLoop, startLoop, type Template, templateOf } from "./capture.ts";
import { FREE_FLAGS } from "./cpu.ts";
import { scraped } from "./scraped.ts";

const BAR = { rate: 0.87, gapBeyondMs: { 1000: 1.5, 2000: 2.2 }, openMb: 150 };
const FREE_STREAMS = 64;
const PERIOD_US = 20_000;
const RATE_STREAMS = 5000;
/** Output tokens of a stream at full speed: more than the time allows. For paced streams `tokensFor` suffices. */
const ENDLESS = 130_000;
/** Tokens of the recorded answer, which the C server repeats or cuts. */
const RECORDED = 200;
const SETTLE_MS = 8000;
const tokensFor = (ms: number) => Math.ceil((1.2 * ms * 1000) / PERIOD_US) + 200;

const seconds = () => number("--seconds", has("--quick") ? 5 : 20);
const pairs = () => number("--pairs", has("--quick") ? 1 : 3);
/** Returns the flag that passes the value of `--writes` to our server. */
const writes = () => (text("--writes", "") === "" ? [] : ["--stream-writes", text("--writes", "")]);

function pacedFlags(streams: number): string[] {
  return [
    ...["--timing", `constant:ttft=100ms,itl=${PERIOD_US / 1000}ms`, "--max-num-seqs", String(streams + 64)],
    ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288", ...writes()],
  ];
}

const ours = (flags: readonly string[]) => serve([...flags, ...writes()]);
const recorded = (flags: readonly string[]) => templateOf([...flags, ...writes()], sameChat(RECORDED), "view");

interface Stretch {
  readonly tokens: number;
  readonly requests?: number;
  readonly settleMs: number;
}

/** Reads streams for `ms`, after `settleMs`. Returns the client's result, the memory, and the CPU time per event. */
async function stretch(server: RunningServer, streams: number, ms: number, { tokens, settleMs, ...more }: Stretch) {
  const times = { durationMs: settleMs + ms, settleMs };
  const options = { body: sameChat(tokens), streams, together: true, gaps: true, ...times, ...more };
  let openMb = 0;
  const { acted, streams: result } = await besideStreams(server, options, settleMs, () =>
    withCpu(server, async () => {
      await Bun.sleep(0.8 * ms);
      openMb = residentMb(server.pid);
      await Bun.sleep(0.2 * ms);
    }),
  );
  const { events, recvs, slept } = result;
  return { result, openMb, cpuUs: acted.us / events, reads: recvs / events, slept: slept / events };
}

/** Streams whose CPU time is measured between two times after the start of new servers. `most`: bound on the ratio. */
const CPU_CASES = [
  { name: "endless, seconds 0 to 10", tokens: ENDLESS, fromMs: 0, toMs: 10_000, most: 1.25 },
  { name: "endless, seconds 5 to 10", tokens: ENDLESS, fromMs: 5000, toMs: 10_000, most: 1.15 },
  { name: "128 tokens, seconds 2 to 9", tokens: 128, fromMs: 2000, toMs: 9000, most: 1.3 },
];

async function cpu() {
  const template = await recorded(FREE_FLAGS);
  const seen = [];
  for (const { name, tokens, fromMs, toMs, most } of CPU_CASES) {
    const beginLoop = () => startLoop(template, { events: tokens + template.units - RECORDED });
    const measure = (server: RunningServer) =>
      stretch(server, FREE_STREAMS, toMs - fromMs, { tokens, requests: ENDLESS, settleMs: fromMs });
    const all = await againstLoop(`view: ${name}`, pairs(), () => ours(FREE_FLAGS), beginLoop, measure);
    const of = (runs: typeof all.ours) => medians(runs.map(({ cpuUs, reads, slept }) => ({ cpuUs, reads, slept })));
    const times = median(all.pairs.map(({ ours, loop }) => ours.cpuUs / loop.cpuUs));
    seen.push({ name, ours: of(all.ours), loop: of(all.loop), times, most });
  }
  table(`CPU per event of new servers, ${FREE_STREAMS} streams at a time, µs, median of ${pairs()} pairs`, [
    ["", "understudy", "reads/event", "sleeps/event", "bare C loop", "reads/event", "sleeps/event"],
    ...seen.map(({ name, ours, loop }) => [name, ...Object.values(ours), ...Object.values(loop)]),
  ]);
  for (const { name, times, most } of seen) bars([`${name} ÷ the C loop's`, times, most, "×"]);
  return seen;
}

async function paced(streams: number, template: Template) {
  const ms = seconds() * 1000;
  const measure = async (server: RunningServer) => {
    // Opening so many streams takes some seconds, in which Bun also compiles the code.
    const tokens = tokensFor(ms + SETTLE_MS);
    const { result, openMb, cpuUs } = await stretch(server, streams, ms, { tokens, settleMs: SETTLE_MS });
    if (result.open !== streams) throw new Error(JSON.stringify(result));
    return { rate: result.events / (result.streamingUs / 1e6), gap: result.gapUs!, openMb, cpuUs };
  };
  const begin = () => ours(pacedFlags(streams));
  const beginLoop = () => startLoop(template, { wait: streams, events: ENDLESS, periodUs: PERIOD_US });
  const all = await againstLoop(`view: ${streams} streams at 20 ms`, pairs(), begin, beginLoop, measure);
  const of = (side: "ours" | "loop") =>
    medians(all[side].map(({ gap, rate, ...rest }) => ({ rate, p50: gap.p50 / 1000, p99: gap.p99 / 1000, ...rest })));
  const [mine, theirs] = [of("ours"), of("loop")];
  table(`${streams} streams at ${PERIOD_US / 1000} ms, ${seconds()} s, median of ${pairs()} pairs`, [
    ["", "events/s", "gap p50, ms", "p99", "MB", "CPU/event, µs"],
    ["understudy", ...Object.values({ ...mine, rate: Math.round(mine.rate) })],
    ["bare C loop", ...Object.values({ ...theirs, rate: Math.round(theirs.rate) })],
  ]);
  const rate = median(all.pairs.map(({ ours, loop }) => ours.rate / loop.rate));
  const beyondMs = median(all.pairs.map(({ ours, loop }) => (ours.gap.p99 - loop.gap.p99) / 1000));
  const most = BAR.gapBeyondMs[streams as keyof typeof BAR.gapBeyondMs];
  const verdict = rate >= BAR.rate ? "holds" : "MISSED";
  if (most === undefined) note(`${verdict}  rate ÷ the C loop's: ${figure(rate)} (at least ${BAR.rate})`);
  else bars(["gap p99, minus the C loop's", beyondMs, most, "ms"]);
  if (streams === 2000) bars(["memory with 2,000 open streams", mine.openMb, BAR.openMb, "MB"]);
  return { streams, rate, beyondMs, pairs: all.pairs };
}

export async function view() {
  const only = number("--streams", 0);
  const part = text("--part", only === 0 ? "" : "paced");
  const asked = (name: string) => part === "" || part === name;
  const figures: Record<string, unknown> = { writes: text("--writes", "default") };
  if (asked("cpu")) figures.cpu = await cpu();
  if (asked("paced")) {
    const template = await recorded(pacedFlags(FREE_STREAMS));
    const cases: unknown[] = [];
    for (const streams of [1000, 2000, RATE_STREAMS])
      if (only === 0 || only === streams) cases.push(await paced(streams, template));
    figures.paced = cases;
  }
  if (asked("scraped")) figures.scraped = await scraped(pacedFlags(500), has("--quick") ? 20 : 100);
  return figures;
}
