/**
 * Measures how much the truth costs:
 *
 * - CPU time per token of the loop's thread without truth, with the last requests kept, and with the log.
 * - CPU time of the writing thread.
 * - Memory over many requests.
 * - Time to serve the kept requests.
 *
 * Time is simulated, the receivers of tokens do nothing, and the log is in a temporary folder.
 *
 *   bun run bench truth [--rounds 9] [--requests 1000000] [--no-save]
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../src/base/virtual-clock.ts";
import { engineConfig } from "../src/embed/options.ts";
import { flatEngineConfig } from "../src/engine/config/engine-config.ts";
import { Engine } from "../src/engine/engine.ts";
import type { Observer } from "../src/engine/observer.ts";
import { TRUTH_REQUESTS } from "../src/engine/timing/device-defaults.ts";
import { rowsSince } from "../src/truth/ask.ts";
import { createTruthLog, type TruthLog } from "../src/truth/log.ts";
import { RecentRows } from "../src/truth/recent.ts";
import { bars, note, options, progress, root, save, table } from "./lib/bench.ts";
import { median, medians, quantile } from "./lib/numbers.ts";
import { inTurns } from "./lib/servers.ts";

const { rounds, requests } = options({ rounds: 9, requests: 1_000_000 });

const BAR_NS = 100;
const SEQUENCES = 256;
const CASES = [
  { name: "long answers", promptTokens: 16, outputTokens: 2000, requests: SEQUENCES * 2 },
  { name: "200 tokens", promptTokens: 16, outputTokens: 200, requests: SEQUENCES * 20 },
  { name: "16 tokens", promptTokens: 16, outputTokens: 16, requests: SEQUENCES * 200 },
] as const;

const { engine: config } = engineConfig({
  maxModelLen: 8192,
  maxNumSeqs: SEQUENCES,
  numGpuBlocksOverride: 100_000,
  enablePrefixCaching: false,
  timing: "linear:base=5ms,prefill=1us,decode=1us",
});
const module = new WebAssembly.Module(readFileSync(`${root}build/core.wasm`));
const folder = mkdtempSync(join(tmpdir(), "understudy-bench-"));
const about = { engine: flatEngineConfig(config), engines: 1, epochUs: null };

/** Requests per millisecond of real time. Slows the simulation down, because it is faster than the writing thread. */
const PACE = 100;

/**
 * Runs requests, at most `SEQUENCES` at a time, and returns the number of output tokens. The loop's thread pauses regularly,
 * like in the server. `onSlice`: called at each pause with the number of requests that have not begun.
 */
async function work(
  { promptTokens, outputTokens }: { readonly promptTokens: number; readonly outputTokens: number },
  requests: number,
  observer: Observer | null,
  onSlice: (left: number) => void = () => {},
): Promise<number> {
  const clock = new VirtualClock();
  const engine = new Engine({ config, clock, module, eosId: 200_002, ...(observer ? { observer } : {}) });
  let [left, live, tokens] = [requests, 0, 0];
  const fill = () => {
    for (; left > 0 && live < SEQUENCES; live++) {
      const n = --left;
      const generation = {
        ...{ id: `chatcmpl-${String(n).padStart(32, "0")}`, promptIds: new Uint32Array(promptTokens).fill(n % 50_000) },
        ...{ maxTokens: outputTokens, minTokens: 0, ignoreEos: true, plannedTokens: null, stopTokenIds: [], seed: n },
        ...{ priority: 0, cacheSalt: "", skipReadingPrefixCache: false, arrivalUs: clock.now() },
      };
      engine.submit(generation, {
        onTokens: (_ids, _at, count, finish) => {
          tokens += count;
          if (finish === null) return;
          live--;
          clock.soon(fill);
        },
      });
    }
  };
  fill();
  for (let us = 100_000; live > 0; us += 100_000) {
    const before = left;
    clock.advanceTo(us);
    onSlice(left);
    await Bun.sleep(1 + (before - left) / PACE);
  }
  engine.stop();
  return tokens;
}

/** Returns the CPU time of each thread of this process, in nanoseconds by thread id. */
function threads(): Map<string, number> {
  const used = new Map<string, number>();
  for (const id of readdirSync("/proc/self/task")) {
    try {
      used.set(id, Number(readFileSync(`/proc/self/task/${id}/schedstat`, "utf8").split(" ")[0]));
    } catch {
      // The thread ended after the folder was read.
    }
  }
  return used;
}
const loopNs = () => threads().get(String(process.pid))!;

let files = 0;
const open = (maxBytes = 2 ** 40): TruthLog =>
  createTruthLog({ file: join(folder, `${files++}.jsonl`), maxBytes, files: 2 }, about, (line) => {
    throw new Error(line);
  });

/** Measures the CPU time per token of the loop's thread and of the writing thread, in nanoseconds. */
async function once({ requests, ...shape }: (typeof CASES)[number], mode: "off" | "kept" | "log") {
  const before = threads();
  const log = mode === "log" ? open() : null;
  const kept = mode === "kept" ? new RecentRows(TRUTH_REQUESTS, 1, 0, 0) : null;
  const from = loopNs();
  const tokens = await work(shape, requests, (log ?? kept)?.observer(0) ?? null);
  const ns = loopNs() - from;
  let writerNs = 0;
  if (log) {
    // The writer needs this time for all lines but the last. Its CPU time is read before `close()` ends its thread.
    await Bun.sleep(100);
    for (const [id, used] of threads()) if (!before.has(id)) writerNs += used;
    await log.close();
    const { run, step, request } = log.dropped();
    if (run + step + request > 0) throw new Error("rows were dropped");
  }
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  return { perToken: ns / tokens, writer: writerNs / tokens };
}

/** Measures the time to serve 10,000 kept rows with their steps as text: microseconds per row and per piece. */
async function askAll() {
  const recent = new RecentRows(10_000, 1, 0, 0);
  await work({ promptTokens: 16, outputTokens: 200 }, 10_000, recent.observer(0));
  const pieces = rowsSince(recent, about, { since: null, limit: 10_000, steps: true });
  const us: number[] = [];
  for (let done = false; !done; ) {
    // The kernel updates a thread's CPU time too rarely for pieces this short, so the wall clock is used.
    const from = Bun.nanoseconds();
    done = pieces.next().done === true;
    us.push((Bun.nanoseconds() - from) / 1000);
  }
  const allUs = us.reduce((sum, pieceUs) => sum + pieceUs, 0);
  const figures = { perRowUs: allUs / 10_000, pieces: us.length, p50Us: median(us), p99Us: quantile(us, 0.99) };
  table("10,000 rows of 200 tokens as text, µs", [
    ["", "per row", "pieces", "piece p50", "p99"],
    ["", figures.perRowUs, figures.pieces, figures.p50Us, figures.p99Us],
  ]);
  return figures;
}

try {
  const rows = [];
  for (const shape of CASES) {
    const modes = { off: () => once(shape, "off"), kept: () => once(shape, "kept"), log: () => once(shape, "log") };
    const { off, kept, log } = await inTurns(`truth: ${shape.name}`, rounds, modes, 1);
    const runs = off.map(({ perToken: offNs }, round) => {
      const [keptNs, { perToken: onNs, writer: writerNs }] = [kept[round]!.perToken, log[round]!];
      return { offNs, keptNs, onNs, extraKeptNs: keptNs - offNs, extraNs: onNs - offNs, writerNs };
    });
    rows.push({ name: shape.name, ...medians(runs) });
  }
  table(`CPU, ns per token, ${SEQUENCES} sequences at a time, median of ${rounds} rounds`, [
    ["", "loop, off", "loop, rows kept", "difference", "loop, log on", "difference", "writing thread"],
    ...rows.map((row) => [row.name, row.offNs, row.keptNs, row.extraKeptNs, row.onNs, row.extraNs, row.writerNs]),
  ]);
  for (const { name, extraNs, extraKeptNs } of rows)
    bars([`${name}, kept`, extraKeptNs, BAR_NS, "ns per token"], [`${name}, log`, extraNs, BAR_NS, "ns per token"]);

  const asked = await askAll();

  const log = open(2 ** 26);
  const rss: number[] = [];
  await work({ promptTokens: 1, outputTokens: 2 }, requests, log.observer(0), (left) => {
    const done = (requests - left) / requests;
    progress(`truth: ${Math.round(100 * done)} % of ${requests} requests`);
    if (done >= (rss.length + 1) / 10) rss.push(process.memoryUsage.rss() / 2 ** 20);
  });
  await log.close();
  table(`Resident memory over ${requests.toLocaleString("en")} requests`, [
    ["", "MiB"],
    ["after a tenth", rss[0]!],
    ["largest value", Math.max(...rss)],
    ["at the end", rss.at(-1)!],
  ]);
  note(`dropped: ${JSON.stringify(log.dropped())}`);
  save("truth", { rows, asked, requests, rssMiB: rss.map(Math.round), dropped: log.dropped() });
} finally {
  rmSync(folder, { recursive: true });
}
