/**
 * Measures streams from outside the server: CPU time per token in its first seconds and later, rate, gaps and memory of many
 * streams. Each is measured in turn with the bare C server.
 */

import { bars, figure, has, note, number, progress, table, text } from "../lib/bench.ts";
import { besideStreams, sameChat } from "../lib/client.ts";
import { median, medians } from "../lib/numbers.ts";
import { type RunningServer, residentMb, serve, withCpu } from "../lib/servers.ts";
import { againstLoop, startLoop, type Template, templateOf } from "./capture.ts";
import { FREE_FLAGS } from "./cpu.ts";
import { scraped } from "./scraped.ts";

const BAR = { warm: 1.15, cold: 1.25, rate: 0.87, gapBeyondMs: { 1000: 1.5, 2000: 2.2 }, openMb: 150, growthMb: 10 };
const FREE_STREAMS = 64;
const PERIOD_US = 20_000;
const RATE_STREAMS = 5000;
/** Output tokens of a stream at full speed: more than the time allows. For paced streams `tokensFor` suffices. */
const ENDLESS = 130_000;
const SETTLE_MS = 8000;
const tokensFor = (ms: number) => Math.ceil((1.2 * ms * 1000) / PERIOD_US) + 200;

const seconds = () => number("--seconds", has("--quick") ? 5 : 20);
const pairs = () => number("--pairs", has("--quick") ? 1 : 3);
/** Returns the flag that passes the value of `--writes` to our server. */
const writes = () => (text("--writes", "") === "" ? [] : ["--stream-writes", text("--writes", "")]);

function pacedFlags(streams: number, blocks = 524_288): string[] {
  return [
    ...["--timing", `constant:ttft=100ms,itl=${PERIOD_US / 1000}ms`, "--max-num-seqs", String(streams + 64)],
    ...["--max-model-len", "131072", "--num-gpu-blocks-override", String(blocks), ...writes()],
  ];
}

const ours = (flags: readonly string[]) => serve([...flags, ...writes()]);
const recorded = (flags: readonly string[]) => templateOf([...flags, ...writes()], sameChat(200), "view");

/** Starts the C server, which replays an answer of ours with `ENDLESS` events. */
const loop = (template: Template, wait: number, periodUs: number) =>
  startLoop(template, { wait, events: ENDLESS, periodUs });

/** Reads streams for `ms`, after `settleMs`. Returns the client's result, the memory, and the CPU time per event. */
async function stretch(server: RunningServer, streams: number, ms: number, { tokens = ENDLESS, settleMs = 0 } = {}) {
  const times = { durationMs: settleMs + ms, settleMs };
  const options = { body: sameChat(tokens), streams, together: true, gaps: true, ...times };
  let openMb = 0;
  const { acted, streams: result } = await besideStreams(server, options, settleMs, () =>
    withCpu(server, async () => {
      await Bun.sleep(0.8 * ms);
      openMb = residentMb(server.pid);
      await Bun.sleep(0.2 * ms);
    }),
  );
  return { result, openMb, cpuUs: acted.us / result.events, reads: result.recvs / result.events };
}

/** Measures the first five seconds of a server, and the next five. */
async function firstSeconds(server: RunningServer) {
  const cold = await stretch(server, FREE_STREAMS, 5000);
  const warm = await stretch(server, FREE_STREAMS, 5000);
  const [coldEvents, warmEvents] = [cold.result.events, warm.result.events];
  const wholeUs = (cold.cpuUs * coldEvents + warm.cpuUs * warmEvents) / (coldEvents + warmEvents);
  return { wholeUs, warmUs: warm.cpuUs, reads: Math.min(cold.reads, warm.reads) };
}

async function cpu() {
  const template = await recorded(FREE_FLAGS);
  const [begin, beginLoop] = [() => ours(FREE_FLAGS), () => loop(template, FREE_STREAMS, 0)];
  const all = await againstLoop("view: cold and warm", pairs(), begin, beginLoop, firstSeconds);
  const ratio = (key: "warmUs" | "wholeUs") => median(all.pairs.map(({ ours, loop }) => ours[key] / loop[key]));
  const [warm, whole] = [ratio("warmUs"), ratio("wholeUs")];
  table(`CPU per streamed token, ${FREE_STREAMS} streams, µs, median of ${pairs()} pairs`, [
    ["", "ten seconds from the start", "second 5 to 10", "reads/event"],
    ["understudy", ...Object.values(medians(all.ours))],
    ["bare C loop", ...Object.values(medians(all.loop))],
  ]);
  bars(["second 5 to 10 ÷ the C loop's", warm, BAR.warm, "×"]);
  bars(["from a cold start ÷ the C loop's", whole, BAR.cold, "×"]);
  return { warm, whole, pairs: all.pairs };
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
  const [begin, beginLoop] = [() => ours(pacedFlags(streams)), () => loop(template, streams, PERIOD_US)];
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

/** Tokens of an answer, which lasts ten seconds. */
const FLAT_TOKENS = 500;
/** About as many KV blocks as 2,000 answers need, so that all are soon in use. A block takes memory when it is first used. */
const FLAT_BLOCKS = 131_072;

/** Measures how much memory grows with 2,000 streams (`--minutes`), from a fifth of the time to the end. */
async function flat(minutes: number) {
  await using server = await ours(pacedFlags(2000, FLAT_BLOCKS));
  const readings: number[] = [];
  const ms = minutes * 60_000;
  const requests = Math.ceil(ms / ((FLAT_TOKENS * PERIOD_US) / 1000)) + 1;
  const streams = { body: sameChat(FLAT_TOKENS), requests, streams: 2000, together: true, durationMs: ms };
  await besideStreams(server, streams, 0, async () => {
    for (let i = 0; i < 20; i++) {
      progress(`view: memory over ${minutes} minutes, ${i} of 20`);
      await Bun.sleep((ms / 20) * 0.95);
      readings.push(residentMb(server.pid));
    }
  });
  const [first, last] = [readings[3]!, readings.at(-1)!];
  table(`Memory of 2,000 streams at 20 ms over ${minutes} minutes, MB`, [
    ["after a fifth", "at the end"],
    [first, last],
  ]);
  bars(["growth", last - first, BAR.growthMb, "MB"]);
  return { minutes, growthMb: last - first, readings };
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
  const minutes = number("--minutes", 0);
  if (minutes > 0) figures.flat = await flat(minutes);
  return figures;
}
