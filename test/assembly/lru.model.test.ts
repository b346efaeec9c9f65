/**
 * Compares the hits of the prefix cache with an exact LRU over a trace's blocks. The model is a list of block ids by
 * last use. A request touches its full blocks from last to first, and the oldest block is dropped if there is no room.
 * A pool of `--num-gpu-blocks-override N` has N - 1 usable blocks. A prompt's partial last block takes one of them
 * while its request runs and is never found again, so N - 2 are left for full blocks.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../../src/base/random.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import { Replay } from "../../src/tools/replay/replay.ts";
import { TRACE_BLOCK, type TraceRequest } from "../../src/workloads/trace.ts";
import { configOf, debug, release } from "../engine/simulated-engine.ts";
import { times } from "../size.ts";

const LONGEST_BLOCKS = 60;

function config(
  numGpuBlocks: number,
  blockSize: number,
  asyncScheduling: boolean,
  longestBlocks = LONGEST_BLOCKS,
): EngineConfig {
  return configOf({
    maxModelLen: (longestBlocks + 1) * TRACE_BLOCK,
    maxNumSeqs: 1,
    maxNumBatchedTokens: 8192,
    blockSize,
    numGpuBlocks,
    asyncScheduling,
    timing: { kind: "none" },
  });
}

/**
 * Returns the blocks found over all requests. A Map keeps its keys in order of insertion, so the first key is the least recently
 * used.
 */
function lruHits(trace: readonly TraceRequest[], usable: number): number {
  const cached = new Map<number, true>();
  let hits = 0;
  for (const { promptTokens, blockIds } of trace) {
    const full = blockIds!.slice(0, Math.floor(promptTokens / TRACE_BLOCK));
    const most = Math.floor((promptTokens - 1) / TRACE_BLOCK);
    let found = 0;
    while (found < most && cached.has(full[found]!)) found++;
    hits += found;
    // If a whole prompt is cached, its last block is computed again. This copy is a second block until it is dropped.
    for (const id of full.toReversed()) {
      cached.delete(id);
      cached.set(id, true);
    }
    const room = usable - (promptTokens % TRACE_BLOCK === 0 ? 0 : 1);
    for (const oldest of cached.keys()) {
      if (cached.size <= room) break;
      cached.delete(oldest);
    }
  }
  return hits;
}

interface Shape {
  readonly wholeBlocks?: boolean;
  /** Number of conversations that continue. The more there are, the longer each waits for its next turn. */
  readonly conversations?: number;
  /** Largest number of blocks that a turn adds. */
  readonly turnBlocks?: number;
  readonly longestBlocks?: number;
}

/**
 * Generates conversations that grow turn by turn, some with a common beginning, like Mooncake's traces. Unless
 * `wholeBlocks` is set, no length is a multiple of the block size.
 */
function mooncakeLike(
  seed: number,
  requests: number,
  { wholeBlocks = false, conversations = 40, turnBlocks = 8, longestBlocks = LONGEST_BLOCKS }: Shape = {},
): TraceRequest[] {
  const random = seeded(seed);
  const below = (limit: number) => random() % limit;
  const open: number[][] = [];
  let next = 1;
  return Array.from({ length: requests }, (_, at): TraceRequest => {
    const turn = open.length > 0 && below(100) < 60 ? below(open.length) : open.length;
    const ids = [...(open[turn] ?? (below(2) === 0 ? [0] : []))];
    for (let more = 1 + below(turnBlocks); more > 0; more--) ids.push(next++);
    ids.splice(longestBlocks);
    const last = wholeBlocks && below(3) === 0 ? TRACE_BLOCK : 1 + below(TRACE_BLOCK - 1);
    // The last block is partial in this turn. In the next turn it is full and has another id.
    open[turn % conversations] = last === TRACE_BLOCK ? ids : ids.slice(0, -1);
    const promptTokens = (ids.length - 1) * TRACE_BLOCK + last;
    return { line: at + 1, arrivalUs: at, promptTokens, outputTokens: 1, blockIds: ids };
  });
}

/** Returns the tokens that the core found in its prefix cache. */
function coreHits(trace: readonly TraceRequest[], engine: EngineConfig, module: WebAssembly.Module): number {
  const replay = new Replay({
    config: engine,
    module,
    engines: 1,
    requests: trace[Symbol.iterator](),
    pace: { kind: "closed", concurrency: 1 },
    untilUs: Number.POSITIVE_INFINITY,
  });
  replay.run();
  expect(replay.counts.finished).toBe(trace.length);
  return replay.fleet.snapshots()[0]!.prefixHits;
}

const UNLIMITED = 1_000_000;
const trace = mooncakeLike(7, 1500);

test.each([UNLIMITED, 5000, 1000, 300, 100, LONGEST_BLOCKS + 2])(
  "with %d usable blocks the core has as many hits as the model",
  (usable) => {
    const wanted = lruHits(trace, usable);
    expect(wanted).toBeGreaterThan(0);
    for (const asyncScheduling of [true, false]) {
      expect(coreHits(trace, config(usable + 1, TRACE_BLOCK, asyncScheduling), release)).toBe(wanted * TRACE_BLOCK);
    }
  },
);

/** As many requests as a published Mooncake trace, and about as many blocks. Each pool size except the first evicts blocks. */
const LARGE: Shape = { conversations: 8000, turnBlocks: 30, longestBlocks: 240 };
const large = mooncakeLike(11, 12_000, LARGE);
const SIZES = [UNLIMITED, 100_000, 50_000, 30_000, 10_000];

test.each(SIZES)("12,000 requests and %d usable blocks: core and model have equal hits", (usable) => {
  const hits = coreHits(large, config(usable + 1, TRACE_BLOCK, true, LARGE.longestBlocks), release);
  expect(hits).toBe(lruHits(large, usable) * TRACE_BLOCK);
});

test("each smaller pool has fewer hits", () => {
  const distinct = new Set(large.flatMap(({ blockIds }) => [...blockIds!]));
  expect(distinct.size).toBeGreaterThan(150_000);
  const hits = SIZES.map((usable) => lruHits(large, usable));
  for (const [i, fewer] of hits.slice(1).entries()) expect(fewer).toBeLessThan(hits[i]!);
});

test("a small pool has fewer hits than a large one, so the comparison means something", () => {
  const hits = [UNLIMITED, 1000, 300, 100].map((usable) => lruHits(trace, usable));
  expect(hits).toEqual(hits.toSorted((a, b) => b - a));
  expect(new Set(hits).size).toBe(4);
});

test("with an unlimited pool, smaller engine blocks hit at least as many tokens", () => {
  const whole = lruHits(trace, UNLIMITED) * TRACE_BLOCK;
  for (const blockSize of [64, 256]) {
    const finer = coreHits(trace, config(300_000, blockSize, true), release);
    expect(finer).toBeGreaterThanOrEqual(whole);
    expect(finer % blockSize).toBe(0);
  }
});

test("the debug core agrees with the model for random small traces and pools", () =>
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: LONGEST_BLOCKS + 2, max: 400 }), (seed, usable) => {
      const small = mooncakeLike(seed, 60);
      const hits = coreHits(small, config(usable + 1, TRACE_BLOCK, true), debug);
      expect(hits).toBe(lruHits(small, usable) * TRACE_BLOCK);
    }),
    { numRuns: times(30) },
  ));

test("a prompt of whole blocks computes its last block again", () => {
  const whole = mooncakeLike(3, 800, { wholeBlocks: true });
  expect(coreHits(whole, config(UNLIMITED, TRACE_BLOCK, true), release)).toBe(lruHits(whole, UNLIMITED) * TRACE_BLOCK);
});
