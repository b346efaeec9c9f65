/**
 * Measures the CPU time of a token in the first seconds of a server, while its compilers work: streams of 128 tokens in seconds 2
 * to 9 of new servers. The bare C server runs in turn with them. The reader sleeps between events as clients do.
 */

import { bars, has, number, table } from "../lib/bench.ts";
import { besideStreams, sameChat } from "../lib/client.ts";
import { median, medians } from "../lib/numbers.ts";
import { type RunningServer, serve, withCpu } from "../lib/servers.ts";
import { againstLoop, startLoop, templateOf } from "./capture.ts";
import { FREE_FLAGS } from "./cpu.ts";

const TOKENS = 128;
const CONNECTIONS = 64;
const FROM_MS = 2000;
const TO_MS = has("--quick") ? 5000 : 9000;
/** Requests per connection: more than the time allows. */
const ENDLESS = 1_000_000;
const BAR = 1.3;

/** Returns the CPU time of a new server per event, and the sleeps of the reader per event. */
async function cost(server: RunningServer) {
  const times = { durationMs: TO_MS, settleMs: FROM_MS };
  const asked = { body: sameChat(TOKENS), streams: CONNECTIONS, requests: ENDLESS, ...times };
  const measured = () => withCpu(server, () => Bun.sleep(TO_MS - FROM_MS));
  const { acted, streams } = await besideStreams(server, asked, FROM_MS, measured);
  return { us: acted.us / streams.events, slept: streams.slept / streams.events };
}

export async function fresh() {
  const rounds = number("--pairs", has("--quick") ? 3 : 10);
  const template = await templateOf(FREE_FLAGS, sameChat(200), "fresh");
  const loop = () => startLoop(template, { events: TOKENS + template.units - 200 });
  const runs = await againstLoop("fresh", rounds, () => serve(FREE_FLAGS), loop, cost);
  table(`${rounds} fresh servers, ${TOKENS} tokens, seconds ${FROM_MS / 1000} to ${TO_MS / 1000}: medians`, [
    ["", "CPU per event, µs", "sleeps of the reader per event"],
    ["understudy", ...Object.values(medians(runs.ours))],
    ["C loop", ...Object.values(medians(runs.loop))],
  ]);
  const times = median(runs.pairs.map(({ ours, loop }) => ours.us / loop.us));
  bars(["CPU per event ÷ the C loop's", times, BAR, "×"]);
  return { times, costs: runs.pairs };
}
