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
import { cpus } from "node:os";
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { bars, has, note, options, progress, results, root, save, table } from "./lib/bench.ts";
import { boundOf, Page, read, sameChat } from "./lib/client.ts";
import { meanAndError, median, slope } from "./lib/numbers.ts";
import { CLIENT_CORE, inTurns, pinSelf, type RunningServer, residentMb, serve, start } from "./lib/servers.ts";

const defaults = { streams: 1000, rate: 60, seconds: 60, pairs: 30 };
const { streams, rate, seconds, pairs } = options(defaults, ["--server", ...BASE_FLAGS]);
await compareWithBase({
  name: "scrape",
  script: "bench/scrape.ts",
  flags: ["--pairs", "10"],
  costs: {
    "loop's thread per scrape, beside streams, us": "besideStreamsUs.mean",
    "alone, us": "aloneUs.mean",
    "loop busy without scrapes, %": "figures.without.loopPercent",
    "with, %": "figures.with.loopPercent",
    "share of counting": "observingShare",
  },
});
const BAR = { loopUs: 200, mbPerMinute: 5 };
const PERIOD_MS = 50;
const PATH = "/metrics/all";
/** Path of an answer without a body, whose cost is that of the requests alone. */
const EMPTY = "/health";
const LATENESS = "understudy_step_start_lateness_seconds";
const WRITE = "understudy_step_write_seconds";
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

/** Scrapes a path at a steady pace over one connection until `stop()`, which returns the number of scrapes and the last length. */
function scraper(port: number, path: string) {
  let isOver = false;
  const seen = { scrapes: 0, pageBytes: 0 };
  const running = (async () => {
    for (let dueMs = performance.now(); !isOver; dueMs += 1000 / rate) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      seen.pageBytes = (await answer.bytes()).length;
      seen.scrapes++;
      await Bun.sleep(Math.max(0, dueMs + 1000 / rate - performance.now()));
    }
    return seen;
  })();
  return () => {
    isOver = true;
    return running;
  };
}

/** Measures some seconds, with scrapes of a path or without (null). */
async function window({ pid, port }: RunningServer, path: string | null, lengthS: number) {
  const before = await Page.of(port);
  const fromUs = loopUs(pid);
  const stop = path === null ? null : scraper(port, path);
  const residentMbs: number[] = [];
  for (let second = 0; second < lengthS; second++) {
    await Bun.sleep(1000);
    residentMbs.push(residentMb(pid));
  }
  const seen = (await stop?.()) ?? { scrapes: 0, pageBytes: 0 };
  const usedUs = loopUs(pid) - fromUs;
  const after = await Page.of(port);
  return {
    ...{ ...seen, loopUs: usedUs, residentMb: residentMbs },
    lateMeanUs: after.since(before, LATENESS).mean * 1e6,
    lateness: after.bucketsSince(before, LATENESS),
    writeMeanUs: after.since(before, WRITE).mean * 1e6,
  };
}
type Window = Awaited<ReturnType<typeof window>>;

/** Returns a quantile of the lateness in all windows together, in microseconds: the upper bound of its bucket. */
function pooledUs(windows: readonly Window[], share: number): number {
  const bounds = [...windows[0]!.lateness.keys()];
  const sumOf = (le: number) => windows.reduce((sum, { lateness }) => sum + lateness.get(le)!, 0);
  return boundOf(new Map(bounds.map((le) => [le, sumOf(le)])), share) * 1e6;
}

/** Measures pairs of short windows, and with streams a long window without scrapes and another with them. */
async function alternate(withStreams: boolean, count: number, stretchS: number, path = PATH) {
  const load = `scrape: ${withStreams ? `${streams} streams` : "idle"}, ${path}`;
  const durationMs = (2 * count * (WINDOW_S + 0.2) + 2 * (stretchS + 1) + 15) * 1000;
  const body = sameChat(Math.ceil((durationMs + 5000) / PERIOD_MS));
  const server = await serve(flags, { core: null, under: ALL_CORES });
  const reading = withStreams ? read({ port: server.port, body, streams, together: true, durationMs }) : null;
  try {
    await Bun.sleep(5000);
    const stop = scraper(server.port, path);
    await Bun.sleep(3000);
    await stop();
    const { off, on } = await inTurns(load, count, {
      off: () => window(server, null, WINDOW_S),
      on: () => window(server, path, WINDOW_S),
    });
    const cost = meanAndError(on.map(({ loopUs, scrapes }, i) => (loopUs - off[i]!.loopUs) / scrapes));
    if (stretchS === 0) return { off, on, cost, stretch: [] };
    progress(`${load}: ${stretchS} s without scrapes, ${stretchS} s with`);
    const stretch = [await window(server, null, stretchS), await window(server, path, stretchS)];
    return { off, on, cost, stretch };
  } finally {
    await server.stop();
    await reading;
  }
}

/** Profiles streams without scrapes. Returns the number of samples of the loop's thread per source file. */
async function profile(): Promise<Record<string, number>> {
  const folder = `${root}build/bench/scrape-profile`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const command = [process.execPath, "--cpu-prof", `--cpu-prof-dir=${folder}`, "src/main.ts", "serve"];
  const server = await start([...command, ...flags], { core: null });
  progress("scrape: profile of streams alone");
  await read({ port: server.port, body: sameChat(300), streams, together: true, durationMs: 20_000 });
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
pinSelf(CLIENT_CORE);
const busy = await alternate(true, pairs, seconds);
const idle = await alternate(false, alonePairs, 0);
const empty = await alternate(false, alonePairs, 0, EMPTY);
const samples = await profile();
const all = Object.values(samples).reduce((sum, count) => sum + count, 0);
const observing = Object.entries(samples)
  .filter(([file]) => OBSERVES.test(file))
  .reduce((sum, [, count]) => sum + count, 0);

const [without, during] = busy.stretch as [Window, Window];
const summary = (windows: readonly Window[], lengthS: number) => {
  const lateMeans = windows.map(({ lateMeanUs }) => lateMeanUs);
  return {
    loopPercent: meanAndError(windows.map(({ loopUs }) => loopUs / lengthS / 10_000)).mean,
    lateMeanUs: meanAndError(lateMeans).mean,
    lateMedianUs: median(lateMeans),
    lateP99Us: pooledUs(windows, 0.99),
    writeMeanUs: meanAndError(windows.map(({ writeMeanUs }) => writeMeanUs)).mean,
  };
};
const figures = {
  without: summary(busy.off, WINDOW_S),
  with: summary(busy.on, WINDOW_S),
  stretchWithout: summary([without], seconds),
  stretchWith: summary([during], seconds),
};
const growth = (window: Window) => slope(window.residentMb) * 60;
const [growthMb, growthWithoutMb] = [growth(during), growth(without)];
table(`${streams} streams, a token every ${PERIOD_MS} ms; ${rate} scrapes a second of ${PATH}`, [
  ["", "loop %", "late mean us", "late median us", "late p99 us", "write mean us"],
  [`windows of ${WINDOW_S} s in turns, without`, ...Object.values(figures.without)],
  ["with", ...Object.values(figures.with)],
  [`${seconds} s without`, ...Object.values(figures.stretchWithout)],
  [`${seconds} s with`, ...Object.values(figures.stretchWith)],
]);
note(`${(during.scrapes / seconds).toFixed(1)} scrapes a second of ${Math.round(during.pageBytes / 1000)} kB`);
const cost = ({ mean, error }: { mean: number; error: number }) => `${Math.round(mean)} ± ${Math.round(error)} us`;
const costs = [`${cost(busy.cost)} during streams`, `${cost(idle.cost)} alone`, `an empty answer ${cost(empty.cost)}`];
note(`loop's thread per scrape: ${costs.join(", ")}`);
bars(["loop's thread per scrape, during streams", busy.cost.mean, BAR.loopUs, "us"]);
note(`growth of memory: ${growthMb.toFixed(2)} MB a minute with scrapes, ${growthWithoutMb.toFixed(2)} without`);
// Memory grows without scrapes, too, because long streams touch new blocks of the KV pool.
bars(["growth of memory that scrapes add", growthMb - growthWithoutMb, BAR.mbPerMinute, "MB a minute"]);
note(`${((100 * observing) / all).toFixed(2)} % of ${all} samples of the loop's thread count for metrics`);
save("scrape", {
  ...{ streams, rate, seconds, pairs, figures },
  ...{ besideStreamsUs: busy.cost, aloneUs: idle.cost, emptyAnswerUs: empty.cost },
  ...{ growthMb, growthWithoutMb, residentMb: during.residentMb, observingShare: observing / all },
});
if (!has("--no-save")) {
  const text = `${JSON.stringify({ streams, periodMs: PERIOD_MS, scrapes: 0, observing, all, samples }, null, 1)}\n`;
  writeFileSync(`${results}scrape-profile.json`, text);
}
