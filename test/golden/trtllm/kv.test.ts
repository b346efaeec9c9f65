/** TensorRT-LLM's KV cache manager by itself: what is reused, what goes first, and for how long a priority counts. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Config, SLOTS, Word } from "../../../assembly/layout.ts";
import { CapacityPolicy, NO_TIME, PRIORITY_DEFAULT, TrtConfig, TrtWord } from "../../../assembly/trtllm/layout.ts";
import { Bench, parts } from "./bench.ts";

const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../../build/trtllm.debug.wasm")));

/** A pool of its own; requests one after the other, unless they are left running. */
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

  /** One iteration, so many microseconds after the last. */
  step(us = 1): void {
    this.#nowUs += us;
    this.batch.plan(this.#nowUs);
    this.batch.take(this.#nowUs);
  }

  /** The request from its first iteration to its end; blocks reused and missed by it. */
  play(
    id: number,
    prompt: number[],
    maxTokens: number,
    whose: { lora?: number; salt?: number } = {},
  ): { reused: number; missed: number } {
    const [, , reused, missed] = this.views.totals() as [number, number, number, number];
    this.add(id, prompt, maxTokens, whose);
    while (this.batch.hasWork) this.step();
    const [, , reusedNow, missedNow] = this.views.totals() as [number, number, number, number];
    return { reused: reusedNow - reused, missed: missedNow - missed };
  }

  /** Prompt tokens that were cached when the request began. */
  cached(id: number): number {
    return this.core.views.cachedPrompt[this.handle(id) % SLOTS]! - 1;
  }

  /** Rows as `retain` takes them: of generated tokens, then ranges. */
  retain(id: number, rows: readonly (readonly number[])[]): void {
    const words = rows.flat();
    this.core.views.input.set(words);
    const { retain } = this.core.exports as unknown as { retain(handle: number, ranges: number): void };
    retain(this.handle(id), rows.length - 1);
  }
  handle(id: number): number {
    return this.handles.get(id)!;
  }

  /** Priorities of the blocks that a request holds. */
  priorities(id: number): number[] {
    const levels = (this.views.word(TrtWord.LevelsAt) >>> 0) >> 2;
    return this.core.views
      .blockTable(this.handle(id) % SLOTS)
      .map((block) => this.core.views.i32[levels + block]! || PRIORITY_DEFAULT + 1)
      .map((level) => level - 1);
  }
}

const ids = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
const GENERATED = [0, 0, PRIORITY_DEFAULT, NO_TIME];

test("the manager's counters and the order in which blocks go, step by step", () => {
  const pool = new Pool(6, 4);
  const free = () => pool.core.views.word(Word.BlocksFree);
  // Ten tokens and two more: eleven of them have their keys and values.
  pool.play(0, ids(1, 10), 2);
  expect([pool.views.totals(), free()]).toEqual([[3, 3, 0, 3], 6]);
  pool.add(1, ids(1001, 10), 2, {});
  pool.step();
  expect([pool.views.totals(), free()]).toEqual([[6, 6, 0, 6], 3]);
  // Fresh blocks come from the end of the first one's chain.
  pool.add(2, ids(2001, 7), 2, {});
  pool.step();
  expect([pool.views.totals(), free()]).toEqual([[8, 6, 0, 8], 4]);
  while (pool.batch.hasWork) pool.step();
  // One block of four tokens is left of the first chain: its head.
  expect(pool.play(3, ids(1, 10), 1)).toEqual({ reused: 1, missed: 2 });
});

test("a block that begins alike is reused as far as it does: leaves are taken over, others copied", () => {
  for (const [partial, copy, reused] of [
    [true, true, 2],
    [true, false, 1],
    [false, true, 1],
  ] as const) {
    const pool = new Pool(16, 4, { partial, copy });
    pool.play(0, ids(1, 12), 1);
    // The first four tokens and two of the next block, which others follow.
    expect(pool.play(1, [...ids(1, 6), ...ids(500, 6)], 1)).toEqual({ reused, missed: 3 - reused });
  }
});

test("a last block that is not full is found again, where partial reuse is on", () => {
  for (const partial of [true, false]) {
    const pool = new Pool(16, 4, { partial });
    pool.play(0, ids(1, 11), 1);
    expect(pool.play(1, ids(1, 12), 1).reused).toBe(partial ? 3 : 2);
    // Twelve tokens and eleven looked up: the third is taken over as it is, or computed.
    expect(pool.cached(1)).toBe(partial ? 11 : 8);
  }
});

test("nothing is reused across adapters or salts, no part of a block either, and no leaf of theirs is taken over", () => {
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
  "blocks of %p tokens, a prompt of %p: ranges %j are priorities %j",
  (tokensPerBlock, length, ranges, expected) => {
    const pool = new Pool(16, tokensPerBlock);
    pool.add(0, ids(1, length), 200, {});
    pool.retain(0, [[0, 0, 70, NO_TIME], ...ranges.map((range) => [...range, NO_TIME])]);
    pool.step();
    expect(pool.priorities(0)).toEqual([...expected]);
    // What is generated has a priority of its own.
    while (pool.priorities(0).length <= expected.length) pool.step();
    expect(pool.priorities(0)).toEqual([...expected, 70]);
  },
);

test("lower priorities go first, whatever came back first; a matched block takes what the next request says", () => {
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
  // Two blocks each: the third request has taken both of the first one's.
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
  // Three of the four blocks: the one that is left has the higher priority.
  other.play(2, ids(500, 9), 1);
  expect(other.play(3, ids(100, 5), 1).reused).toBe(1);
});

test("a priority with a duration is the usual one when the block has been free for so long", () => {
  const left = (waitMs: number) => {
    const pool = new Pool(4, 4);
    pool.add(0, ids(100, 5), 1, {});
    pool.retain(0, [GENERATED, [0, NO_TIME, 90, 20]]);
    pool.step();
    pool.step(waitMs * 1000);
    pool.play(1, ids(200, 5), 1);
    // Takes two blocks: the first request's where their time is over, else the second's.
    pool.play(2, ids(300, 5), 1);
    return pool.play(3, ids(200, 5), 1).reused;
  };
  expect([left(10), left(30)]).toEqual([0, 1]);
});

test("a batch is ordered by adapter, those without one first; among equals the order stays", () => {
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
