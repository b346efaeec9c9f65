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
 *   bun bench/truth.ts [--rounds 9] [--requests 1000000] [--no-save]
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../src/base/virtual-clock.ts";
import { engineConfig } from "../src/embed/options.ts";
import { flatEngineConfig } from "../src/engine/config/engine-config.ts";
import { Engine } from "../src/engine/engine.ts";
import type { Generation } from "../src/engine/interface/types.ts";
import type { Observer } from "../src/engine/observer.ts";
import { TRUTH_REQUESTS } from "../src/engine/timing/device-defaults.ts";
import { rowsSince } from "../src/truth/ask.ts";
import { createTruthLog, type TruthLog } from "../src/truth/log.ts";
import { RecentRows } from "../src/truth/recent.ts";
import { median, quantile } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--requests", "--no-save"]);

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

/** Runs requests, at most `SEQUENCES` at a time. The loop's thread pauses regularly, like in the server. */
class Work {
  readonly #clock = new VirtualClock();
  readonly #engine: Engine;
  #left: number;
  #live = 0;
  tokens = 0;

  constructor(
    readonly shape: { readonly promptTokens: number; readonly outputTokens: number },
    requests: number,
    observer: Observer | null,
  ) {
    this.#left = requests;
    this.#engine = new Engine({
      config,
      clock: this.#clock,
      module,
      eosId: 200_002,
      ...(observer ? { observer } : {}),
    });
  }

  async run(onSlice?: (done: number) => void): Promise<void> {
    this.#fill();
    for (let us = 0; this.#live > 0; ) {
      us += 100_000;
      const before = this.#left;
      this.#clock.advanceTo(us);
      onSlice?.(this.#left);
      await Bun.sleep(1 + (before - this.#left) / PACE);
    }
    this.#engine.stop();
  }

  #fill(): void {
    while (this.#left > 0 && this.#live < SEQUENCES) {
      this.#left--;
      this.#live++;
      this.#engine.submit(this.#generation(this.#left), {
        onTokens: (_ids, _at, count, finish) => {
          this.tokens += count;
          if (finish === null) return;
          this.#live--;
          this.#clock.soon(() => this.#fill());
        },
      });
    }
  }

  #generation(n: number): Generation {
    return {
      id: `chatcmpl-${String(n).padStart(32, "0")}`,
      promptIds: new Uint32Array(this.shape.promptTokens).fill(n % 50_000),
      maxTokens: this.shape.outputTokens,
      minTokens: 0,
      ignoreEos: true,
      plannedTokens: null,
      stopTokenIds: [],
      seed: n,
      priority: 0,
      cacheSalt: "",
      skipReadingPrefixCache: false,
      arrivalUs: this.#clock.now(),
    };
  }
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

async function once(shape: (typeof CASES)[number], mode: "off" | "kept" | "log") {
  const before = threads();
  const log = mode === "log" ? open() : null;
  const kept = mode === "kept" ? new RecentRows(TRUTH_REQUESTS, 1, 0, 0) : null;
  const work = new Work(shape, shape.requests, (log ?? kept)?.observer(0) ?? null);
  const from = loopNs();
  await work.run();
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
  return { perToken: ns / work.tokens, writer: writerNs / work.tokens };
}

/** Measures the time to serve 10,000 kept rows with their steps as text: microseconds per row and per piece. */
async function askAll() {
  const recent = new RecentRows(10_000, 1, 0, 0);
  await new Work({ promptTokens: 16, outputTokens: 200 }, 10_000, recent.observer(0)).run();
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
  const rounds = number("--rounds", 9);
  for (const shape of CASES) {
    for (const mode of ["log", "kept", "off"] as const) await once(shape, mode);
    const [off, keeps, on, extra, extraKept, writer] = Array.from({ length: 6 }, (): number[] => []) as [
      ...[number[], number[], number[]],
      ...[number[], number[], number[]],
    ];
    for (let round = 0; round < rounds; round++) {
      progress(`truth: ${shape.name}, round ${round + 1} of ${rounds}`);
      const without = (await once(shape, "off")).perToken;
      const kept = (await once(shape, "kept")).perToken;
      const { perToken, writer: written } = await once(shape, "log");
      off.push(without);
      keeps.push(kept);
      extraKept.push(kept - without);
      on.push(perToken);
      extra.push(perToken - without);
      writer.push(written);
    }
    const figures = { offNs: off, keptNs: keeps, onNs: on, extraKeptNs: extraKept, extraNs: extra, writerNs: writer };
    const medians = Object.fromEntries(Object.entries(figures).map(([name, all]) => [name, median(all)]));
    rows.push({ name: shape.name, ...(medians as Record<keyof typeof figures, number>) });
  }
  table(`CPU, ns per token, ${SEQUENCES} sequences at a time, median of ${rounds} rounds`, [
    ["", "loop, off", "loop, rows kept", "difference", "loop, log on", "difference", "writing thread"],
    ...rows.map((row) => [row.name, row.offNs, row.keptNs, row.extraKeptNs, row.onNs, row.extraNs, row.writerNs]),
  ]);
  for (const { name, extraNs, extraKeptNs } of rows) {
    console.log(`  ${bar(`${name}, kept`, extraKeptNs, BAR_NS, "ns per token")}`);
    console.log(`  ${bar(`${name}, log`, extraNs, BAR_NS, "ns per token")}`);
  }

  const asked = await askAll();

  const requests = number("--requests", 1_000_000);
  const log = open(2 ** 26);
  const work = new Work({ promptTokens: 1, outputTokens: 2 }, requests, log.observer(0));
  const rss: number[] = [];
  let next = 0.1;
  await work.run((left) => {
    const done = (requests - left) / requests;
    progress(`truth: ${Math.round(100 * done)} % of ${requests} requests`);
    if (done < next) return;
    next += 0.1;
    rss.push(process.memoryUsage.rss() / 2 ** 20);
  });
  await log.close();
  table(`Resident memory over ${requests.toLocaleString("en")} requests`, [
    ["", "MiB"],
    ["after a tenth", rss[0]!],
    ["largest value", Math.max(...rss)],
    ["at the end", rss.at(-1)!],
  ]);
  console.log(`  dropped: ${JSON.stringify(log.dropped())}`);
  save("truth", { rows, asked, requests, rssMiB: rss.map(Math.round), dropped: log.dropped() });
} finally {
  rmSync(folder, { recursive: true });
}
