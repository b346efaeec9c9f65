/**
 * Checks that the server cleans up after clients that leave. In 20 rounds each, 500 streams are cut by FIN or by RST. After a
 * round, all gauges must return to 0, the server must have counted 500 aborts, and its memory must not grow.
 *
 *   bun run bench cut [--rounds 20] [--streams 500] [--server "command"] [--realtime] [--no-save]
 */
import { slope } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { type RunningServer, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat, prose } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--streams", "--server", "--realtime", "--no-save"]);

const STEP_MS = 20;
/** Bound on the time until all gauges are 0. Longer than a step, because closing sockets and reading pages take time, too. */
const WITHIN_MS = 250;
const EVENTS_BEFORE = 5;
const GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];

const streams = number("--streams", 500);
const rounds = number("--rounds", 20);
const body = chat(prose(40), 100_000);
const flags = [
  ...["--timing", `constant:ttft=${STEP_MS}ms,itl=${STEP_MS}ms`, "--max-num-seqs", String(streams)],
  ...["--max-model-len", "131072", "--num-gpu-blocks-override", "65536"],
];

const aborts = (page: Page) => page.value("understudy_requests_total", 'outcome="abort"');

/** Runs one round. Returns the time until all gauges are 0, and the number of aborts that the server counted. */
async function cut({ port }: RunningServer, ending: "fin" | "rst") {
  const before = aborts(await Page.of(port));
  const result = await read({ port, body, streams, together: true, cut: EVENTS_BEFORE, ending });
  if (result.cut !== streams) throw new Error(`not all ${streams} streams were cut: ${JSON.stringify(result)}`);
  const from = performance.now();
  for (;;) {
    const page = await Page.of(port);
    const clearMs = performance.now() - from;
    const clear = GAUGES.every((gauge) => page.value(gauge) === 0);
    if (clear || clearMs > 20 * WITHIN_MS) return { clear, clearMs, counted: aborts(page) - before };
    await Bun.sleep(1);
  }
}

const server = await start(serverCommand(flags), { core: SERVER_CORE });
const done: (Awaited<ReturnType<typeof cut>> & { ending: string; mb: number })[] = [];
try {
  for (let round = 0; round < rounds; round++) {
    for (const ending of ["fin", "rst"] as const) {
      progress(`cut: round ${round + 1} of ${rounds}, ${ending}`);
      const result = await cut(server, ending);
      done.push({ ...result, ending, mb: residentBytes(server.pid) / 1e6 });
    }
  }
} finally {
  await server.stop();
}

const row = (ending: string) => {
  const some = done.filter((round) => round.ending === ending);
  const wrong = some.filter(({ counted, clear }) => counted !== streams || !clear).length;
  return [ending, some.length, Math.max(...some.map(({ clearMs }) => clearMs)), wrong];
};
table(`${streams} streams cut after ${EVENTS_BEFORE} events`, [
  ["", "rounds", "longest ms until gauges are 0", "wrong count or gauge"],
  row("fin"),
  row("rst"),
]);
const second = done.slice(done.length >> 1).map(({ mb }) => mb);
const trendMb = slope(second);
const wrong = done.filter(({ counted, clear }) => counted !== streams || !clear);
console.log(`  ${bar("rounds with a wrong count of aborts or a gauge above 0", wrong.length, 0, "rounds")}`);
console.log(
  `  ${bar("longest time until gauges are 0", Math.max(...done.map(({ clearMs }) => clearMs)), WITHIN_MS, "ms")}`,
);
console.log(
  `  memory: ${done[0]!.mb.toFixed(0)} MB after the first, ${second.at(-1)!.toFixed(0)} after the last round;`,
);
console.log(`  trend over the second half ${(trendMb * 1000).toFixed(0)} KB per round of ${streams} streams`);
for (const { ending, counted, clear } of wrong) console.log(`  ${ending}: ${counted} aborts counted, clear: ${clear}`);
save("cut", {
  streams,
  rounds,
  wrong: wrong.length,
  longestMs: Math.max(...done.map(({ clearMs }) => clearMs)),
  trendKbPerRound: trendMb * 1000,
  rssMb: done.map(({ mb }) => Math.round(mb * 10) / 10),
});
if (wrong.length > 0) process.exitCode = 1;
