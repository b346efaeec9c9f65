/**
 * Measures the CPU time of a token in the first seconds of a server, while its compilers work: streams of 128 tokens in seconds 2
 * to 9 of new servers. The bare C server runs in turn with them. The reader sleeps between events as clients do.
 */
import { median } from "../lib/numbers.ts";
import { has, number } from "../lib/options.ts";
import { finelyOf, program, type RunningServer, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat } from "../lib/prompt.ts";
import { read } from "../lib/reader.ts";
import { bar, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture } from "./capture.ts";
import { FREE_FLAGS } from "./cpu.ts";

const TOKENS = 128;
const CONNECTIONS = 64;
const FROM_MS = 2000;
const TO_MS = has("--quick") ? 5000 : 9000;
/** Requests per connection: more than the time allows. */
const ENDLESS = 1_000_000;
const BAR = 1.3;

interface Cost {
  /** CPU time of the server per event. */
  readonly us: number;
  /** Sleeps of the reader per event. */
  readonly slept: number;
}

async function cost(server: RunningServer): Promise<Cost> {
  try {
    const body = chat("Tell me about the weather.", TOKENS, { seed: 1 });
    const times = { durationMs: TO_MS, settleMs: FROM_MS };
    const reading = read({ port: server.port, body, streams: CONNECTIONS, requests: ENDLESS, ...times });
    await Bun.sleep(FROM_MS);
    const beforeUs = finelyOf(server.pid);
    await Bun.sleep(TO_MS - FROM_MS);
    const us = finelyOf(server.pid) - beforeUs;
    const { events, slept } = await reading;
    return { us: us / events, slept: slept / events };
  } finally {
    await server.stop();
  }
}

export async function fresh() {
  const rounds = number("--pairs", has("--quick") ? 3 : 10);
  const ours = () => start(serverCommand(FREE_FLAGS), { core: SERVER_CORE });
  const recorder = await ours();
  const template = await capture(recorder.port, chat("Tell me about the weather.", 200, { seed: 1 }), "fresh");
  await recorder.stop();
  const words = [program("anchor"), "--template", root + template.path];
  words.push("--events", String(TOKENS + template.units - 200));
  const costs: { readonly ours: Cost; readonly loop: Cost }[] = [];
  while (costs.length < rounds) {
    progress(`fresh: server ${costs.length + 1} of ${rounds}`);
    const mine = await cost(await ours());
    costs.push({ ours: mine, loop: await cost(await start(words, { core: SERVER_CORE })) });
  }
  const row = (name: string, side: "ours" | "loop") => [
    name,
    median(costs.map((pair) => pair[side].us)),
    median(costs.map((pair) => pair[side].slept)),
  ];
  table(`${rounds} fresh servers, ${TOKENS} tokens, seconds ${FROM_MS / 1000} to ${TO_MS / 1000}: medians`, [
    ["", "CPU per event, µs", "sleeps of the reader per event"],
    row("understudy", "ours"),
    row("C loop", "loop"),
  ]);
  const times = median(costs.map(({ ours, loop }) => ours.us / loop.us));
  console.log(`  ${bar("CPU per event ÷ the C loop's", times, BAR, "×")}`);
  return { times, costs };
}
