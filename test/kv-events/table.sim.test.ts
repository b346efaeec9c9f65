/**
 * Compares an index of the events with the core's table of blocks after every step of simulated load: evictions, preemptions,
 * aborts and resets.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { BLOCK_BYTES, BlockField, Word } from "../../assembly/layout.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { Core } from "../../src/engine/wasm/core.ts";
import { anyRequest, live } from "../engine/random-requests.ts";
import { configOf, watchPlans } from "../engine/simulated-engine.ts";
import { figure, seed, sized } from "../size.ts";
import { PublishedEngine } from "./published-engine.ts";

setDefaultTimeout(3_600_000);

const SIMULATED_S = sized("kv-events", { sample: 10, whole: 3600 });

/** Returns how many blocks have each content, in ascending order. Hashes of the core and of events differ. */
function tableOf({ views }: Core, { numGpuBlocks }: EngineConfig): number[] {
  const counts = new Map<bigint, number>();
  const hashes = new BigUint64Array(views.i32.buffer);
  const rowsAt = views.word(Word.BlocksAt) >>> 0;
  const ringAt = views.word(Word.FreeQueueAt) >>> 0;
  const mask = views.word(Word.FreeQueueMask);
  // The hashes of the free queue lie after its blocks, behind a header of 32 bytes.
  const ringHashesAt = ringAt + (mask + 1) * 4 + 32;
  const add = (hash: bigint) => counts.set(hash, (counts.get(hash) ?? 0) + 1);
  const hashOf = (block: number) => hashes[(rowsAt + block * BLOCK_BYTES) / 8]!;
  for (let block = 1; block < numGpuBlocks; block++)
    if (views.i32[(rowsAt + block * BLOCK_BYTES) / 4 + BlockField.Refs]! > 0) add(hashOf(block));
  for (let at = views.word(Word.FreeQueueHead); at !== views.word(Word.FreeQueueTail); at++) {
    const block = views.i32[ringAt / 4 + (at & mask)]!;
    const hash = hashes[ringHashesAt / 8 + (at & mask)]!;
    if (block === 0 || hash === 0n) continue;
    if (hash !== hashOf(block)) throw new Error("the hashes of the free queue lie elsewhere");
    add(hash);
  }
  return [...counts.values()].sort((a, b) => a - b);
}

test(`an index equals the core's table after every step of ${SIMULATED_S} simulated seconds`, () => {
  const config = configOf({
    ...{ blockSize: 16, numGpuBlocks: 40, maxModelLen: 512, maxNumSeqs: 8, asyncScheduling: false },
    timing: { kind: "constant", ttftUs: 9000, itlUs: 3000 },
  });
  let steps = 0;
  let core: Core;
  let table: readonly number[] = [];
  const stopWatching = watchPlans((plan) => {
    core = plan.core;
  });
  const engine = new PublishedEngine(config);
  const { world } = engine;
  // The next plan changes the table, and its events come with the next step.
  engine.onUpdate = () => {
    table = tableOf(core, config);
  };
  const kinds = { BlockStored: 0, BlockRemoved: 0, AllBlocksCleared: 0 };
  engine.onStep = () => {
    steps++;
    for (const { events } of engine.batches.splice(0)) for (const { type } of events) kinds[type]++;
    const indexed = [...engine.index.counts.values()].sort((a, b) => a - b);
    if (!Bun.deepEquals(indexed, table)) expect(indexed).toEqual([...table]);
  };
  let drawn = 0;
  let aborts = 0;
  const requests = fc.sample(anyRequest, { numRuns: 2000, seed });
  while (world.clock.now() < SIMULATED_S * 1e6) {
    const request = requests[drawn++ % requests.length]!;
    world.clock.advanceTo(world.clock.now() + 5 * request.gapUs + 1);
    const receiver = live(world, { ...request, stream: (request.stream + drawn) % 50 });
    if (request.leaving.kind !== "never" && receiver !== null) aborts++;
    // Receivers keep all tokens.
    if (drawn % 1000 === 0) world.receivers.length = 0;
    if (drawn % 97 === 0) world.engine.between(() => world.engine.resetPrefixCache(drawn % 2 === 0));
  }
  world.clock.drain(2_000_000);
  stopWatching();
  const { preemptions } = world.engine.snapshot();
  for (const count of [...Object.values(kinds), preemptions, aborts]) expect(count).toBeGreaterThan(SIMULATED_S / 10);
  expect(steps).toBeGreaterThan(SIMULATED_S * 10);
  figure("tableSteps", steps);
  figure("tableEvents", { ...kinds, preemptions, aborts });
});
