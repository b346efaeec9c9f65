/**
 * Checks that the server cleans up after a flood. For a minute, ten thousand connections are opened and cut every ten seconds.
 * Then, for two minutes, a thousand clients stop reading endless answers while a hundred others read.
 *
 *   bun run bench flood [--seconds 60] [--per-10s 10000] [--stalled 1000] [--stall-seconds 120] [--no-save]
 */
import { readdirSync } from "node:fs";
import { posted, RawSocket, WAYS, type Way } from "../test/conformance/raw-socket.ts";
import { bars, note, options, progress, save, table } from "./lib/bench.ts";
import { chat, Page, prose, type ReaderOptions, read } from "./lib/client.ts";
import { residentMb, serve } from "./lib/servers.ts";

const asked = options({ seconds: 60, "per-10s": 10_000, stalled: 1000, "stall-seconds": 120 });
const { "per-10s": perRound, stalled, "stall-seconds": stallSeconds } = asked;

/** Time of a step, about that of a real engine with a thousand sequences. */
const STEP_MS = 40;
const ROUND_S = 10;
const ROUNDS = Math.max(2, Math.round(asked.seconds / ROUND_S));
/** Output tokens of each answer: more than the time allows, but few enough that all answers fit the core's 4 million blocks. */
const ENDLESS = 6000;
const READING = 100;
/** Receive buffer of sockets that stop reading, in bytes. A small one makes the kernel accept little of the answer. */
const SMALL_BUFFER = 4096;
/** Connections per second, during each round, that leave before their request is complete. */
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

/** Returns the gauges that are not 0 after about four seconds. Returns early if all are 0. */
async function leftover(): Promise<string[]> {
  for (let tries = 0; ; tries++) {
    const page = await Page.of(port);
    const left = GAUGES.filter((name) => page.value(name) !== 0);
    if (left.length === 0 || tries > 200) return left;
    await Bun.sleep(20);
  }
}

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

async function cutRound(ending: Way) {
  const untilMs = performance.now() + ROUND_S * 1000;
  // New connections are spread over the round, and each leaves after its first event.
  const ramp = Math.ceil(perRound / (ROUND_S * 100));
  const cutting = endless(perRound, { ramp, everyMs: 10, cut: 1, ending });
  const [{ cut, errors, refused }, heads] = await Promise.all([cutting, halfHeads(untilMs)]);
  await Bun.sleep(Math.max(0, untilMs - performance.now()));
  const left = await leftover();
  await Bun.sleep(1500); // lets half-closed sockets close
  return { how: ending, cut, halfHeads: heads, errors: errors + refused, ...memory(), left };
}

const reading = (seconds: number) => endless(READING, { together: true, gaps: true, durationMs: seconds * 1000 });

const fresh = memory();
const rounds: Awaited<ReturnType<typeof cutRound>>[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const ending = WAYS[round % WAYS.length]!;
  progress(`flood: round ${round + 1} of ${ROUNDS}, ${ending}`);
  rounds.push(await cutRound(ending));
}
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

table(`${perRound} connections opened and cut in ${ROUND_S} s`, [
  ["", "cut", "incomplete requests", "errors", "MB", "descriptors", "gauges above 0"],
  ...rounds.map(({ how, cut, halfHeads, errors, mb, descriptors, left }) => [
    ...[how, cut, halfHeads, errors, mb, descriptors, left.join(" ") || "-"],
  ]),
]);
const [first, last] = [rounds[0]!, rounds.at(-1)!];
const growthPercent = 100 * Math.abs(last.mb / first.mb - 1);
const stuck = rounds.reduce((sum, { left }) => sum + left.length, 0);
const opened = Math.max(0, last.descriptors - first.descriptors);
note(`fresh: ${fresh.mb.toFixed(0)} MB, ${fresh.descriptors} descriptors`);
bars(["gauges above 0 after a round", stuck, 0, ""]);
bars(["file descriptors, more than after the first round", opened, 0, ""]);
bars(["memory after the last round, change since the first", growthPercent, MEMORY_SHARE * 100, "%"]);
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
  ...{ perRound, freshMb: fresh.mb, freshDescriptors: fresh.descriptors, rounds, growthPercent, stalled, stallSeconds },
  ...{ stalledEvents, stallBeforeMb, stallMb: stallMb.map(Math.round), grownMb, afterMb, left },
  gapUs: { alone: alone.gapUs, beside: beside.gapUs },
});
if (stuck + left.length > 0 || grownMb > STALL_MB || growthPercent > MEMORY_SHARE * 100) process.exitCode = 1;
