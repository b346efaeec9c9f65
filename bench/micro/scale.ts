/**
 * Measures whether a step costs more in a large engine. 256 sequences decode with 10,000 waiting requests and with none, and in
 * a pool of 1 M blocks and of 10 k blocks. Both runs of a pair follow each other in one process, so that a busy machine disturbs
 * both. The result is the median of the pairs' ratios.
 *
 *   bun run bench scale [--pairs 101] [--realtime] [--no-save]
 *
 * The state is that of a server that has run for a while: each block has cached content, which a new allocation evicts first. No
 * two requests are equal. A round decodes 480 tokens for each of the 256 sequences.
 */

import { bars, options, progress, save, table } from "../lib/bench.ts";
import { median, medianRatio } from "../lib/numbers.ts";
import { inTurns } from "../lib/servers.ts";
import { loadDecoding } from "./decode.ts";
import { SteadyLoad } from "./steady.ts";

const { pairs } = options({ pairs: 101 }, ["--realtime"]);

const SEQUENCES = 256;
const STEPS = 480;
const BLOCK = 16;
const WAITING = 10_000;
const POOLS = { small: 10_000, large: 1_000_000 };
const BAR = { waiting: 1.2, pool: 1.3 };

/** Runs one round, in which all sequences start, decode and end. Returns nanoseconds per step. */
function round(engine: SteadyLoad, waiting: number): number {
  engine.start(SEQUENCES, STEPS + 8);
  engine.wait(waiting);
  const ns = engine.run(STEPS) / STEPS;
  engine.stop();
  return ns;
}

/** Runs rounds until each block has had content at least `times` times. */
function fill(engine: SteadyLoad, blocks: number, times: number): void {
  const perRound = (SEQUENCES * STEPS) / BLOCK;
  for (let used = 0; used < times * blocks; used += perRound) round(engine, 0);
}

/** Measures nanoseconds per step of both in turn. */
async function compare(name: string, plain: () => number, large: () => number) {
  const ns = await inTurns(`scale: ${name}`, pairs, { plain, large });
  return { plainNs: median(ns.plain), largeNs: median(ns.large), ratio: medianRatio(ns.large, ns.plain) };
}

const engine = async (numGpuBlocks: number) =>
  new SteadyLoad(await loadDecoding({ numGpuBlocks, maxNumSeqs: SEQUENCES, maxNumActiveSeqs: SEQUENCES }));

progress("scale: filling the pools");
const [small, large] = [await engine(POOLS.small), await engine(POOLS.large)];
fill(small, POOLS.large, 2);
fill(large, POOLS.large, 2);
const plain = () => round(small, 0);
const waiting = await compare("waiting requests", plain, () => round(small, WAITING));
const pool = await compare("size of the pool", plain, () => round(large, 0));

table(`One step with ${SEQUENCES} decoding sequences`, [
  ["", "ns per step", "ratio"],
  ["none waiting", waiting.plainNs, ""],
  [`${WAITING} waiting`, waiting.largeNs, waiting.ratio],
  [`pool of ${POOLS.small} blocks`, pool.plainNs, ""],
  [`pool of ${POOLS.large} blocks`, pool.largeNs, pool.ratio],
]);
bars(["waiting", waiting.ratio, BAR.waiting, "times"], ["size of the pool", pool.ratio, BAR.pool, "times"]);
save("scale", { sequences: SEQUENCES, waiting, pool });
