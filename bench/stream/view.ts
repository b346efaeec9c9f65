/**
 * Measures streams from outside the server: CPU time per token in its first seconds and later, rate, gaps and memory of many
 * streams. Each is measured in turn with the bare C server.
 */
import { median } from "../lib/numbers.ts";
import { has, number, text } from "../lib/options.ts";
import {
  cpuOf,
  program,
  type RunningServer,
  residentBytes,
  SERVER_CORE,
  serverCommand,
  start,
} from "../lib/process.ts";
import { chat } from "../lib/prompt.ts";
import { type ReaderResult, read } from "../lib/reader.ts";
import { bar, figure, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture } from "./capture.ts";
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
const body = (tokens: number) => chat("Tell me about the weather.", tokens, { seed: 1 });
/** Returns the flag that passes the value of `--writes` to our server. */
const writes = () => (text("--writes", "") === "" ? [] : ["--stream-writes", text("--writes", "")]);

function pacedFlags(streams: number, blocks = 524_288): string[] {
  return [
    ...["--timing", `constant:ttft=100ms,itl=${PERIOD_US / 1000}ms`, "--max-num-seqs", String(streams + 64)],
    ...["--max-model-len", "131072", "--num-gpu-blocks-override", String(blocks), ...writes()],
  ];
}

const ours = (flags: readonly string[]) => start(serverCommand([...flags, ...writes()]), { core: SERVER_CORE });

/** Starts the C server, which replays an answer of ours with `ENDLESS` events. */
async function looping(template: string, streams: number, periodUs: number): Promise<RunningServer> {
  const words = [program("anchor"), "--template", root + template, "--wait", String(streams)];
  words.push("--events", String(ENDLESS), "--period-us", String(periodUs));
  return start(words, { core: SERVER_CORE });
}

async function templateOf(flags: readonly string[]): Promise<string> {
  const server = await ours(flags);
  try {
    return (await capture(server.port, body(200), "view")).path;
  } finally {
    await server.stop();
  }
}

/** Reads streams for `ms`, after `settleMs`. Returns the client's result, the memory, and the CPU time per event. */
async function stretch(
  { pid, port }: RunningServer,
  streams: number,
  ms: number,
  { tokens = ENDLESS, settleMs = 0 } = {},
) {
  const options = {
    port,
    body: body(tokens),
    streams,
    together: true,
    durationMs: settleMs + ms,
    settleMs,
    gaps: true,
  };
  const reading = read(options);
  if (settleMs > 0) await Bun.sleep(settleMs);
  const before = cpuOf(pid);
  await Bun.sleep(0.8 * ms);
  const openMb = residentBytes(pid) / 1e6;
  const result = await reading;
  const after = cpuOf(pid);
  const cpuUs = after.userUs + after.systemUs - before.userUs - before.systemUs;
  return { result, openMb, cpuUs: cpuUs / result.events, reads: result.recvs / result.events };
}

/** Measures the first five seconds of a server, and the next five. */
async function firstSeconds(server: RunningServer) {
  try {
    const cold = await stretch(server, FREE_STREAMS, 5000);
    const warm = await stretch(server, FREE_STREAMS, 5000);
    const whole =
      (cold.cpuUs * cold.result.events + warm.cpuUs * warm.result.events) / (cold.result.events + warm.result.events);
    return { warmUs: warm.cpuUs, wholeUs: whole, reads: Math.min(cold.reads, warm.reads) };
  } finally {
    await server.stop();
  }
}

async function cpu() {
  const template = await templateOf(FREE_FLAGS);
  const all: { ours: Awaited<ReturnType<typeof firstSeconds>>; loop: Awaited<ReturnType<typeof firstSeconds>> }[] = [];
  for (let pair = 0; pair < pairs(); pair++) {
    progress(`view: cold and warm, pair ${pair + 1} of ${pairs()}`);
    const mine = await firstSeconds(await ours(FREE_FLAGS));
    all.push({ ours: mine, loop: await firstSeconds(await looping(template, FREE_STREAMS, 0)) });
  }
  const warm = median(all.map(({ ours, loop }) => ours.warmUs / loop.warmUs));
  const whole = median(all.map(({ ours, loop }) => ours.wholeUs / loop.wholeUs));
  const row = (side: "ours" | "loop", name: string) => {
    const of = (key: "wholeUs" | "warmUs" | "reads") => median(all.map((pair) => pair[side][key]));
    return [name, of("wholeUs"), of("warmUs"), of("reads")];
  };
  table(`CPU per streamed token, ${FREE_STREAMS} streams, µs, median of ${all.length} pairs`, [
    ["", "ten seconds from the start", "second 5 to 10", "reads/event"],
    row("ours", "understudy"),
    row("loop", "bare C loop"),
  ]);
  console.log(`  ${bar("second 5 to 10 ÷ the C loop's", warm, BAR.warm, "×")}`);
  console.log(`  ${bar("from a cold start ÷ the C loop's", whole, BAR.cold, "×")}`);
  return { warm, whole, pairs: all };
}

/** Returns the events per second of all streams, by the client's clock. */
const rateOf = ({ events, streamingUs }: ReaderResult) => events / (streamingUs / 1e6);

async function pacedPair(streams: number, template: string) {
  const ms = seconds() * 1000;
  const measure = async (server: RunningServer) => {
    try {
      // Opening so many streams takes some seconds, in which Bun also compiles the code.
      const tokens = tokensFor(ms + SETTLE_MS);
      const { result, openMb, cpuUs } = await stretch(server, streams, ms, { tokens, settleMs: SETTLE_MS });
      if (result.open !== streams) throw new Error(JSON.stringify(result));
      return { rate: rateOf(result), gap: result.gapUs!, openMb, cpuUs };
    } finally {
      await server.stop();
    }
  };
  const mine = await measure(await ours(pacedFlags(streams)));
  return { ours: mine, loop: await measure(await looping(template, streams, PERIOD_US)) };
}

async function paced(streams: number, template: string) {
  const all: Awaited<ReturnType<typeof pacedPair>>[] = [];
  for (let pair = 0; pair < pairs(); pair++) {
    progress(`view: ${streams} streams at 20 ms, pair ${pair + 1} of ${pairs()}`);
    all.push(await pacedPair(streams, template));
  }
  const of = (side: "ours" | "loop", key: (run: (typeof all)[number]["ours"]) => number) =>
    median(all.map((pair) => key(pair[side])));
  const row = (side: "ours" | "loop", name: string) => [
    ...[name, Math.round(of(side, ({ rate }) => rate)), of(side, ({ gap }) => gap.p50 / 1000)],
    ...[of(side, ({ gap }) => gap.p99 / 1000), of(side, ({ openMb }) => openMb), of(side, ({ cpuUs }) => cpuUs)],
  ];
  table(`${streams} streams at ${PERIOD_US / 1000} ms, ${seconds()} s, median of ${all.length} pairs`, [
    ["", "events/s", "gap p50, ms", "p99", "MB", "CPU/event, µs"],
    row("ours", "understudy"),
    row("loop", "bare C loop"),
  ]);
  const rate = median(all.map(({ ours, loop }) => ours.rate / loop.rate));
  const beyondMs = median(all.map(({ ours, loop }) => (ours.gap.p99 - loop.gap.p99) / 1000));
  const most = BAR.gapBeyondMs[streams as keyof typeof BAR.gapBeyondMs];
  const verdict = rate >= BAR.rate ? "holds" : "MISSED";
  if (streams === RATE_STREAMS)
    console.log(`  ${verdict}  rate ÷ the C loop's: ${figure(rate)} (at least ${BAR.rate})`);
  else console.log(`  ${bar("gap p99, minus the C loop's", beyondMs, most, "ms")}`);
  if (streams === 2000)
    console.log(
      `  ${bar(
        "memory with 2,000 open streams",
        of("ours", ({ openMb }) => openMb),
        BAR.openMb,
        "MB",
      )}`,
    );
  return { streams, rate, beyondMs, pairs: all };
}

/** Tokens of an answer, which lasts ten seconds. */
const FLAT_TOKENS = 500;
/** About as many KV blocks as 2,000 answers need, so that all are soon in use. A block takes memory when it is first used. */
const FLAT_BLOCKS = 131_072;

/** Measures how much memory grows with 2,000 streams (`--minutes`), from a fifth of the time to the end. */
async function flat(minutes: number) {
  const server = await ours(pacedFlags(2000, FLAT_BLOCKS));
  const readings: number[] = [];
  try {
    const ms = minutes * 60_000;
    const answers = Math.ceil(ms / ((FLAT_TOKENS * PERIOD_US) / 1000)) + 1;
    const asked = { body: body(FLAT_TOKENS), requests: answers, streams: 2000 };
    const reading = read({ port: server.port, ...asked, together: true, durationMs: ms });
    for (let i = 0; i < 20; i++) {
      progress(`view: memory over ${minutes} minutes, ${i} of 20`);
      await Bun.sleep((ms / 20) * 0.95);
      readings.push(residentBytes(server.pid) / 1e6);
    }
    await reading;
  } finally {
    await server.stop();
  }
  const growthMb = readings.at(-1)! - readings[3]!;
  table(`Memory of 2,000 streams at 20 ms over ${minutes} minutes, MB`, [
    ["after a fifth", "at the end"],
    [readings[3]!, readings.at(-1)!],
  ]);
  console.log(`  ${bar("growth", growthMb, BAR.growthMb, "MB")}`);
  return { minutes, growthMb, readings };
}

export async function view() {
  const only = number("--streams", 0);
  const part = text("--part", only === 0 ? "" : "paced");
  const asked = (name: string) => part === "" || part === name;
  const figures: Record<string, unknown> = { writes: text("--writes", "default") };
  if (asked("cpu")) figures.cpu = await cpu();
  if (asked("paced")) {
    const template = await templateOf(pacedFlags(FREE_STREAMS));
    const cases: unknown[] = [];
    for (const streams of [1000, 2000, RATE_STREAMS]) {
      if (only === 0 || only === streams) cases.push(await paced(streams, template));
    }
    figures.paced = cases;
  }
  if (asked("scraped")) figures.scraped = await scraped(pacedFlags(500), has("--quick") ? 20 : 100);
  const minutes = number("--minutes", 0);
  if (minutes > 0) figures.flat = await flat(minutes);
  return figures;
}
