/**
 * What does a scrape cost the streams? CPU of the loop's thread per scrape of all dialects, and how late steps start, with
 * 1,000 streams and 60 scrapes a second; the same without scrapes in between; memory over the run. Then a profile of
 * streams that nobody scrapes: what counting takes of the loop's thread.
 *
 * The server has all cores, as it has in use: pages are made in a thread beside the loop's.
 *
 *   bun run bench:scrape [--streams 1000] [--rate 60] [--seconds 20] [--rounds 3] [--server "command"] [--no-save]
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { median, slope } from "./lib/numbers.ts";
import { has, known, number } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { residentBytes, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

known(["--streams", "--rate", "--seconds", "--rounds", "--server", "--no-save"]);

const BAR = { loopUs: 200, mbPerMinute: 5 };
const PERIOD_MS = 50;
const PATH = "/metrics/all";
/** An answer without a body: what being asked so often costs on this machine. */
const EMPTY = "/health";
const LATENESS = "understudy_step_start_lateness_seconds";
const WRITE = "understudy_step_write_seconds";
const streams = number("--streams", 1000);
const rate = number("--rate", 60);
const seconds = number("--seconds", 20);
const rounds = number("--rounds", 3);
const flags = [
  ...["--timing", `constant:ttft=200ms,itl=${PERIOD_MS}ms`, "--max-num-seqs", String(streams)],
  ...["--max-model-len", "16384", "--num-gpu-blocks-override", "1100000", "--disable-uvicorn-access-log"],
];

/** CPU of the first thread, which is the loop's. */
const loopUs = (pid: number) => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1000;

/** Scrapes at a steady pace over one connection, until `stop`; resolves with their number and the last page's length. */
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
  readonly lateP99Us: number;
  readonly writeMeanUs: number;
  readonly residentMb: readonly number[];
}

/** Quantile of what a histogram has observed between two pages: the bound of its bucket. */
function between(before: Page, after: Page, name: string, share: number): number {
  const bounds = [...after.text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\}`, "gm"))].map(([, le]) => le!);
  const below = bounds.map((le) => {
    const label = `le="${le}"`;
    return after.value(`${name}_bucket`, label) - before.value(`${name}_bucket`, label);
  });
  const at = below.findIndex((count) => count >= share * below.at(-1)!);
  return Number(bounds[at]);
}

async function window(pid: number, port: number, path: string | null): Promise<Window> {
  const scraper = new Scraper();
  const before = await Page.of(port);
  const from = loopUs(pid);
  const running = path === null ? null : scraper.run(port, path);
  const residentMb: number[] = [];
  for (let second = 0; second < seconds; second++) {
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
    lateP99Us: between(before, after, LATENESS, 0.99) * 1e6,
    writeMeanUs: after.since(before, WRITE).mean * 1e6,
    residentMb,
  };
}

async function alternate(withStreams: boolean, path = PATH) {
  const server = await start(serverCommand(flags));
  const { pid, port } = server;
  const tokens = Math.ceil(((2 * rounds * (seconds + 2) + 20) * 1000) / PERIOD_MS);
  const body = chat("Tell me about the weather.", tokens, { seed: 1 });
  const durationMs = (2 * rounds * (seconds + 1) + 15) * 1000;
  const reading = withStreams ? read({ port, body, streams, together: true, durationMs }) : null;
  const on: Window[] = [];
  const off: Window[] = [];
  try {
    await Bun.sleep(5000);
    const warm = new Scraper();
    const warming = warm.run(port, path);
    await Bun.sleep(3000);
    warm.stop();
    await warming;
    for (let round = 0; round < rounds; round++) {
      progress(`scrape: round ${round + 1} of ${rounds}, ${withStreams ? `${streams} streams` : "idle"}`);
      off.push(await window(pid, port, null));
      on.push(await window(pid, port, path));
    }
  } finally {
    await server.stop();
    await reading;
  }
  const perScrapeUs = median(on.map((one, i) => (one.loopUs - off[i]!.loopUs) / one.scrapes));
  return { on, off, perScrapeUs };
}

/** Samples of the loop's thread by the file that was running, streams alone, nobody scrapes. */
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
/** Files whose work is counting: they run per step, per request or per scrape, never per token. */
const OBSERVES = /^metrics\/|^accounting|^http-accounts|^engine\/(snapshot|lateness)/;

const busy = await alternate(true);
const idle = await alternate(false);
const empty = await alternate(false, EMPTY);
const samples = await profile();
const all = Object.values(samples).reduce((sum, count) => sum + count, 0);
const observing = Object.entries(samples)
  .filter(([file]) => OBSERVES.test(file))
  .reduce((sum, [, count]) => sum + count, 0);

const mean = (windows: readonly Window[], pick: (one: Window) => number) =>
  windows.reduce((sum, one) => sum + pick(one), 0) / windows.length;
const row = (name: string, windows: readonly Window[]) => [
  name,
  mean(windows, ({ loopUs }) => loopUs / seconds / 10_000),
  mean(windows, ({ lateMeanUs }) => lateMeanUs),
  mean(windows, ({ lateP99Us }) => lateP99Us),
  mean(windows, ({ writeMeanUs }) => writeMeanUs),
];
const scrapesPerSecond = mean(busy.on, ({ scrapes }) => scrapes / seconds);
/** The least of each window: between collections memory rises and falls by ten megabytes. Windows come in turns of two. */
const growthOf = (windows: readonly Window[]) =>
  slope(windows.map(({ residentMb }) => Math.min(...residentMb))) * (60 / (2 * seconds));
const growthMb = growthOf(idle.on);
table(`${streams} streams, a token every ${PERIOD_MS} ms; ${rate} scrapes a second of ${PATH}`, [
  ["", "loop %", "late mean us", "late p99 us", "write mean us"],
  row("without scrapes", busy.off),
  row("with scrapes", busy.on),
]);
console.log(`  ${scrapesPerSecond.toFixed(1)} scrapes a second of ${Math.round(busy.on[0]!.pageBytes / 1000)} kB`);
console.log(
  `  loop's thread per scrape: ${Math.round(busy.perScrapeUs)} us beside streams, ${Math.round(idle.perScrapeUs)} us alone, an empty answer ${Math.round(empty.perScrapeUs)} us`,
);
console.log(`  ${bar("loop's thread per scrape, beside streams", busy.perScrapeUs, BAR.loopUs, "us")}`);
console.log(`  ${bar("growth of memory while scraped, alone", growthMb, BAR.mbPerMinute, "MB a minute")}`);
console.log(`  ${((100 * observing) / all).toFixed(2)} % of ${all} samples of the loop's thread in files that count`);
save("scrape", {
  streams,
  rate,
  seconds,
  rounds,
  busy,
  idle,
  growthMb,
  emptyAnswerUs: empty.perScrapeUs,
  growthBesideStreamsMb: growthOf(busy.on),
  observingShare: observing / all,
});
if (!has("--no-save")) {
  const text = `${JSON.stringify({ streams, periodMs: PERIOD_MS, scrapes: 0, observing, all, samples }, null, 1)}\n`;
  writeFileSync(`${root}bench/results/scrape-profile.json`, text);
}
