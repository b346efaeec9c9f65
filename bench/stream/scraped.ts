/**
 * How long does a scrape take beside 500 streams, all on one core? Against a bare server that gives the same bytes on that
 * core beside the same streams, in turns of half a second; and are the streams later for it? Who scrapes has the reader's core.
 */
import { quantile } from "../lib/numbers.ts";
import { CLIENT_CORE, pinSelf, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat } from "../lib/prompt.ts";
import { read } from "../lib/reader.ts";
import { bar, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";

const STREAMS = 500;
const BAR = 2.5;
const PERIOD_MS = 20;
/**
 * Scrapes come at all phases of the streams' period: at one and the same, half a second apart, a step was in the way of each
 * scrape of one of the two for half a minute, and of none of the other's.
 */
const phaseOf = (scrape: number) => (scrape * 0.618) % 1;

async function took(url: string): Promise<number> {
  const fromMs = performance.now();
  const answer = await fetch(url);
  await answer.arrayBuffer();
  return performance.now() - fromMs;
}

export async function scraped(flags: readonly string[], seconds: number) {
  pinSelf(CLIENT_CORE);
  const server = await start(serverCommand(flags), { core: SERVER_CORE });
  const page = `http://127.0.0.1:${server.port}/metrics`;
  const file = `${root}build/bench/page.txt`;
  const body = chat("Tell me about the weather.", 75 * seconds + 500);
  const streams = (ms: number) =>
    read({ port: server.port, body, streams: STREAMS, together: true, durationMs: ms, gaps: true });
  const times = { ours: [] as number[], bare: [] as number[] };
  let quiet: Awaited<ReturnType<typeof read>>;
  let scraping: Awaited<ReturnType<typeof read>>;
  try {
    await streams(3000);
    await Bun.write(file, await (await fetch(page)).text());
    const bare = await start([process.execPath, "bench/lib/bare-server.ts", "--page", file], { core: SERVER_CORE });
    try {
      quiet = await streams(seconds * 500);
      const reading = streams(seconds * 1000 + 2000);
      await Bun.sleep(1500);
      for (let i = 0; i < seconds; i++) {
        progress(`view: scrape ${i + 1} of ${seconds}`);
        for (const [who, url] of [
          ["ours", page],
          ["bare", `http://127.0.0.1:${bare.port}/page`],
        ] as const) {
          const ms = await took(url);
          times[who].push(ms);
          await Bun.sleep(Math.max(0, 500 + PERIOD_MS * phaseOf(i) - ms));
        }
      }
      scraping = await reading;
    } finally {
      await bare.stop();
    }
  } finally {
    await server.stop();
  }
  const row = (who: "ours" | "bare") => [quantile(times[who], 0.5), quantile(times[who], 0.99)];
  table(`/metrics beside ${STREAMS} streams at 20 ms, one core, ${seconds} scrapes, ms`, [
    ["", "p50", "p99"],
    ["understudy", ...row("ours")],
    ["bare server, the same bytes", ...row("bare")],
  ]);
  const ratio = quantile(times.ours, 0.99) / quantile(times.bare, 0.99);
  console.log(`  ${bar("p99 against the bare server", ratio, BAR, "×")}`);
  const gap = { quietMs: quiet.gapUs!.p99 / 1000, scrapedMs: scraping.gapUs!.p99 / 1000 };
  console.log(
    `  gaps of the streams, p99: ${gap.quietMs.toFixed(1)} ms without scrapes, ${gap.scrapedMs.toFixed(1)} ms with`,
  );
  return { ratio, gap, times };
}
