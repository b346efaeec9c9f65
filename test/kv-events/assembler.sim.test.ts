/**
 * Tests the events of engines under random load with evictions, preemptions, aborts and resets. Each event keeps the laws of an
 * index, hashes follow from tokens, and the index predicts the prefix cache.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { anyConfig, anyRequest, live } from "../engine/random-requests.ts";
import { configOf, promptOf, trtllm } from "../engine/simulated-engine.ts";
import { times } from "../size.ts";
import { ADAPTERS, EPOCH_US, PublishedEngine } from "./published-engine.ts";

setDefaultTimeout(60_000);

test("an index of the events predicts the hits of every prompt, after any load", () => {
  const configs = anyConfig.map((config) => ({ ...config, enablePrefixCaching: true }));
  let batches = 0;
  fc.assert(
    fc.property(
      configs,
      fc.array(anyRequest, { minLength: 1, maxLength: 25 }),
      fc.nat(3),
      (config, requests, resets) => {
        const engine = new PublishedEngine(config);
        const { world } = engine;
        for (const [at, request] of requests.entries()) {
          world.clock.advanceTo(world.clock.now() + Math.max(request.gapUs, 1));
          live(world, request);
          if (at % 7 < resets) world.engine.between(() => world.engine.resetPrefixCache(at % 2 === 0));
        }
        world.clock.drain(2_000_000);
        for (const { prompt, stream, salt } of requests) {
          // A request makes the engine plan, so that events of a reset at rest are published.
          world.submit({ promptIds: promptOf(1, 9), maxTokens: 1 });
          world.clock.drain(2_000_000);
          const promptIds = promptOf(prompt, stream);
          // The last token is always computed.
          const hits = engine.index.matching(promptIds.subarray(0, -1), salt) * config.blockSize;
          const receiver = world.submit({ promptIds, maxTokens: 1, cacheSalt: salt })!;
          world.clock.drain(2_000_000);
          expect(receiver.submission.cachedTokens).toBe(hits);
        }
        expect([engine.assembler.unmade, engine.dropped]).toEqual([0, 0]);
        batches += engine.batches.length;
      },
    ),
    { numRuns: times(60) },
  );
  expect(batches).toBeGreaterThan(100);
});

test("with TensorRT-LLM's cache, each event keeps the laws of an index", () => {
  const config = configOf({
    trtllm: {
      capacitySchedulerPolicy: "MAX_UTILIZATION",
      contextChunkingPolicy: "FIRST_COME_FIRST_SERVED",
      maxInputLen: 512,
      enablePartialReuse: true,
      copyOnPartialReuse: true,
      enablePrefixAwareScheduling: false,
    },
  });
  let stored = 0;
  fc.assert(
    fc.property(fc.array(anyRequest, { minLength: 1, maxLength: 25 }), (requests) => {
      const engine = new PublishedEngine(config, trtllm.debug);
      for (const request of requests) {
        engine.world.clock.advanceTo(engine.world.clock.now() + request.gapUs);
        live(engine.world, { ...request, salt: "", skip: false });
      }
      engine.world.clock.drain(2_000_000);
      expect([engine.assembler.unmade, engine.dropped]).toEqual([0, 0]);
      stored += engine.batches.length;
    }),
    { numRuns: times(30) },
  );
  expect(stored).toBeGreaterThan(20);
});

/** Submits a request, and runs it to its end. */
function answered(engine: PublishedEngine, changes: Parameters<PublishedEngine["world"]["submit"]>[0]) {
  const receiver = engine.world.submit({ ignoreEos: true, ...changes })!;
  engine.world.clock.drain(2_000_000);
  return receiver;
}

test("a batch has the events of a step, in their order, with the time of its end", () => {
  const engine = new PublishedEngine(configOf({ blockSize: 16, maxLoras: 2 }));
  const { ids } = answered(engine, { promptIds: promptOf(40), maxTokens: 10, adapter: 2, cacheSalt: "zz" });
  const tokens = [...promptOf(40), ...ids];
  const [first, second] = [engine.batches[0]!, engine.batches[1]!];
  expect(first.ts).toBeGreaterThan(EPOCH_US / 1e6);
  expect(second.ts).toBeGreaterThan(first.ts);
  expect(engine.batches.map(({ events }) => events.map((event) => event.type))).toEqual([
    ["BlockStored"],
    ["BlockStored"],
  ]);
  expect(first.events[0]).toMatchObject({
    parentBlockHash: null,
    tokenIds: tokens.slice(0, 32),
    loraId: 2,
    loraName: ADAPTERS[1]!.name,
    extraKeys: [["second", "zz"], ["second"]],
    medium: "GPU",
    groupIdx: 0,
  });
  const stored = first.events[0] as { blockHashes: readonly Uint8Array[] };
  expect(second.events[0]).toMatchObject({ parentBlockHash: stored.blockHashes[1], tokenIds: tokens.slice(32, 48) });
});

test("eviction removes a block at a time, before the blocks that replace it", () => {
  const engine = new PublishedEngine(configOf({ blockSize: 16, numGpuBlocks: 33, maxModelLen: 512 }));
  answered(engine, { promptIds: promptOf(400, 1), maxTokens: 1 });
  answered(engine, { promptIds: promptOf(300, 2), maxTokens: 1 });
  const all = engine.batches.flatMap(({ events }) => events);
  const removed = all.filter((event) => event.type === "BlockRemoved");
  expect(removed.length).toBeGreaterThan(8);
  expect(removed.every(({ blockHashes }) => blockHashes.length === 1)).toBe(true);
  const last = engine.batches.find(({ events }) => events[0]?.type === "BlockRemoved")!;
  expect(last.events.at(-1)!.type).toBe("BlockStored");
});

test("a reset is one event, which the next step publishes", () => {
  const engine = new PublishedEngine(configOf());
  answered(engine, { promptIds: promptOf(40), maxTokens: 1 });
  expect(engine.world.engine.resetPrefixCache(false)).toBe(true);
  expect(engine.batches).toHaveLength(1);
  answered(engine, { promptIds: promptOf(40), maxTokens: 1 });
  expect(engine.batches[1]!.events.map(({ type }) => type)).toEqual(["AllBlocksCleared", "BlockStored"]);
});

test("a full ring drops records and counts their batches, and later requests are published again", () => {
  const engine = new PublishedEngine(configOf({ blockSize: 16 }), undefined, { words: 1024 });
  engine.reads = false;
  for (let stream = 0; stream < 20; stream++) answered(engine, { promptIds: promptOf(100, stream), maxTokens: 4 });
  engine.reads = true;
  engine.read();
  const before = engine.batches.length;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(20);
  // The next record says what was lost.
  const { ids } = answered(engine, { promptIds: promptOf(100, 30), maxTokens: 20 });
  expect(ids).toHaveLength(20);
  expect(before + engine.dropped).toBe(20);
  expect(engine.batches.length).toBeGreaterThan(before);
});

test("a prompt that is too long for the ring has no events, and others have", () => {
  const engine = new PublishedEngine(configOf({ blockSize: 16 }), undefined, { words: 1024 });
  answered(engine, { promptIds: promptOf(400, 1), maxTokens: 1 });
  expect(engine.batches).toHaveLength(0);
  expect(engine.assembler.unmade).toBeGreaterThan(0);
  answered(engine, { promptIds: promptOf(100, 2), maxTokens: 1 });
  expect(engine.batches).toHaveLength(1);
});

test("at most batchesMost batches wait, and the events of others are dropped although their blocks are known", () => {
  const engine = new PublishedEngine(configOf({ blockSize: 16 }), undefined, { batchesMost: 3 });
  engine.reads = false;
  for (let stream = 0; stream < 5; stream++) answered(engine, { promptIds: promptOf(33, stream), maxTokens: 1 });
  engine.reads = true;
  engine.read();
  expect([engine.batches.length, engine.dropped, engine.assembler.unmade]).toEqual([3, 2, 0]);
});

test("the blocks that the assembler knows have a limit, if removals are lost", () => {
  const { assembler } = new PublishedEngine(configOf({ numGpuBlocks: 10, blockSize: 1, maxModelLen: 8 }));
  assembler.request(
    0,
    0,
    Int32Array.from({ length: 100 }, (_, at) => at),
    { salt: "", lora: null },
  );
  for (let at = 0; at < 100; at++) assembler.stored(0, at, BigInt(at), Uint32Array.of(at + 1, 0));
  for (let at = 0; at < 100; at++) assembler.removed(BigInt(at + 1));
  expect(assembler.unmade).toBe(80);
});
