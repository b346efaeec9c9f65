/**
 * Measures how long a scrape takes during 500 streams, with the server on one core, and whether scrapes delay the streams. Every
 * half second a scrape of our server alternates with a request to a bare server on the same core, which returns the same bytes.
 * This process shares a core with the reader of the streams.
 */

import { bars, note, progress, root, table } from "../lib/bench.ts";
import { besideStreams, chat, read } from "../lib/client.ts";
import { quantile } from "../lib/numbers.ts";
import { bareServer, CLIENT_CORE, pinSelf, serve } from "../lib/servers.ts";

const STREAMS = 500;
const BAR = 2.5;
const PERIOD_MS = 20;
/**
 * Returns the phase of a scrape in the streams' period, from 0 to 1. The phases of successive scrapes differ. At equal phases, a
 * step delayed all scrapes of one server for half a minute, and none of the other's.
 */
const phaseOf = (scrape: number) => (scrape * 0.618) % 1;

async function timeOf(url: string): Promise<number> {
  const fromMs = performance.now();
  const answer = await fetch(url);
  await answer.arrayBuffer();
  return performance.now() - fromMs;
}

export async function scraped(flags: readonly string[], seconds: number) {
  pinSelf(CLIENT_CORE);
  await using server = await serve(flags);
  const { port } = server;
  const page = `http://127.0.0.1:${port}/metrics`;
  const file = `${root}build/bench/page.txt`;
  const body = chat("Tell me about the weather.", 75 * seconds + 500);
  const streams = (durationMs: number) => ({ body, streams: STREAMS, together: true, durationMs, gaps: true });
  await read({ port, ...streams(3000) });
  await Bun.write(file, await (await fetch(page)).text());
  await using bare = await bareServer("--page", file);
  const quiet = await read({ port, ...streams(seconds * 500) });
  const times = { ours: [] as number[], bare: [] as number[] };
  const urls = [["ours", page] as const, ["bare", `http://127.0.0.1:${bare.port}/page`] as const];
  const { streams: scraping } = await besideStreams(server, streams(seconds * 1000 + 2000), 1500, async () => {
    for (let i = 0; i < seconds; i++) {
      progress(`view: scrape ${i + 1} of ${seconds}`);
      for (const [name, url] of urls) {
        const ms = await timeOf(url);
        times[name].push(ms);
        await Bun.sleep(Math.max(0, 500 + PERIOD_MS * phaseOf(i) - ms));
      }
    }
  });
  const row = (name: "ours" | "bare") => [quantile(times[name], 0.5), quantile(times[name], 0.99)];
  table(`Time of a scrape during ${STREAMS} streams at 20 ms, one core, ${seconds} scrapes, ms`, [
    ["", "p50", "p99"],
    ["understudy", ...row("ours")],
    ["bare server, the same bytes", ...row("bare")],
  ]);
  const ratio = quantile(times.ours, 0.99) / quantile(times.bare, 0.99);
  bars(["p99 ÷ the bare server's", ratio, BAR, "×"]);
  const gap = { quietMs: quiet.gapUs!.p99 / 1000, scrapedMs: scraping.gapUs!.p99 / 1000 };
  const gaps = [`${gap.quietMs.toFixed(1)} ms without scrapes`, `${gap.scrapedMs.toFixed(1)} ms with`];
  note(`gaps of the streams, p99: ${gaps.join(", ")}`);
  return { ratio, gap, times };
}
