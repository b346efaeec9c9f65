/**
 * Measures how much published KV events cost:
 *
 * - Time of a step, and CPU time of the loop's thread per step, with events and without, in turns.
 * - CPU time of the publishing thread, with a subscriber that reads in a process of its own.
 *
 * 1,000 streams in real time, with steps of 20 ms and blocks of 5 tokens: 10,000 blocks are stored per second, and as many
 * evicted. The receivers of tokens do nothing.
 *
 *   bun run bench kv-events [--rounds 5] [--seconds 8] [--no-save]
 */
import { readdirSync, readFileSync } from "node:fs";
import { WallClock } from "../src/base/clock.ts";
import { createAlarm } from "../src/base/time/alarm.ts";
import { engineConfig } from "../src/embed/options.ts";
import { Engine } from "../src/engine/engine.ts";
import type { LoopObserver } from "../src/engine/lateness/loop-observer.ts";
import { KV_EVENTS_DEFAULTS } from "../src/kv-events/config.ts";
import { KvEvents } from "../src/kv-events/kv-events.ts";
import { pacing } from "../src/wire/http/deadlines.ts";
import { ZmtpSocket } from "../src/wire/zmtp/socket.ts";
import { bars, note, options, root, save, table } from "./lib/bench.ts";
import { median, medians, quantile } from "./lib/numbers.ts";
import { inTurns } from "./lib/servers.ts";

/** Option with which this file is started as the subscriber. Its address follows. */
const SUBSCRIBER = "--subscriber";
if (process.argv[2] === SUBSCRIBER) await subscribe(process.argv[3]!);

const { rounds, seconds } = options({ rounds: 5, seconds: 8 });

const BAR_MS = 0.1;
const STREAMS = 1000;
const BLOCK = 5;
const PROMPT = 40;
const OUTPUT = 400;
const EOS = 200_002;
/** The streams fill four fifths of the pool, so that blocks of earlier requests are evicted. */
const BLOCKS = Math.ceil((STREAMS * (PROMPT + OUTPUT)) / BLOCK / 0.8);

const { engine: config } = engineConfig({
  maxModelLen: 1024,
  maxNumSeqs: STREAMS,
  blockSize: BLOCK,
  numGpuBlocksOverride: BLOCKS,
  timing: "constant:ttft=20ms,itl=20ms",
});
const module = new WebAssembly.Module(readFileSync(`${root}build/core.wasm`));

/** Reads events until the process is ended. */
async function subscribe(endpoint: string): Promise<never> {
  const subscriber = new ZmtpSocket("SUB", { timer: pacing(new WallClock()) });
  subscriber.subscribe(Buffer.alloc(0));
  subscriber.connect(endpoint);
  return new Promise(() => {});
}

/** Returns the CPU time of the loop's thread and of all others, in nanoseconds. */
function threadNs(): readonly [loop: number, others: number] {
  let [loop, others] = [0, 0];
  for (const id of readdirSync("/proc/self/task")) {
    try {
      const ns = Number(readFileSync(`/proc/self/task/${id}/schedstat`, "utf8").split(" ")[0]);
      if (Number(id) === process.pid) loop += ns;
      else others += ns;
    } catch {
      // The thread ended after the folder was read.
    }
  }
  return [loop, others];
}

async function publisherOf() {
  const events = await KvEvents.open({
    config: {
      source: { ...KV_EVENTS_DEFAULTS, enable_kv_cache_events: true, publisher: "zmq", endpoint: "tcp://127.0.0.1:*" },
      ...{
        profile: "0.33.0",
        algorithm: "sha256",
        seed: null,
        hasIntHashes: true,
        batchSize: null,
        faults: null,
        firstRank: 0,
      },
    },
    ...{ engineFirst: 0, engines: 1, drawSeed: () => "0", log: note },
  });
  const command = [process.execPath, import.meta.path, SUBSCRIBER, events.sources["0"]!.endpoint];
  const subscriber = Bun.spawn(command, { stdio: ["ignore", "ignore", "inherit"] });
  const pool = { blockSize: BLOCK, numGpuBlocks: BLOCKS };
  const [feed] = events.attach({ ...pool, epochUs: 0, adapter: () => null, drains: true });
  return {
    ...{ feed: feed!, events },
    async close() {
      await events.close();
      subscriber.kill();
      await subscriber.exited;
    },
  };
}

/** Runs the streams for some seconds. Returns times per step in milliseconds. */
async function once(hasEvents: boolean) {
  const clock = new WallClock((ring, died) => createAlarm(ring, died));
  const publisher = hasEvents ? await publisherOf() : null;
  const stepMs: number[] = [];
  let isMeasured = false;
  const observer: LoopObserver = {
    stepped: ({ rows, startUs, doneUs }) => {
      if (isMeasured && rows > 0) stepMs.push((doneUs - startUs) / 1000);
    },
  };
  const feed = publisher ? { cacheFeed: publisher.feed, kvEvents: true } : {};
  const engine = new Engine({ config, clock, module, eosId: EOS, loopObservers: [observer], ...feed });
  let number = 0;
  let isOver = false;
  const submit = (outputTokens: number) => {
    const seed = number++;
    const generation = {
      ...{ promptIds: Uint32Array.from({ length: PROMPT }, (_, at) => (seed * 31 + at * 7919) % 100_000) },
      ...{ maxTokens: outputTokens, minTokens: 0, ignoreEos: true, plannedTokens: null, stopTokenIds: [], seed },
      ...{ priority: 0, cacheSalt: "", skipReadingPrefixCache: false, arrivalUs: clock.now() },
    };
    engine.submit(generation, {
      onTokens: (_ids, _at, _count, finish) => {
        if (finish !== null && !isOver) clock.soon(() => submit(OUTPUT));
      },
    });
  };
  for (let at = 0; at < STREAMS; at++) submit(1 + ((at * 397) % OUTPUT));
  await Bun.sleep(1000);
  isMeasured = true;
  const [before, fromUs] = [threadNs(), clock.now()];
  await Bun.sleep(seconds * 1000);
  isMeasured = false;
  const ranS = (clock.now() - fromUs) / 1e6;
  const after = threadNs();
  const steps = stepMs.length;
  isOver = true;
  engine.stop();
  const lost = publisher?.events.losses ?? { batches: 0, events: 0, messages: 0 };
  await publisher?.close();
  clock.close();
  return {
    ...{ p50Ms: median(stepMs), p99Ms: quantile(stepMs, 0.99), cpuMs: (after[0] - before[0]) / 1e6 / steps },
    ...{ blocksPerS: (steps * STREAMS) / BLOCK / ranS, otherCores: (after[1] - before[1]) / 1e9 / ranS },
    lost: lost.batches + lost.events + lost.messages,
  };
}

const { off, on } = await inTurns("kv-events", rounds, { off: () => once(false), on: () => once(true) }, 1);
const [without, published] = [medians(off), medians(on)];
const moreMs = median(on.map(({ p50Ms }, round) => p50Ms - off[round]!.p50Ms));
const moreCpuMs = median(on.map(({ cpuMs }, round) => cpuMs - off[round]!.cpuMs));
const ratio = median(on.map(({ p50Ms }, round) => p50Ms / off[round]!.p50Ms));
table(`A step of ${STREAMS} streams, ms, median of ${rounds} rounds of ${seconds} s`, [
  ["", "p50", "p99", "CPU of the loop", "blocks stored per second", "other threads, cores", "lost"],
  ...[["without events", without] as const, ["with events", published] as const].map(([name, run]) => [
    name,
    run.p50Ms,
    run.p99Ms,
    run.cpuMs,
    run.blocksPerS,
    run.otherCores,
    run.lost,
  ]),
]);
note(`ratio of the medians: ${ratio.toFixed(2)}`);
bars(["more per step, p50", moreMs, BAR_MS, "ms"], ["more CPU of the loop per step", moreCpuMs, BAR_MS, "ms"]);
save("kv-events", { rounds, seconds, without, published, moreMs, moreCpuMs, ratio });
process.exit(0);
