/**
 * Measures how much one pipelining client costs the others. The client sends 150,800 requests ahead, reads nothing and resets
 * its connection after five seconds. A hundred streams at 20 ms run without it and with it, in turn. The bench reports their
 * gaps, the server's memory, and the requests that the server still answers after the client has left.
 *
 *   bun run bench ahead [--rounds 3] [--requests 150800] [--path /openapi.json] [--no-save]
 */
import net from "node:net";
import { bars, note, options, progress, save, table } from "./lib/bench.ts";
import { besideStreams, chat, Page, prose, type ReaderResult } from "./lib/client.ts";
import { serve, withCpu } from "./lib/servers.ts";

const { rounds, requests, path } = options({ rounds: 3, requests: 150_800, path: "/openapi.json" });
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
const body = chat(`@@@@@@ ${prose(20)}`, ENDLESS);
const reading = { body, streams: STREAMS, together: true, gaps: true, durationMs: WHOLE_MS };

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

await using server = await serve([
  ...["--timing", `linear:base=${STEP_MS}ms,prefill=0ms,decode=0ms`, "--disable-uvicorn-access-log"],
]);
const answered = async () => (await Page.of(server.port)).value("http_requests_total", `handler="${path}"`) || 0;

/** Runs the pipelining client, or only waits as long. */
async function pipeline(pipelines: boolean) {
  const before = await answered();
  const client = pipelines ? net.connect(server.port, "127.0.0.1") : null;
  client?.on("error", () => {});
  client?.pause();
  client?.write(`GET ${path} HTTP/1.1\r\nHost:\r\n\r\n`.repeat(requests));
  await Bun.sleep(STAYS_MS);
  client?.resetAndDestroy();
  await Bun.sleep(GRACE_MS);
  const { us } = await withCpu(server, () => Bun.sleep(AFTER_MS));
  // Only the pipelining client requests the path, and the metrics page is read outside the measured time.
  const left = await answered();
  await Bun.sleep(GRACE_MS);
  const answeredLater = (await answered()) - left;
  return { answered: left - before, answeredLater, cpuPercent: us / (AFTER_MS * 10) };
}

async function run(name: string, pipelines: boolean): Promise<Run> {
  progress(`ahead: ${name}`);
  const { acted, ...seen } = await besideStreams(server, reading, BEFORE_MS, () => pipeline(pipelines));
  return { name, ...seen, ...acted };
}

// During the first streams the server's code is not compiled yet.
await run("warming up", false);
const seen: Run[] = [];
for (let round = 1; round <= Math.max(1, rounds); round++)
  seen.push(await run(`alone ${round}`, false), await run(`beside ${round}`, true));

table(`${STREAMS} streams at ${STEP_MS} ms, with and without a client that sends ${requests} x GET ${path} unread`, [
  ["", "events", "gap p50 us", "gap p99", "gap max", "MB", "answered", "later", "CPU % after it left"],
  ...seen.map(({ name, streams: { events, gapUs }, mostMb, answered, answeredLater, cpuPercent }) => [
    ...[name, events, gapUs!.p50, gapUs!.p99, gapUs!.max, Math.round(mostMb), answered, answeredLater, cpuPercent],
  ]),
]);
/** Returns the largest value of the runs with the client, minus the largest of those without. */
const excess = (figureOf: (run: Run) => number) => {
  const most = (kind: string) => Math.max(...seen.filter(({ name }) => name.startsWith(kind)).map(figureOf));
  return Math.max(0, most("beside") - most("alone"));
};
const excessMs = excess(({ streams }) => streams.gapUs!.max / 1000);
const mostMb = Math.max(...seen.map((run) => run.mostMb));
const later = Math.max(...seen.map((run) => run.answeredLater));
const cpuExcess = excess((run) => run.cpuPercent);
const held = bars(
  ["longest gap, minus the longest in runs without the client", excessMs, GAP_MS, "ms"],
  ["RSS", mostMb, RSS_MB, "MB"],
  ["requests answered after the client has left", later, 0, ""],
);
const since = `CPU from ${GRACE_MS / 1000} s after the client has left`;
note(`${since}, minus that of runs without it: ${cpuExcess.toFixed(1)} %`);
save("ahead", { requests, path, streams: STREAMS, excessMs, mostMb, later, cpuExcess, seen });
if (!held) process.exitCode = 1;
