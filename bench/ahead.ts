/**
 * Measures how much one pipelining client costs the others. The client sends 150,800 requests ahead, reads nothing and resets
 * its connection after five seconds. A hundred streams at 20 ms run without it and with it, in turn. The bench reports their
 * gaps, the server's memory, and the requests that the server still answers after the client has left.
 *
 *   bun run bench ahead [--rounds 3] [--requests 150800] [--path /openapi.json] [--no-save]
 */
import net from "node:net";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { cpuOf, type RunningServer, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat, prose } from "./lib/prompt.ts";
import { type ReaderResult, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--requests", "--path", "--no-save"]);

const ROUNDS = Math.max(1, number("--rounds", 3));
const REQUESTS = number("--requests", 150_800);
const PATH = text("--path", "/openapi.json");
const STREAMS = 100;
const STEP_MS = 20;
/** Output tokens of each stream: more than a run has time for. */
const ENDLESS = 6000;
/** The pipelining client starts this long after the streams, and stays this long. */
const BEFORE_MS = 3000;
const STAYS_MS = 5000;
/** After the client has left, the bench waits `GRACE_MS`, then counts answers and CPU time during `AFTER_MS`. */
const GRACE_MS = 200;
const AFTER_MS = 2000;
const WHOLE_MS = BEFORE_MS + STAYS_MS + GRACE_MS + AFTER_MS + 1000;
const GAP_MS = 10;
const RSS_MB = 300;

/** The numbers of one run. */
interface Run {
  readonly name: string;
  readonly streams: ReaderResult;
  readonly mostMb: number;
  /** Requests of the client that were answered before `GRACE_MS` after it left, and later. */
  readonly answered: number;
  readonly answeredLater: number;
  /** CPU time of the server during `AFTER_MS`, in percent of a core. */
  readonly cpuPercent: number;
}

async function answered({ port }: RunningServer): Promise<number> {
  return (await Page.of(port)).value("http_requests_total", `handler="${PATH}"`) || 0;
}

async function run(server: RunningServer, name: string, pipelines: boolean): Promise<Run> {
  progress(`ahead: ${name}`);
  const reading = read({
    port: server.port,
    body: chat(`@@@@@@ ${prose(20)}`, ENDLESS),
    streams: STREAMS,
    together: true,
    gaps: true,
    durationMs: WHOLE_MS,
  });
  let mostMb = 0;
  const look = setInterval(() => (mostMb = Math.max(mostMb, residentBytes(server.pid) / 1e6)), 50);
  await Bun.sleep(BEFORE_MS);
  const before = await answered(server);
  const client = pipelines ? net.connect(server.port, "127.0.0.1") : null;
  client?.on("error", () => {});
  client?.pause();
  client?.write(`GET ${PATH} HTTP/1.1\r\nHost:\r\n\r\n`.repeat(REQUESTS));
  await Bun.sleep(STAYS_MS);
  client?.resetAndDestroy();
  await Bun.sleep(GRACE_MS);
  const cpu = cpuOf(server.pid);
  await Bun.sleep(AFTER_MS);
  const later = cpuOf(server.pid);
  // Only the pipelining client requests PATH, and the metrics page is read outside the measured time.
  const left = await answered(server);
  await Bun.sleep(GRACE_MS);
  const end = await answered(server);
  const streams = await reading;
  clearInterval(look);
  const usedUs = later.userUs + later.systemUs - cpu.userUs - cpu.systemUs;
  return {
    name,
    streams,
    mostMb,
    answered: left - before,
    answeredLater: end - left,
    cpuPercent: usedUs / (AFTER_MS * 10),
  };
}

const flags = ["--timing", `linear:base=${STEP_MS}ms,prefill=0ms,decode=0ms`, "--disable-uvicorn-access-log"];
const server = await start(serverCommand(flags), { core: SERVER_CORE });
const runs: Run[] = [];
try {
  // During the first streams the server's code is not compiled yet.
  await run(server, "warming up", false);
  for (let i = 1; i <= ROUNDS; i++) {
    runs.push(await run(server, `alone ${i}`, false));
    runs.push(await run(server, `beside ${i}`, true));
  }
} finally {
  await server.stop();
}

table(`${STREAMS} streams at ${STEP_MS} ms, with and without a client that sends ${REQUESTS} x GET ${PATH} unread`, [
  ["", "events", "gap p50 us", "gap p99", "gap max", "MB", "answered", "later", "CPU % after it left"],
  ...runs.map(({ name, streams: { events, gapUs }, mostMb, answered, answeredLater, cpuPercent }) => [
    name,
    events,
    gapUs!.p50,
    gapUs!.p99,
    gapUs!.max,
    Math.round(mostMb),
    answered,
    answeredLater,
    cpuPercent,
  ]),
]);
const runsWith = (client: boolean) => runs.filter(({ name }) => name.startsWith("beside") === client);
const maxOf = (some: readonly Run[], value: (run: Run) => number) => Math.max(...some.map(value));
const gapMs = (some: readonly Run[]) => maxOf(some, ({ streams }) => streams.gapUs!.max) / 1000;
const cpuPercent = (some: readonly Run[]) => maxOf(some, (run) => run.cpuPercent);
const excessMs = Math.max(0, gapMs(runsWith(true)) - gapMs(runsWith(false)));
const mostMb = maxOf(runs, (run) => run.mostMb);
const later = maxOf(runs, (run) => run.answeredLater);
const cpuExcess = Math.max(0, cpuPercent(runsWith(true)) - cpuPercent(runsWith(false)));
console.log(`  ${bar("longest gap, minus the longest in runs without the client", excessMs, GAP_MS, "ms")}`);
console.log(`  ${bar("RSS", mostMb, RSS_MB, "MB")}`);
console.log(`  ${bar("requests answered after the client has left", later, 0, "")}`);
console.log(
  `  CPU from ${GRACE_MS / 1000} s after the client has left, minus that of runs without it: ${cpuExcess.toFixed(1)} %`,
);
save("ahead", { requests: REQUESTS, path: PATH, streams: STREAMS, excessMs, mostMb, later, cpuExcess, seen: runs });
if (excessMs > GAP_MS || mostMb > RSS_MB || later > 0) process.exitCode = 1;
