/**
 * Measures garbage collections of the serving thread and the memory around them, from the runtime's log. First a client sends
 * short streams as fast as the server answers. Then 2,000 streams of half a minute run at a pace, and each is followed by the
 * next. Server and client have a core each.
 *
 *   bun run bench garbage [--requests 200000] [--streams 2000] [--seconds 60] [--realtime] [--no-save]
 */
import { Collections } from "./lib/collections.ts";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--requests", "--streams", "--seconds", "--server", "--realtime", "--no-save", "--results"]);
const requests = number("--requests", 200_000);
const streams = number("--streams", 2000);
const seconds = number("--seconds", 60);

const CONNECTIONS = 64;
const STEP_MS = 20;
const RAMP_MS = 10_000;
/** Tokens of a paced stream, and blocks for all streams. */
const TOKENS = 1500;
const BLOCKS = 100;
/** Time that the server gets to come to rest. */
const REST_MS = 5000;
const STOP_MS = 5;
const BARS = { fullShare: 0.02, stops: 2, openMb: 150, keptMb: 50 };

const FREE = ["--timing", "none", "--disable-uvicorn-access-log", "--max-num-seqs", "256"];
const PACED = ["--timing", `constant:ttft=${STEP_MS}ms,itl=${STEP_MS}ms`, "--disable-uvicorn-access-log"];

async function logged(flags: readonly string[]) {
  const collections = new Collections("garbage");
  const server = await start(serverCommand(flags), { core: SERVER_CORE, ...collections.start });
  return { ...server, collections, mb: () => residentBytes(server.pid) / 1e6 };
}

async function flood() {
  const server = await logged(FREE);
  const { port, collections } = server;
  const body = chat("Is this a flood?", 2);
  const send = (count: number) =>
    read({ port, body, streams: CONNECTIONS, requests: Math.ceil(count / CONNECTIONS), awake: true });
  progress("garbage: warm-up");
  await send(requests / 4);
  await Bun.sleep(REST_MS);
  const beforeMb = server.mb();
  collections.since();
  progress(`garbage: ${requests} requests`);
  const { elapsedUs, completed } = await send(requests);
  const all = collections.since();
  const fullMs = all.filter(({ full }) => full).reduce((sum, { lastedMs }) => sum + lastedMs, 0);
  await Bun.sleep(REST_MS);
  const restMb = server.mb();
  await server.stop();
  const fullShare = (1000 * fullMs) / elapsedUs;
  return {
    perSecond: (1e6 * completed) / elapsedUs,
    fulls: all.filter(({ full }) => full).length,
    fullShare,
    beforeMb,
    restMb,
  };
}

async function paced() {
  const more = ["--max-num-seqs", String(streams + 64), "--num-gpu-blocks-override", String(streams * BLOCKS)];
  const server = await logged([...PACED, ...more]);
  const { port, collections } = server;
  const durationMs = RAMP_MS + seconds * 1000;
  const many = {
    streams,
    requests: Math.ceil(durationMs / STEP_MS / TOKENS) + 1,
    ramp: streams / 100,
    everyMs: RAMP_MS / 100,
  };
  const reading = read({ port, body: chat("Is this paced?", TOKENS), ...many, durationMs });
  await Bun.sleep(RAMP_MS);
  collections.since();
  const megabytes: number[] = [];
  for (let at = 0; at < seconds; at++) {
    progress(`garbage: ${streams} streams, second ${at + 1} of ${seconds}`);
    await Bun.sleep(1000);
    megabytes.push(server.mb());
  }
  const stops = collections.since().flatMap(({ pausesMs }) => pausesMs);
  await reading;
  await server.stop();
  return {
    stops: stops.filter((ms) => ms > STOP_MS).length,
    longestMs: Math.max(0, ...stops),
    openMb: median(megabytes),
    openMostMb: Math.max(...megabytes),
  };
}

const flooded = await flood();
const pace = await paced();
table(`${requests} requests of 2 tokens; ${streams} streams, a token each ${STEP_MS} ms, for ${seconds} s`, [
  ["", "value"],
  ["requests per second", flooded.perSecond],
  ["full collections during them", flooded.fulls],
  ["resident before, MB", flooded.beforeMb],
  ["resident at rest after them, MB", flooded.restMb],
  ["longest stop beside the streams, ms", pace.longestMs],
  ["resident with the streams, median, MB", pace.openMb],
  ["resident with the streams, largest, MB", pace.openMostMb],
]);
console.log(`  ${bar("full collections' share of the core", flooded.fullShare, BARS.fullShare, "")}`);
console.log(`  ${bar("memory that the requests left", flooded.restMb - flooded.beforeMb, BARS.keptMb, "MB")}`);
console.log(`  ${bar(`stops above ${STOP_MS} ms beside the streams`, pace.stops, BARS.stops, "")}`);
console.log(`  ${bar("resident with the streams", pace.openMb, BARS.openMb, "MB")}`);
save("garbage", { requests, streams, seconds, flooded, pace });
