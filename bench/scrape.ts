/**
 * Measures how much scrapes cost the streams. With 1,000 streams and 60 scrapes per second of all dialects, it reports:
 *
 * - CPU time of the loop's thread per scrape. Short windows with and without scrapes alternate (off, on, on, off, …), so that
 *   other work of the machine affects both. The result is the mean difference of the pairs, and its standard error.
 * - The lateness of steps in the same windows.
 * - The growth of memory in a longer window without scrapes, then in one with scrapes.
 *
 * It also measures scrapes without streams, scrapes of an empty page, and a profile of streams without scrapes, from which
 * follows the share of counting. The server may use all cores as in production, because a worker thread makes the pages.
 *
 *   bun run bench scrape [--streams 1000] [--rate 60] [--seconds 60] [--pairs 30] [--server "command"] [--no-save]
 *   bun run bench scrape --base REV [--pairs 5]   (compares whole runs of two revisions, each with 10 pairs of windows)
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { cpus } from "node:os";
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { meanAndError, median, slope } from "./lib/numbers.ts";
import { has, number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { CLIENT_CORE, residentBytes, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { results, root, save } from "./lib/results.ts";

rejectUnknown(["--streams", "--rate", "--seconds", "--server", "--no-save", ...BASE_FLAGS]);
await compareWithBase({
  name: "scrape",
  script: "bench/scrape.ts",
  flags: ["--pairs", "10"],
  costs: (line: Line) => ({
    "loop's thread per scrape, beside streams, us": line.besideStreamsUs.mean,
    "alone, us": line.aloneUs.mean,
    "loop busy without scrapes, %": line.figures.without.loopPercent,
    "with, %": line.figures.with.loopPercent,
    "share of counting": line.observingShare,
  }),
});
interface Line {
  readonly besideStreamsUs: { readonly mean: number };
  readonly aloneUs: { readonly mean: number };
  readonly figures: Readonly<Record<"without" | "with", { readonly loopPercent: number }>>;
  readonly observingShare: number;
}

const BAR = { loopUs: 200, mbPerMinute: 5 };
const PERIOD_MS = 50;
const PATH = "/metrics/all";
/** Path of an answer without a body, whose cost is that of the requests alone. */
const EMPTY = "/health";
const LATENESS = "understudy_step_start_lateness_seconds";
const WRITE = "understudy_step_write_seconds";
const streams = number("--streams", 1000);
const rate = number("--rate", 60);
const seconds = number("--seconds", 60);
const pairs = number("--pairs", 30);
const WINDOW_S = 2;
/** Number of pairs without streams. These vary less, so fewer suffice. */
const alonePairs = Math.ceil(pairs / 3);
/** Prefix that lets the server use all cores, although this process uses one. */
const ALL_CORES = ["taskset", "-c", `0-${cpus().length - 1}`];
const flags = [
  ...["--timing", `constant:ttft=200ms,itl=${PERIOD_MS}ms`, "--max-num-seqs", String(streams)],
  ...["--max-model-len", "16384", "--num-gpu-blocks-override", "1100000", "--disable-uvicorn-access-log"],
];

/** Returns the CPU time of the first thread, which runs the loop, in microseconds. */
const loopUs = (pid: number) => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1000;

/** Scrapes at a steady pace over one connection until `stop()`. Counts the scrapes and keeps the length of the last page. */
class Scraper {
  #stopped = false;
  scrapes = 0;
  bytes = 0;

  async run(port: number, path: string): Promise<void> {
    const socket = net.connect(port, "127.0.0.1");
    const arrived = { bytes: 0, wanted: 0, head: "", done: () => {} };
    socket.on("data", (data) => {
      if (arrived.wanted === 0) {
        arrived.head += data.toString("latin1");
        const end = arrived.head.indexOf("\r\n\r\n");
        if (end < 0) return;
        arrived.wanted = end + 4 + Number(/content-length: (\d+)/i.exec(arrived.head)![1]);
        arrived.bytes = arrived.head.length;
      } else arrived.bytes += data.length;
      if (arrived.bytes >= arrived.wanted) arrived.done();
    });
    for (let due = performance.now(); !this.#stopped; due += 1000 / rate) {
      const { promise, resolve } = Promise.withResolvers<void>();
      Object.assign(arrived, { bytes: 0, wanted: 0, head: "", done: resolve });
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      await promise;
      this.scrapes++;
      this.bytes = arrived.wanted;
      await Bun.sleep(Math.max(0, due + 1000 / rate - performance.now()));
    }
    socket.destroy();
  }

  stop(): void {
    this.#stopped = true;
  }
}

interface Window {
  readonly scrapes: number;
  readonly pageBytes: number;
  readonly loopUs: number;
  readonly lateMeanUs: number;
  /** Number of steps that were at most as late as each bound, by the bound in seconds. */
  readonly lateness: ReadonlyMap<number, number>;
  readonly writeMeanUs: number;
  readonly residentMb: readonly number[];
}

/** Returns the observations of a histogram between two pages: cumulative counts by bound. */
function between(before: Page, after: Page, name: string): Map<number, number> {
  const bounds = [...after.text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\}`, "gm"))].map(([, le]) => le!);
  return new Map(
    bounds.map((le) => {
      const label = `le="${le}"`;
      return [Number(le), after.value(`${name}_bucket`, label) - before.value(`${name}_bucket`, label)];
    }),
  );
}

/** Returns a quantile of the lateness in all windows together, in microseconds: the upper bound of its bucket. */
function pooled(windows: readonly Window[], share: number): number {
  const bounds = [...windows[0]!.lateness.keys()];
  const below = bounds.map((le) => windows.reduce((sum, { lateness }) => sum + lateness.get(le)!, 0));
  return bounds[below.findIndex((count) => count >= share * below.at(-1)!)]! * 1e6;
}

async function window(pid: number, port: number, path: string | null, lengthS: number): Promise<Window> {
  const scraper = new Scraper();
  const before = await Page.of(port);
  const from = loopUs(pid);
  const running = path === null ? null : scraper.run(port, path);
  const residentMb: number[] = [];
  for (let second = 0; second < lengthS; second++) {
    await Bun.sleep(1000);
    residentMb.push(residentBytes(pid) / 1e6);
  }
  scraper.stop();
  await running;
  const used = loopUs(pid) - from;
  const after = await Page.of(port);
  return {
    scrapes: scraper.scrapes,
    pageBytes: scraper.bytes,
    loopUs: used,
    lateMeanUs: after.since(before, LATENESS).mean * 1e6,
    lateness: between(before, after, LATENESS),
    writeMeanUs: after.since(before, WRITE).mean * 1e6,
    residentMb,
  };
}

async function alternate(withStreams: boolean, count: number, stretchS: number, path = PATH) {
  const server = await start(serverCommand(flags), { under: ALL_CORES });
  const { pid, port } = server;
  const durationMs = (2 * count * (WINDOW_S + 0.2) + 2 * (stretchS + 1) + 15) * 1000;
  const body = chat("Tell me about the weather.", Math.ceil((durationMs + 5000) / PERIOD_MS), { seed: 1 });
  const reading = withStreams ? read({ port, body, streams, together: true, durationMs }) : null;
  const on: Window[] = [];
  const off: Window[] = [];
  const stretch: { off?: Window; on?: Window } = {};
  const load = withStreams ? `${streams} streams` : "idle";
  try {
    await Bun.sleep(5000);
    const warm = new Scraper();
    const warming = warm.run(port, path);
    await Bun.sleep(3000);
    warm.stop();
    await warming;
    for (let pair = 0; pair < count; pair++) {
      progress(`scrape: pair ${pair + 1} of ${count}, ${load}, ${path}`);
      const offFirst = pair % 2 === 0;
      if (offFirst) off.push(await window(pid, port, null, WINDOW_S));
      on.push(await window(pid, port, path, WINDOW_S));
      if (!offFirst) off.push(await window(pid, port, null, WINDOW_S));
    }
    if (stretchS > 0) {
      progress(`scrape: ${stretchS} s without scrapes, ${stretchS} s with, ${load}`);
      stretch.off = await window(pid, port, null, stretchS);
      stretch.on = await window(pid, port, path, stretchS);
    }
  } finally {
    await server.stop();
    await reading;
  }
  const perScrapeUs = on.map(({ loopUs, scrapes }, i) => (loopUs - off[i]!.loopUs) / scrapes);
  return { on, off, stretch, cost: meanAndError(perScrapeUs) };
}

/** Profiles streams without scrapes. Returns the number of samples of the loop's thread per source file. */
async function profile(): Promise<Record<string, number>> {
  const folder = `${root}build/bench/scrape-profile`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const command = [process.execPath, "--cpu-prof", `--cpu-prof-dir=${folder}`, "src/main.ts", "serve"];
  const server = await start([...command, ...flags]);
  const body = chat("Tell me about the weather.", 300, { seed: 1 });
  progress("scrape: profile of streams alone");
  await read({ port: server.port, body, streams, together: true, durationMs: 20_000 });
  await server.stop();
  const files = readdirSync(folder).filter((name) => name.endsWith(".cpuprofile"));
  const counts: Record<string, number> = {};
  for (const file of files) {
    const { nodes, samples }: Profile = JSON.parse(readFileSync(`${folder}/${file}`, "utf8"));
    const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
    for (const sample of samples) {
      const { url, functionName } = byId.get(sample)!;
      const place = /src\/(.*\.ts)$/.exec(url)?.[1] ?? (functionName.startsWith("(") ? functionName : "runtime");
      counts[place] = (counts[place] ?? 0) + 1;
    }
  }
  return Object.fromEntries(Object.entries(counts).sort((a, b) => b[1] - a[1]));
}
interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly url: string; readonly functionName: string };
  }[];
  readonly samples: readonly number[];
}
/** Matches the files that count for metrics. They run per step, request or scrape, never per token. */
const OBSERVES = /^metrics\/|^accounting|^http-accounts|^engine\/(snapshot|lateness)/;

// In production another machine scrapes. Here this process shares a core with the reader of the streams.
Bun.spawnSync(["taskset", "-a", "-c", "-p", String(CLIENT_CORE), String(process.pid)]);
const busy = await alternate(true, pairs, seconds);
const idle = await alternate(false, alonePairs, 0);
const empty = await alternate(false, alonePairs, 0, EMPTY);
const samples = await profile();
const all = Object.values(samples).reduce((sum, count) => sum + count, 0);
const observing = Object.entries(samples)
  .filter(([file]) => OBSERVES.test(file))
  .reduce((sum, [, count]) => sum + count, 0);

const mean = (windows: readonly Window[], pick: (window: Window) => number) =>
  windows.reduce((sum, window) => sum + pick(window), 0) / windows.length;
const summary = (windows: readonly Window[], lengthS: number) => ({
  loopPercent: mean(windows, ({ loopUs }) => loopUs / lengthS / 10_000),
  lateMeanUs: mean(windows, ({ lateMeanUs }) => lateMeanUs),
  lateMedianUs: median(windows.map(({ lateMeanUs }) => lateMeanUs)),
  lateP99Us: pooled(windows, 0.99),
  writeMeanUs: mean(windows, ({ writeMeanUs }) => writeMeanUs),
});
const figures = {
  without: summary(busy.off, WINDOW_S),
  with: summary(busy.on, WINDOW_S),
  stretchWithout: summary([busy.stretch.off!], seconds),
  stretchWith: summary([busy.stretch.on!], seconds),
};
const row = (name: string, result: ReturnType<typeof summary>) => [name, ...Object.values(result)];
const growth = (window: Window) => slope(window.residentMb) * 60;
const growthMb = growth(busy.stretch.on!);
const growthWithoutMb = growth(busy.stretch.off!);
table(`${streams} streams, a token every ${PERIOD_MS} ms; ${rate} scrapes a second of ${PATH}`, [
  ["", "loop %", "late mean us", "late median us", "late p99 us", "write mean us"],
  row(`windows of ${WINDOW_S} s in turns, without`, figures.without),
  row("with", figures.with),
  row(`${seconds} s without`, figures.stretchWithout),
  row(`${seconds} s with`, figures.stretchWith),
]);
const scrapesPerSecond = busy.stretch.on!.scrapes / seconds;
console.log(`  ${scrapesPerSecond.toFixed(1)} scrapes a second of ${Math.round(busy.on[0]!.pageBytes / 1000)} kB`);
const cost = ({ mean, error }: { mean: number; error: number }) => `${Math.round(mean)} ± ${Math.round(error)} us`;
console.log(
  `  loop's thread per scrape: ${cost(busy.cost)} during streams, ${cost(idle.cost)} alone, an empty answer ${cost(empty.cost)}`,
);
console.log(`  ${bar("loop's thread per scrape, during streams", busy.cost.mean, BAR.loopUs, "us")}`);
// Memory grows without scrapes, too, because long streams touch new blocks of the KV pool.
const addedMb = growthMb - growthWithoutMb;
console.log(
  `  growth of memory: ${growthMb.toFixed(2)} MB a minute with scrapes, ${growthWithoutMb.toFixed(2)} without`,
);
console.log(`  ${bar("growth of memory that scrapes add", addedMb, BAR.mbPerMinute, "MB a minute")}`);
console.log(`  ${((100 * observing) / all).toFixed(2)} % of ${all} samples of the loop's thread count for metrics`);
save("scrape", {
  ...{ streams, rate, seconds, pairs, figures },
  ...{ besideStreamsUs: busy.cost, aloneUs: idle.cost, emptyAnswerUs: empty.cost },
  ...{ growthMb, growthWithoutMb, residentMb: busy.stretch.on!.residentMb, observingShare: observing / all },
});
if (!has("--no-save")) {
  const text = `${JSON.stringify({ streams, periodMs: PERIOD_MS, scrapes: 0, observing, all, samples }, null, 1)}\n`;
  writeFileSync(`${results}scrape-profile.json`, text);
}
