/** Compares the prefix cache with a map from content to blocks. The contents have hashes that collide in the core's table. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { NONE, SLOTS, SUBMIT_HASHED, SUBMIT_SKIP_READING } from "../../assembly/layout.ts";
import { Batch } from "../../src/engine/batch.ts";
import { PLAIN } from "../../src/engine/core-request.ts";
import { coreSetup } from "../../src/engine/setup.ts";
import { type Core, startCore } from "../../src/engine/wasm/core.ts";
import { configOf } from "../engine/simulated-engine.ts";
import { times } from "../size.ts";
import { blockTable, freeQueue } from "./core-lists.ts";
import { builds, EOS } from "./pair.ts";
import { type Block, Pool } from "./pool-model.ts";

setDefaultTimeout(60_000);

const BLOCK = 4;

/**
 * Hashes the 64 bits that name a block's content, like `assembly/hashing.ts`. The low bits of the result are the position in the
 * table.
 */
function seal(words: bigint): bigint {
  const mixed = BigInt.asUintN(64, (words ^ (words >> 29n)) * 0xc4ceb9fe1a85ec53n);
  return mixed ^ (mixed >> 32n);
}

/** Contents by number. Their hashes map to the last and first positions of any table up to 256, so that runs wrap around. */
const contents = (() => {
  const found: [lo: number, hi: number][] = [];
  for (let words = 1n; found.length < 60; words += 0x9e3779b97f4a7c15n) {
    const word = BigInt.asUintN(64, words);
    const home = Number(seal(word) & 255n);
    if (home > 252 || home < 2) found.push([Number(word & 0xffffffffn) | 0, Number(word >> 32n) | 0]);
  }
  return found;
})();

interface Ask {
  /** Numbers of the contents of the full blocks, and tokens after them. */
  readonly blocks: readonly number[];
  readonly tail: number;
  readonly skip: boolean;
  /** Owner of the prompt. Owners do not share blocks. */
  readonly owner: number;
}

/** Salt and adapter of each owner. */
const OWNERS = [
  { saltLo: 0, saltHi: 0, adapter: 0 },
  { saltLo: 1, saltHi: 2, adapter: 0 },
  { saltLo: 0, saltHi: 0, adapter: 1 },
  { saltLo: 1, saltHi: 2, adapter: 1 },
];

class Real {
  readonly core: Core;
  readonly batch: Batch;
  #order = 0;

  constructor(blocks: number, module: WebAssembly.Module) {
    const config = configOf({
      maxModelLen: 200,
      maxNumSeqs: 8,
      maxNumBatchedTokens: 5000,
      blockSize: BLOCK,
      numGpuBlocks: blocks + 1,
      asyncScheduling: false,
      timing: { kind: "none" },
    });
    this.core = startCore(module, coreSetup(config, { eosId: EOS }));
    this.batch = new Batch(this.core);
  }

  /** With one output token, the request ends in the step that computes its prompt. */
  add({ blocks, tail, skip, owner }: Ask): number {
    return this.batch.add({
      ...PLAIN,
      prompt: blocks.flatMap((content) => contents[content]!),
      promptTokens: blocks.length * BLOCK + tail,
      maxTokens: 1,
      minTokens: 0,
      eosAt: 0,
      stopTokenIds: [],
      seed: 0,
      priority: 0,
      ...OWNERS[owner]!,
      flags: SUBMIT_HASHED | (skip ? SUBMIT_SKIP_READING : 0),
      order: this.#order++,
      arrivalUs: 0,
      queuedUs: 0,
    });
  }
}

const anyAsk: fc.Arbitrary<Ask> = fc
  .record({
    /** Beginnings that many prompts share, and single contents. */
    start: fc.nat(4),
    length: fc.nat(5),
    own: fc.array(fc.integer({ min: 30, max: 59 }), { maxLength: 3 }),
    tail: fc.nat(BLOCK - 1),
    skip: fc.constantFrom(false, false, false, true),
    owner: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: fc.nat(OWNERS.length - 1) }),
  })
  .map(({ start, length, own, tail, skip, owner }) => {
    const blocks = [...Array.from({ length }, (_, i) => start * 6 + i), ...own];
    return { blocks, tail: blocks.length ? tail : Math.max(1, tail), skip, owner };
  });

class Step implements fc.Command<Pool, Real> {
  constructor(readonly asks: readonly Ask[]) {}
  check(): boolean {
    return true;
  }
  /**
   * Plans all prompts in one step, in order, so that a later prompt finds the blocks of an earlier one. Then all requests end.
   */
  run(pool: Pool, real: Real): void {
    const handles = this.asks.map((ask) => real.add(ask));
    expect(handles).not.toContain(NONE);
    const tables: Block[][] = [];
    const hits: number[] = [];
    for (const { blocks, tail, skip, owner } of this.asks) {
      const whose = (content: number) => `${owner}:${content}`;
      const most = Math.floor((blocks.length * BLOCK + tail - 1) / BLOCK);
      const found = skip ? [] : pool.lookUp(blocks.slice(0, most).map(whose));
      const needed = blocks.length + Math.sign(tail) - found.length;
      if (needed + found.filter(({ refs }) => refs === 0).length > pool.free.length) break;
      pool.touch(found);
      const table = [...found, ...pool.take(needed)];
      blocks.forEach((content, i) => {
        if (i >= found.length) pool.enter(table[i]!, whose(content));
      });
      tables.push(table);
      hits.push(found.length * BLOCK);
    }
    real.batch.plan(0);
    const { views } = real.core;
    const admitted = handles.slice(0, tables.length);
    expect(admitted.map((handle) => blockTable(views, handle % SLOTS))).toEqual(
      tables.map((table) => table.map(({ id }) => id)),
    );
    expect(admitted.map((handle) => views.cachedPrompt[handle % SLOTS]! - 1)).toEqual(hits);
    expect(real.batch.take(0)).toBe(tables.length);
    for (const table of tables) pool.release(table);
    for (const handle of handles.slice(tables.length)) real.batch.close(handle, 2, 0, 0);
    real.batch.flush();
    same(pool, real);
  }
  toString(): string {
    return `step ${this.asks.map(({ blocks, tail, skip, owner }) => `${owner}:[${blocks}]+${tail}${skip ? " skips" : ""}`).join(" ")}`;
  }
}

class Reset implements fc.Command<Pool, Real> {
  check(): boolean {
    return true;
  }
  run(pool: Pool, real: Real): void {
    expect(real.batch.resetPrefixCache(false)).toBe(pool.reset());
    same(pool, real);
  }
  toString(): string {
    return "reset";
  }
}

function same(pool: Pool, real: Real): void {
  real.core.exports.verify();
  expect(freeQueue(real.core.views)).toEqual(pool.free.map(({ id }) => id));
}

describe.each(builds)("%s", (_, module) => {
  test("hits, blocks, order of eviction and equal blocks agree with the model", () => {
    const steps = fc.array(anyAsk, { minLength: 1, maxLength: 4 }).map((asks) => new Step(asks));
    const commands = fc.commands([steps, steps, steps, steps, steps, steps, fc.constant(new Reset())], {
      maxCommands: 60,
      size: "max",
    });
    const property = fc.property(fc.integer({ min: 9, max: 60 }), commands, (blocks, list) => {
      const model = new Pool(blocks + 1, BLOCK, true);
      fc.modelRun(() => ({ model, real: new Real(blocks, module) }), list);
    });
    fc.assert(property, { numRuns: times(60) });
  });
});
