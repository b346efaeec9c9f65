/**
 * Measures garbage collections of the serving thread and the memory around them, from the runtime's log. First a client sends
 * short streams as fast as the server answers. Then 2,000 streams of half a minute run at a pace, and each is followed by the
 * next. With 300 seconds or more, the growth of memory in the last four fifths of the time is judged, too. Server and client
 * have a core each.
 *
 *   bun run bench garbage [--requests 200000] [--streams 2000] [--seconds 60] [--realtime] [--no-save]
 */
import { bars, options, progress, save, table } from "./lib/bench.ts";
import { besideStreams, chat, read } from "./lib/client.ts";
import { Collections } from "./lib/collections.ts";
import { median } from "./lib/numbers.ts";
import { residentMb, serve } from "./lib/servers.ts";

const defaults = { requests: 200_000, streams: 2000, seconds: 60 };
const { requests, streams, seconds } = options(defaults, ["--server", "--realtime"]);

const CONNECTIONS = 64;
const STEP_MS = 20;
const RAMP_MS = 10_000;
/** Tokens of a paced stream, and blocks for all streams. */
const TOKENS = 1500;
const BLOCKS = 100;
/** Time that the server gets to come to rest. */
const REST_MS = 5000;
const STOP_MS = 5;
const BARS = { fullShare: 0.02, stops: 2, openMb: 150, keptMb: 50, growthMb: 10 };
/** Shortest time after which memory no longer grows because KV blocks are used for the first time. */
const LEVEL_S = 300;

const FREE = ["--timing", "none", "--disable-uvicorn-access-log", "--max-num-seqs", "256"];
const PACED = ["--timing", `constant:ttft=${STEP_MS}ms,itl=${STEP_MS}ms`, "--disable-uvicorn-access-log"];

async function flood() {
  const collections = new Collections("garbage");
  await using server = await serve(FREE, collections.start);
  const { port, pid } = server;
  const body = chat("Is this a flood?", 2);
  const send = (count: number) =>
    read({ port, body, streams: CONNECTIONS, requests: Math.ceil(count / CONNECTIONS), awake: true });
  progress("garbage: warm-up");
  await send(requests / 4);
  await Bun.sleep(REST_MS);
  const beforeMb = residentMb(pid);
  collections.since();
  progress(`garbage: ${requests} requests`);
  const { elapsedUs, completed } = await send(requests);
  const fulls = collections.since().filter(({ full }) => full);
  const fullMs = fulls.reduce((sum, { lastedMs }) => sum + lastedMs, 0);
  await Bun.sleep(REST_MS);
  const perSecond = (1e6 * completed) / elapsedUs;
  return { perSecond, fulls: fulls.length, fullShare: (1000 * fullMs) / elapsedUs, beforeMb, restMb: residentMb(pid) };
}

async function paced() {
  const more = ["--max-num-seqs", String(streams + 64), "--num-gpu-blocks-override", String(streams * BLOCKS)];
  const collections = new Collections("garbage");
  await using server = await serve([...PACED, ...more], collections.start);
  const durationMs = RAMP_MS + seconds * 1000;
  const each = Math.ceil(durationMs / STEP_MS / TOKENS) + 1;
  const ramp = { ramp: streams / 100, everyMs: RAMP_MS / 100, durationMs };
  const asked = { body: chat("Is this paced?", TOKENS), streams, requests: each, ...ramp };
  const megabytes: number[] = [];
  const { acted: stopsMs } = await besideStreams(server, asked, RAMP_MS, async () => {
    collections.since();
    for (let at = 0; at < seconds; at++) {
      progress(`garbage: ${streams} streams, second ${at + 1} of ${seconds}`);
      await Bun.sleep(1000);
      megabytes.push(residentMb(server.pid));
    }
    return collections.since().flatMap(({ pausesMs }) => pausesMs);
  });
  return {
    stops: stopsMs.filter((ms) => ms > STOP_MS).length,
    longestMs: Math.max(0, ...stopsMs),
    openMb: median(megabytes),
    openMostMb: Math.max(...megabytes),
    growthMb: megabytes.at(-1)! - megabytes[Math.floor(megabytes.length / 5)]!,
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
  ["growth after a fifth of the time, MB", pace.growthMb],
]);
bars(
  ["full collections' share of the core", flooded.fullShare, BARS.fullShare, ""],
  ["memory that the requests left", flooded.restMb - flooded.beforeMb, BARS.keptMb, "MB"],
  [`stops above ${STOP_MS} ms beside the streams`, pace.stops, BARS.stops, ""],
  ["resident with the streams", pace.openMb, BARS.openMb, "MB"],
);
if (seconds >= LEVEL_S) bars(["growth with the streams", pace.growthMb, BARS.growthMb, "MB"]);
save("garbage", { requests, streams, seconds, flooded, pace });
