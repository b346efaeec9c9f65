/**
 * Tests TensorRT-LLM's KV cache manager separately: which blocks are reused, which are evicted first, and how long a priority
 * holds.
 */

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Config, SLOTS, Word } from "../../../assembly/layout.ts";
import { CapacityPolicy, NO_TIME, PRIORITY_DEFAULT, TrtConfig, TrtWord } from "../../../assembly/trtllm/layout.ts";
import { blockTable } from "../../assembly/core-lists.ts";
import { Bench, parts } from "./bench.ts";

const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../../build/trtllm.debug.wasm")));

/** A core with a small pool of blocks. `play` runs one request to its end; `add` leaves it running. */
class Pool extends Bench {
  #nowUs = 0;

  constructor(numBlocks: number, tokensPerBlock: number, { partial = true, copy = true } = {}) {
    super(
      module,
      {
        [Config.BlockSize]: tokensPerBlock,
        [Config.NumGpuBlocks]: numBlocks + 1,
        [Config.EnablePrefixCaching]: 1,
        [Config.EnableChunkedPrefill]: 1,
      },
      {
        [TrtConfig.CapacityPolicy]: CapacityPolicy.GuaranteedNoEvict,
        [TrtConfig.PartialReuse]: Number(partial),
        [TrtConfig.CopyOnPartialReuse]: Number(copy),
        [TrtConfig.CppExecutor]: 0,
      },
    );
  }

  /** Runs one iteration, `us` microseconds after the last one. */
  step(us = 1): void {
    this.#nowUs += us;
    this.batch.plan(this.#nowUs);
    this.batch.take(this.#nowUs);
  }

  /** Runs a request to its end. Returns the numbers of blocks that it reused and missed. */
  play(
    id: number,
    prompt: number[],
    maxTokens: number,
    keys: { lora?: number; salt?: number } = {},
  ): { reused: number; missed: number } {
    const [, , reused, missed] = this.views.totals() as [number, number, number, number];
    this.add(id, prompt, maxTokens, keys);
    while (this.batch.hasWork) this.step();
    const [, , reusedNow, missedNow] = this.views.totals() as [number, number, number, number];
    return { reused: reusedNow - reused, missed: missedNow - missed };
  }

  /** Returns the number of prompt tokens that were cached when the request began. */
  cached(id: number): number {
    return this.core.views.cachedPrompt[this.handle(id) % SLOTS]! - 1;
  }

  /** Sets retention priorities. The first row is for generated tokens, the others are for token ranges. */
  retain(id: number, rows: readonly (readonly number[])[]): void {
    const words = rows.flat();
    this.core.views.input.set(words);
    const { retain } = this.core.exports as unknown as { retain(handle: number, ranges: number): void };
    retain(this.handle(id), rows.length - 1);
  }
  handle(id: number): number {
    return this.handles.get(id)!;
  }

  /** Returns the priorities of the blocks that a request holds. */
  priorities(id: number): number[] {
    const levels = (this.views.word(TrtWord.LevelsAt) >>> 0) >> 2;
    return blockTable(this.core.views, this.handle(id) % SLOTS)
      .map((block) => this.core.views.i32[levels + block]! || PRIORITY_DEFAULT + 1)
      .map((level) => level - 1);
  }
}

const ids = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
const GENERATED = [0, 0, PRIORITY_DEFAULT, NO_TIME];

test("the counters and the order of eviction are right after each step", () => {
  const pool = new Pool(6, 4);
  const free = () => pool.core.views.word(Word.BlocksFree);
  // Ten prompt tokens and two generated ones. Eleven of them have keys and values.
  pool.play(0, ids(1, 10), 2);
  expect([pool.views.totals(), free()]).toEqual([[3, 3, 0, 3], 6]);
  pool.add(1, ids(1001, 10), 2, {});
  pool.step();
  expect([pool.views.totals(), free()]).toEqual([[6, 6, 0, 6], 3]);
  // New blocks are taken from the end of the first request's chain.
  pool.add(2, ids(2001, 7), 2, {});
  pool.step();
  expect([pool.views.totals(), free()]).toEqual([[8, 6, 0, 8], 4]);
  while (pool.batch.hasWork) pool.step();
  // One block of four tokens is left of the first chain: its first.
  expect(pool.play(3, ids(1, 10), 1)).toEqual({ reused: 1, missed: 2 });
});

test("a block with an equal beginning is reused as far as it is equal; a leaf is taken over, another block is copied", () => {
  for (const [partial, copy, reused] of [
    [true, true, 2],
    [true, false, 1],
    [false, true, 1],
  ] as const) {
    const pool = new Pool(16, 4, { partial, copy });
    pool.play(0, ids(1, 12), 1);
    // The prompt shares the first block and two tokens of the second, which has a successor.
    expect(pool.play(1, [...ids(1, 6), ...ids(500, 6)], 1)).toEqual({ reused, missed: 3 - reused });
  }
});

test("a partly filled last block is reused if partial reuse is on", () => {
  for (const partial of [true, false]) {
    const pool = new Pool(16, 4, { partial });
    pool.play(0, ids(1, 11), 1);
    expect(pool.play(1, ids(1, 12), 1).reused).toBe(partial ? 3 : 2);
    // Eleven of twelve tokens are looked up. The third block is taken over, or its tokens are computed.
    expect(pool.cached(1)).toBe(partial ? 11 : 8);
  }
});

test("no block, part of a block or leaf is reused across adapters or salts", () => {
  const whose = [{ lora: 1 }, { lora: 1 }, { lora: 2 }, { lora: 2 }, {}, { lora: 1, salt: 7 }, { lora: 1 }, {}];
  for (const tokens of [11, 13]) {
    for (const copy of [true, false]) {
      const pool = new Pool(32, 4, { copy });
      const cached = whose.map((of, id) => {
        pool.play(id, ids(1, tokens), 1, of);
        return pool.cached(id);
      });
      const all = tokens - 1;
      expect(cached).toEqual([0, all, 0, all, 0, 0, all, all]);
    }
  }
});

test.each([
  [
    64,
    256,
    [
      [0, 64, 80],
      [64, 128, 50],
    ],
    [80, 50, 35, 35],
  ],
  [
    32,
    127,
    [
      [0, 63, 80],
      [63, 127, 30],
    ],
    [80, 80, 30, 30],
  ],
  [
    32,
    128,
    [
      [0, 1, 80],
      [1, 2, 5],
    ],
    [80, 35, 35, 35],
  ],
  [32, 128, [[32, NO_TIME, 90]], [35, 90, 90, 90]],
] as const)(
  "blocks of %p tokens, a prompt of %p: ranges %j give priorities %j",
  (tokensPerBlock, length, ranges, expected) => {
    const pool = new Pool(16, tokensPerBlock);
    pool.add(0, ids(1, length), 200, {});
    pool.retain(0, [[0, 0, 70, NO_TIME], ...ranges.map((range) => [...range, NO_TIME])]);
    pool.step();
    expect(pool.priorities(0)).toEqual([...expected]);
    // Generated tokens have a separate priority.
    while (pool.priorities(0).length <= expected.length) pool.step();
    expect(pool.priorities(0)).toEqual([...expected, 70]);
  },
);

test("blocks with lower priorities are evicted first, and a reused block gets the priority of the new request", () => {
  const pool = new Pool(4, 4);
  const play = (id: number, from: number, priority: number) => {
    pool.add(id, ids(from, 5), 1, {});
    pool.retain(id, [GENERATED, [0, NO_TIME, priority, NO_TIME]]);
    while (pool.batch.hasWork) pool.step();
  };
  const hit = (id: number, from: number) => pool.play(id, ids(from, 5), 1).reused > 0;
  play(0, 100, 10);
  play(1, 200, 90);
  play(2, 300, 40);
  // Each request has two blocks. The third request has taken both blocks of the first one.
  expect(hit(3, 200)).toBe(true);
  expect(hit(4, 100)).toBe(false);
  const other = new Pool(4, 4);
  other.add(0, ids(100, 5), 1, {});
  other.retain(0, [GENERATED, [0, NO_TIME, 5, NO_TIME]]);
  while (other.batch.hasWork) other.step();
  other.add(1, ids(100, 5), 1, {});
  other.retain(1, [GENERATED, [0, NO_TIME, 60, NO_TIME]]);
  other.step();
  while (other.batch.hasWork) other.step();
  // The request takes three of the four blocks. The remaining block has the higher priority.
  other.play(2, ids(500, 9), 1);
  expect(other.play(3, ids(100, 5), 1).reused).toBe(1);
});

test("a priority returns to the default when the block has been free for its duration", () => {
  const left = (waitMs: number) => {
    const pool = new Pool(4, 4);
    pool.add(0, ids(100, 5), 1, {});
    pool.retain(0, [GENERATED, [0, NO_TIME, 90, 20]]);
    pool.step();
    pool.step(waitMs * 1000);
    pool.play(1, ids(200, 5), 1);
    // Takes two blocks: those of the first request if their priority has expired, else those of the second.
    pool.play(2, ids(300, 5), 1);
    return pool.play(3, ids(200, 5), 1).reused;
  };
  expect([left(10), left(30)]).toEqual([0, 1]);
});

test("a batch is sorted by adapter, with requests without an adapter first, and the sort is stable", () => {
  const bench = new Bench(module, {}, {});
  for (const [id, lora] of [2, 0, 1, 0, 2].entries()) bench.add(id, ids(100 * id, 5), 4, { lora });
  const calls = parts(bench.core);
  const batch = (at: TrtWord, count: TrtWord) => {
    calls.fetch();
    calls.capacity();
    calls.microBatch();
    const order = bench.list(at, count);
    calls.execute(1);
    bench.batch.take(1);
    return order;
  };
  expect(batch(TrtWord.ContextAt, TrtWord.Contexts)).toEqual([1, 3, 2, 0, 4]);
  expect(batch(TrtWord.GenerationAt, TrtWord.Generations)).toEqual([1, 3, 2, 0, 4]);
});
