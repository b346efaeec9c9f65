/**
 * Checks properties at every step of random histories: random requests, configurations and front ends on the debug core,
 * which checks its invariants itself. These tests check again from outside, through the core's memory.
 *
 * | Property | Where |
 * |---|---|
 * | tokens scheduled <= budget, rows <= max_num_seqs | below |
 * | blocks used + free = all, at every step | below |
 * | reference counts equal the block tables | below; `assembly/verify.ts` after every call of the debug core |
 * | a shared block has one content: hits are a contiguous beginning | below; `test/assembly/prefix.model.test.ts`, `lru.model.test.ts` |
 * | hits <= queries | below |
 * | with finite work the engine drains | below |
 * | with prefix caching on or off the answers are equal | below |
 * | every admitted request ends exactly once, with its own answer | `conservation.sim.test.ts` |
 * | submitted = finished + aborted + refused + live | `known-bugs.sim.test.ts` (BLIS #183), `conservation.sim.test.ts` |
 * | the truth log is the same at any speed | `test/truth/log.sim.test.ts` |
 */

import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { BLOCK_BYTES, BlockField, Field, NONE, SLOT_BITS, SLOTS, Status, Total, Word } from "../../assembly/layout.ts";
import type { LiveRequest } from "../../src/engine/live.ts";
import type { Core } from "../../src/engine/wasm/core.ts";
import { blockTable, freeQueue } from "../assembly/core-lists.ts";
import { times } from "../size.ts";
import { anyConfig, anyRequest, run } from "./random-requests.ts";
import { type RecordingReceiver, World, watchPlans } from "./simulated-engine.ts";

setDefaultTimeout(120_000);

/** Steps of the default run. FC_RUNS=10 runs ten times as many. */
const STEPS_LEAST = 10_000;

/** Returns every request in the core, by slot. */
function inside(world: World, { views }: Core): Map<number, RecordingReceiver> {
  const found = new Map<number, RecordingReceiver>();
  for (const receiver of world.receivers) {
    const { handle } = receiver.submission as LiveRequest;
    const slot = handle % SLOTS;
    if (handle === NONE || views.field(Field.Status, slot) === Status.Free) continue;
    if (((views.field(Field.Generation, slot) << SLOT_BITS) | slot) === handle) found.set(slot, receiver);
  }
  return found;
}

/** Checks that block tables, reference counts and free queue agree. */
function checkBlocks(world: World, core: Core): void {
  const { views } = core;
  const { numGpuBlocks, blockSize } = world.config;
  const refsOf = (block: number) =>
    views.i32[((views.word(Word.BlocksAt) >>> 0) >> 2) + block * (BLOCK_BYTES >> 2) + BlockField.Refs]!;
  const holders = new Map<number, { readonly receiver: RecordingReceiver; readonly at: number }[]>();
  /** Blocks with content. Other blocks have no reference count and at most one holder. */
  const cached = new Set<number>();
  for (const [slot, receiver] of inside(world, core)) {
    for (const [at, block] of blockTable(views, slot).entries()) {
      const held = holders.get(block) ?? [];
      held.push({ receiver, at });
      if (at < views.field(Field.CachedCount, slot)) cached.add(block);
      holders.set(block, held);
    }
  }
  expect(holders.has(0)).toBe(false); // vLLM's null block
  for (let block = 1; block < numGpuBlocks; block++) {
    const held = holders.get(block)?.length ?? 0;
    if (cached.has(block) ? refsOf(block) !== held : held > 1) expect([block, refsOf(block)]).toEqual([block, held]);
  }
  const free = freeQueue(views);
  expect(free.filter((block) => holders.has(block))).toEqual([]);
  expect([holders.size + free.length, views.word(Word.BlocksFree)]).toEqual([numGpuBlocks - 1, free.length]);
  for (const [first, ...others] of holders.values()) {
    for (const { receiver, at } of others) {
      const until = (at + 1) * blockSize;
      const [a, b] = [first!.receiver, receiver].map(({ generation: { promptIds, cacheSalt } }) => [
        cacheSalt,
        ...promptIds.subarray(0, until),
      ]);
      expect(at).toBe(first!.at);
      // After the prompt comes an answer, and two answers are only equal with the same seed.
      if (until <= Math.min(first!.receiver.generation.promptIds.length, receiver.generation.promptIds.length))
        expect(b).toEqual(a!);
    }
  }
}

test(`over ${STEPS_LEAST} random steps everything adds up at each of them`, () => {
  let [steps, shared, preempted, runs] = [0, 0, 0, 0];
  const requests = fc.array(anyRequest, { minLength: 5, maxLength: 40, size: "max" });
  const property = fc.property(anyConfig, requests, (config, list) => {
    const world = new World(config);
    let seen: Core | undefined;
    const done = watchPlans(({ core, rows, tokens }) => {
      seen = core;
      steps++;
      expect(tokens).toBeLessThanOrEqual(config.maxNumScheduledTokens);
      expect(rows).toBeLessThanOrEqual(config.maxNumSeqs);
      expect(core.total(Total.PrefixHits)).toBeLessThanOrEqual(core.total(Total.PrefixQueries));
      expect(core.total(Total.PrefixHits) % config.blockSize).toBe(0);
      expect(core.total(Total.PreemptedHits)).toBeLessThanOrEqual(core.total(Total.PreemptedQueries));
      checkBlocks(world, core);
    });
    try {
      run(world, list);
    } finally {
      done();
    }
    expect(world.engine.live).toBe(0);
    expect(inside(world, seen!).size).toBe(0);
    shared += seen!.total(Total.PrefixHits);
    preempted += seen!.total(Total.Preemptions);
    runs++;
  });
  fc.assert(property, { numRuns: times(100) });
  expect(runs).toBeGreaterThanOrEqual(times(100));
  expect(steps).toBeGreaterThan(STEPS_LEAST * (runs / 100));
  // The histories do share and preempt.
  expect(Math.min(shared, preempted)).toBeGreaterThan(100);
});

test("answers are equal with and without prefix caching", () => {
  let hits = 0;
  const requests = fc.array(anyRequest, { minLength: 5, maxLength: 30, size: "max" });
  const property = fc.property(anyConfig, requests, (config, list) => {
    // A client that disconnects after a time gets more or fewer tokens, but no others.
    const [on, off] = [true, false].map((enablePrefixCaching) => {
      const world = new World({ ...config, enablePrefixCaching });
      run(world, list);
      hits += world.engine.snapshot().prefixHits;
      return world.receivers;
    });
    for (const [i, receiver] of on!.entries()) {
      const other = off![i]!;
      if (list[i]!.leaving.kind === "after") {
        const least = Math.min(receiver.ids.length, other.ids.length);
        expect(receiver.ids.slice(0, least)).toEqual(other.ids.slice(0, least));
      } else expect([receiver.ids, receiver.finish, receiver.ended]).toEqual([other.ids, other.finish, other.ended]);
    }
  });
  fc.assert(property, { numRuns: times(60) });
  expect(hits).toBeGreaterThan(1000);
});
