/**
 * Checks that the server cleans up after clients that leave. In 20 rounds each, 500 streams are cut by FIN or by RST. After a
 * round, all gauges must return to 0, the server must have counted 500 aborts, and its memory must not grow.
 *
 *   bun run bench cut [--rounds 20] [--streams 500] [--server "command"] [--realtime] [--no-save]
 */

import { bars, note, options, save, table } from "./lib/bench.ts";
import { chat, Page, prose, read } from "./lib/client.ts";
import { slope } from "./lib/numbers.ts";
import { inTurns, residentMb, serve } from "./lib/servers.ts";

const { rounds, streams } = options({ rounds: 20, streams: 500 }, ["--server", "--realtime"]);

const STEP_MS = 20;
/** Bound on the time until all gauges are 0. Longer than a step, because closing sockets and reading pages take time, too. */
const WITHIN_MS = 250;
const EVENTS_BEFORE = 5;
const GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
const body = chat(prose(40), 100_000);

await using server = await serve([
  ...["--timing", `constant:ttft=${STEP_MS}ms,itl=${STEP_MS}ms`, "--max-num-seqs", String(streams)],
  ...["--max-model-len", "131072", "--num-gpu-blocks-override", "65536"],
]);
const { port, pid } = server;
const aborts = (page: Page) => page.value("understudy_requests_total", 'outcome="abort"');
/** Memory after each round, in megabytes. */
const mb: number[] = [];

/**
 * Returns a function that runs a round: it cuts all streams, then measures the milliseconds until all gauges are 0, and counts
 * aborts.
 */
const cut = (ending: "fin" | "rst") => async () => {
  const before = aborts(await Page.of(port));
  const result = await read({ port, body, streams, together: true, cut: EVENTS_BEFORE, ending });
  if (result.cut !== streams) throw new Error(`not all ${streams} streams were cut: ${JSON.stringify(result)}`);
  const from = performance.now();
  for (;;) {
    const page = await Page.of(port);
    const clearMs = performance.now() - from;
    const clear = GAUGES.every((gauge) => page.value(gauge) === 0);
    if (clear || clearMs > 20 * WITHIN_MS) {
      mb.push(residentMb(pid));
      return { ending, clear, clearMs, counted: aborts(page) - before };
    }
    await Bun.sleep(1);
  }
};

const { fin, rst } = await inTurns("cut", rounds, { fin: cut("fin"), rst: cut("rst") });
type Round = (typeof fin)[number];
const wrongIn = (some: readonly Round[]) => some.filter(({ counted, clear }) => counted !== streams || !clear);
const longestMs = (some: readonly Round[]) => Math.max(...some.map(({ clearMs }) => clearMs));
const done = [...fin, ...rst];
const wrong = wrongIn(done);
table(`${streams} streams cut after ${EVENTS_BEFORE} events`, [
  ["", "rounds", "longest ms until gauges are 0", "wrong count or gauge"],
  ...[fin, rst].map((some) => [some[0]!.ending, some.length, longestMs(some), wrongIn(some).length]),
]);
const second = mb.slice(mb.length >> 1);
const trendKbPerRound = slope(second) * 1000;
bars(
  ["rounds with a wrong count of aborts or a gauge above 0", wrong.length, 0, "rounds"],
  ["longest time until gauges are 0", longestMs(done), WITHIN_MS, "ms"],
);
note(`memory: ${mb[0]!.toFixed(0)} MB after the first, ${second.at(-1)!.toFixed(0)} after the last round;`);
note(`trend over the second half ${trendKbPerRound.toFixed(0)} KB per round of ${streams} streams`);
for (const { ending, counted, clear } of wrong) note(`${ending}: ${counted} aborts counted, clear: ${clear}`);
save("cut", {
  ...{ streams, rounds, wrong: wrong.length, longestMs: longestMs(done), trendKbPerRound },
  rssMb: mb.map((each) => Math.round(each * 10) / 10),
});
if (wrong.length > 0) process.exitCode = 1;
