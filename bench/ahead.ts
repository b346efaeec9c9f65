/**
 * What does one client cost the others that sends 150,800 requests ahead, reads nothing and resets after five seconds? A
 * hundred streams at 20 ms, alone and beside it in turn: their gaps, the server's memory, what still runs when it has left.
 *
 *   bun run bench ahead [--rounds 3] [--requests 150800] [--path /openapi.json] [--no-save]
 */
import net from "node:net";
import { known, number, text } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { cpuOf, type Running, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat, prose } from "./lib/prompt.ts";
import { type ReaderResult, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

known(["--rounds", "--requests", "--path", "--no-save"]);

const ROUNDS = Math.max(1, number("--rounds", 3));
const REQUESTS = number("--requests", 150_800);
const PATH = text("--path", "/openapi.json");
const STREAMS = 100;
const STEP_MS = 20;
/** More tokens than there is time for. */
const ENDLESS = 6000;
/** From the start of the streams to that of the client that sends ahead, how long it stays, and how long is looked on. */
const BEFORE_MS = 3000;
const STAYS_MS = 5000;
const GRACE_MS = 200;
const AFTER_MS = 2000;
const WHOLE_MS = BEFORE_MS + STAYS_MS + GRACE_MS + AFTER_MS + 1000;
const GAP_MS = 10;
const RSS_MB = 300;

interface Seen {
  readonly name: string;
  readonly streams: ReaderResult;
  readonly mostMb: number;
  /** Answered while the client was there, and from 0.2 s after it had left on. */
  readonly answered: number;
  readonly answeredLater: number;
  /** In the two seconds from then on, percent of a core. */
  readonly cpuPercent: number;
}

async function answered({ port }: Running): Promise<number> {
  return (await Page.of(port)).value("http_requests_total", `handler="${PATH}"`) || 0;
}

async function run(server: Running, name: string, beside: boolean): Promise<Seen> {
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
  const client = beside ? net.connect(server.port, "127.0.0.1") : null;
  client?.on("error", () => {});
  client?.pause();
  client?.write(`GET ${PATH} HTTP/1.1\r\nHost:\r\n\r\n`.repeat(REQUESTS));
  await Bun.sleep(STAYS_MS);
  client?.resetAndDestroy();
  await Bun.sleep(GRACE_MS);
  const cpu = cpuOf(server.pid);
  await Bun.sleep(AFTER_MS);
  const later = cpuOf(server.pid);
  // Nothing else asks for that path: the page itself is asked for outside of what is measured.
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
const seen: Seen[] = [];
try {
  // The first streams find a server whose code is not compiled yet.
  await run(server, "warming up", false);
  for (let i = 1; i <= ROUNDS; i++) {
    seen.push(await run(server, `alone ${i}`, false));
    seen.push(await run(server, `beside ${i}`, true));
  }
} finally {
  await server.stop();
}

table(`${STREAMS} streams at ${STEP_MS} ms; beside them ${REQUESTS} x GET ${PATH} sent ahead and not read`, [
  ["", "events", "gap p50 us", "gap p99", "gap max", "MB", "answered", "later", "CPU % when it has left"],
  ...seen.map(({ name, streams: { events, gapUs }, mostMb, answered, answeredLater, cpuPercent }) => [
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
const of = (beside: boolean) => seen.filter(({ name }) => name.startsWith("beside") === beside);
const most = (of: readonly Seen[], value: (one: Seen) => number) => Math.max(...of.map(value));
const gapMs = (of: readonly Seen[]) => most(of, ({ streams }) => streams.gapUs!.max) / 1000;
const excessMs = Math.max(0, gapMs(of(true)) - gapMs(of(false)));
const mostMb = most(seen, (one) => one.mostMb);
const later = most(seen, (one) => one.answeredLater);
const cpuExcess = Math.max(0, most(of(true), (one) => one.cpuPercent) - most(of(false), (one) => one.cpuPercent));
console.log(`  ${bar("longest gap beyond the longest of the runs alone", excessMs, GAP_MS, "ms")}`);
console.log(`  ${bar("RSS", mostMb, RSS_MB, "MB")}`);
console.log(`  ${bar("requests answered when it had left", later, 0, "")}`);
console.log(
  `  CPU from ${GRACE_MS / 1000} s after it had left on, beyond the most of the runs alone: ${cpuExcess.toFixed(1)} %`,
);
save("ahead", { requests: REQUESTS, path: PATH, streams: STREAMS, excessMs, mostMb, later, cpuExcess, seen });
if (excessMs > GAP_MS || mostMb > RSS_MB || later > 0) process.exitCode = 1;
