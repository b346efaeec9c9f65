/**
 * Checks that the server cleans up after a flood. For a minute, ten thousand connections are opened and cut every ten seconds.
 * Then, for two minutes, a thousand clients stop reading endless answers while a hundred others read.
 *
 *   bun run bench flood [--seconds 60] [--per-10s 10000] [--stalled 1000] [--stall-seconds 120] [--no-save]
 */
import { readdirSync } from "node:fs";
import { posted, RawSocket, WAYS, type Way } from "../test/conformance/raw-socket.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { type RunningServer, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat, prose } from "./lib/prompt.ts";
import { type ReaderResult, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--seconds", "--per-10s", "--stalled", "--stall-seconds", "--no-save"]);

/** Time of a step, about that of a real engine with a thousand sequences. */
const STEP_MS = 40;
const ROUND_S = 10;
const ROUNDS = Math.max(2, Math.round(number("--seconds", 60) / ROUND_S));
const PER_ROUND = number("--per-10s", 10_000);
const STALLED = number("--stalled", 1000);
const STALL_S = number("--stall-seconds", 120);
/** Output tokens of each answer: more than the time allows, but few enough that all answers fit the core's 4 million blocks. */
const ENDLESS = 6000;
const READING = 100;
/** Receive buffer of sockets that stop reading, in bytes. A small one makes the kernel accept little of the answer. */
const SMALL_BUFFER = 4096;
/** Connections per second, during each round, that leave before their request is complete. */
const HALF_HEADS = 50;
const MEMORY_SHARE = 0.1;
const STALL_MB = 50;
const GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
const FRONT = ["understudy_requests_open", "understudy_streams_open", "understudy_held_bytes"];

const flags = [
  ...["--timing", `linear:base=${STEP_MS}ms,prefill=0ms,decode=0ms`, "--disable-uvicorn-access-log"],
  ...["--max-num-seqs", "2048", "--max-model-len", "131072", "--num-gpu-blocks-override", "1048576"],
];
const endless = (place: string) => chat(`${place} ${prose(20)}`, ENDLESS);
const descriptors = ({ pid }: RunningServer) => readdirSync(`/proc/${pid}/fd`).length;
const mb = ({ pid }: RunningServer) => residentBytes(pid) / 1e6;

/** Returns the gauges that are not 0 after about four seconds. Returns early if all are 0. */
async function leftover({ port }: RunningServer): Promise<string[]> {
  for (let tries = 0; ; tries++) {
    const page = await Page.of(port);
    const left = [...GAUGES, ...FRONT].filter((name) => page.value(name) !== 0);
    if (left.length === 0 || tries > 200) return left;
    await Bun.sleep(20);
  }
}

async function halfHeads(port: number, untilMs: number): Promise<number> {
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

interface Round {
  readonly how: Way;
  readonly cut: number;
  readonly halfHeads: number;
  readonly errors: number;
  readonly mb: number;
  readonly descriptors: number;
  readonly left: readonly string[];
}

async function cutRound(server: RunningServer, ending: Way): Promise<Round> {
  const { port } = server;
  const untilMs = performance.now() + ROUND_S * 1000;
  const [result, heads] = await Promise.all([
    // New connections are spread over the round, and each leaves after its first event.
    read({
      port,
      body: endless("@@@@@@"),
      streams: PER_ROUND,
      ramp: Math.ceil(PER_ROUND / (ROUND_S * 100)),
      everyMs: 10,
      cut: 1,
      ending,
    }),
    halfHeads(port, untilMs),
  ]);
  await Bun.sleep(Math.max(0, untilMs - performance.now()));
  const left = await leftover(server);
  await Bun.sleep(1500); // lets half-closed sockets close
  return {
    how: ending,
    cut: result.cut,
    halfHeads: heads,
    errors: result.errors + result.refused,
    mb: mb(server),
    descriptors: descriptors(server),
    left,
  };
}

async function reading(server: RunningServer, seconds: number): Promise<ReaderResult> {
  return read({
    port: server.port,
    body: endless("@@@@@@"),
    streams: READING,
    together: true,
    gaps: true,
    durationMs: seconds * 1000,
  });
}

const server = await start(serverCommand(flags), { core: SERVER_CORE });
const rounds: Round[] = [];
const freshMb = mb(server);
const freshDescriptors = descriptors(server);
let alone: ReaderResult;
let whileStalled: ReaderResult;
const stalledMb: number[] = [];
let before = 0;
let stalled: ReaderResult;
let afterMb: number;
let left: string[];
try {
  for (let i = 0; i < ROUNDS; i++) {
    const ending = WAYS[i % WAYS.length]!;
    progress(`flood: round ${i + 1} of ${ROUNDS}, ${ending}`);
    rounds.push(await cutRound(server, ending));
  }
  progress("flood: streams alone");
  alone = await reading(server, 20);
  await leftover(server);
  before = mb(server);
  progress(`flood: ${STALLED} that stop reading`);
  const stalls = read({
    port: server.port,
    body: endless("@@@@@@"),
    streams: STALLED,
    together: true,
    stallMs: STALL_S * 1000,
    durationMs: STALL_S * 1000,
    rcvbuf: SMALL_BUFFER,
  });
  const watching = setInterval(() => stalledMb.push(mb(server)), 1000);
  await Bun.sleep(5000);
  whileStalled = await reading(server, STALL_S - 15);
  stalled = await stalls;
  clearInterval(watching);
  left = await leftover(server);
  afterMb = mb(server);
} finally {
  await server.stop();
}

table(`${PER_ROUND} connections opened and cut in ${ROUND_S} s`, [
  ["", "cut", "incomplete requests", "errors", "MB", "descriptors", "gauges above 0"],
  ...rounds.map(({ how, cut, halfHeads, errors, mb, descriptors, left }) => [
    ...[how, cut, halfHeads, errors, mb, descriptors, left.join(" ") || "-"],
  ]),
]);
const [first, last] = [rounds[0]!, rounds.at(-1)!];
const growth = Math.abs(last.mb / first.mb - 1);
const stuck = rounds.reduce((sum, { left }) => sum + left.length, 0);
console.log(`  fresh: ${freshMb.toFixed(0)} MB, ${freshDescriptors} descriptors`);
console.log(`  ${bar("gauges above 0 after a round", stuck, 0, "")}`);
console.log(
  `  ${bar("file descriptors, more than after the first round", Math.max(0, last.descriptors - first.descriptors), 0, "")}`,
);
console.log(`  ${bar("memory after the last round, change since the first", growth * 100, MEMORY_SHARE * 100, "%")}`);
const grownMb = Math.max(...stalledMb) - before;
table(`${READING} clients that read while ${STALLED} others stop for ${STALL_S} s`, [
  ["", "events", "gap p50 us", "gap p99", "gap max"],
  ...(
    [
      ["alone", alone],
      ["while others are stalled", whileStalled],
    ] as const
  ).map(([name, { events, gapUs }]) => [name, events, gapUs!.p50, gapUs!.p99, gapUs!.max]),
]);
console.log(`  ${bar("growth of RSS while clients stall", Math.max(0, grownMb), STALL_MB, "MB")}`);
console.log(
  `  RSS ${before.toFixed(0)} MB before, ${Math.max(...stalledMb).toFixed(0)} at most, ${afterMb.toFixed(0)} after; gauges above 0: ${left.join(" ") || "none"}`,
);
save("flood", {
  perRound: PER_ROUND,
  freshMb,
  freshDescriptors,
  rounds,
  growthPercent: growth * 100,
  stalled: STALLED,
  stallSeconds: STALL_S,
  stalledEvents: stalled.events,
  stallBeforeMb: before,
  stallMb: stalledMb.map(Math.round),
  grownMb,
  afterMb,
  left,
  gapUs: { alone: alone.gapUs, beside: whileStalled.gapUs },
});
if (stuck + left.length > 0 || grownMb > STALL_MB || growth > MEMORY_SHARE) process.exitCode = 1;
