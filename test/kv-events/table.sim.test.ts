/**
 * Compares the core's table of blocks with indexes of the events after every step of simulated load: evictions, preemptions,
 * aborts and resets. The indexes are a plain model and, with `npx bun run test kv-events`, Dynamo's.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../../src/base/random.ts";
import type { Core } from "../../src/engine/wasm/core.ts";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";
import { low64 } from "../../src/kv-events/block-hashes.ts";
import { KvEventsEncoder } from "../../src/kv-events/encode.ts";
import { anyRequest, live, type RandomRequest } from "../engine/random-requests.ts";
import { configOf, promptOf, type RecordingReceiver, watchPlans } from "../engine/simulated-engine.ts";
import { figure, leavesOut, seed, sized } from "../size.ts";
import { coreHashes, coreTable, leadingIn } from "./core-table.ts";
import { builtIndex, DynamoIndex, SALT_PREFIX } from "./dynamo/dynamo-index.ts";
import { PublishedEngine } from "./published-engine.ts";

setDefaultTimeout(3_600_000);

const SIMULATED_S = sized("kv-events", { sample: 10, whole: 3600 });
const BLOCK = 16;
/** Times the drawn gaps. With this load, some requests wait and the queue stays short. */
const GAPS = 16;
const RECENT = 16;
const PROMPTS_PER_STEP = 2;

const program = sized("kv-events", { sample: false, whole: true }) && !leavesOut("cargo") ? builtIndex() : null;
const dynamo = program === null ? null : new DynamoIndex(program, BLOCK);
afterAll(() => dynamo?.stop());

/** Returns the batch with hashes as the publisher shows them by default: their low 64 bits. */
function shown(batch: KvEventBatch): KvEventBatch {
  const low = (hash: unknown) => low64(hash as Buffer);
  const event = (event: KvCacheEvent): KvCacheEvent => {
    if (event.type === "AllBlocksCleared") return event;
    const blockHashes = event.blockHashes.map(low);
    if (event.type === "BlockRemoved") return { ...event, blockHashes };
    return {
      ...event,
      blockHashes,
      parentBlockHash: event.parentBlockHash === null ? null : low(event.parentBlockHash),
    };
  };
  return { ...batch, events: batch.events.map(event) };
}

const ascending = (counts: ReadonlyMap<unknown, number>) => [...counts.values()].sort((a, b) => a - b);

test(`indexes equal the core's table after every step of ${SIMULATED_S} simulated seconds`, async () => {
  const config = configOf({
    ...{ blockSize: BLOCK, numGpuBlocks: 40, maxModelLen: 512, maxNumSeqs: 8, asyncScheduling: false },
    timing: { kind: "constant", ttftUs: 9000, itlUs: 3000 },
  });
  let steps = 0;
  let core: Core;
  let table: ReadonlyMap<bigint, number> = new Map();
  const stopWatching = watchPlans((plan) => {
    core = plan.core;
  });
  const engine = new PublishedEngine(config);
  const { world, index } = engine;
  const encoder = new KvEventsEncoder("0.33.0");
  const random = seeded(seed);
  const recent: { readonly request: RandomRequest; readonly receiver: RecordingReceiver }[] = [];
  // The next plan changes the table, and its events come with the next step.
  engine.onUpdate = () => {
    table = coreTable(core.views, config.numGpuBlocks);
  };
  const kinds = { BlockStored: 0, BlockRemoved: 0, AllBlocksCleared: 0 };
  engine.onStep = () => {
    steps++;
    const batches = engine.batches.splice(0);
    for (const { events } of batches) for (const { type } of events) kinds[type]++;
    const [indexed, inCore] = [ascending(index.counts), ascending(table)];
    if (!Bun.deepEquals(indexed, inCore)) expect(indexed).toEqual(inCore);
    if (batches.length === 0) return;
    const prompts = Array.from({ length: recent.length > 0 ? PROMPTS_PER_STEP : 0 }, () => {
      const { request, receiver } = recent[random() % recent.length]!;
      const tokens = Uint32Array.of(...promptOf(request.prompt, request.stream), ...receiver.ids);
      const matching = leadingIn(table, coreHashes(tokens, request.salt, BLOCK));
      return [{ salt: request.salt, tokens }, matching] as const;
    });
    for (const [{ salt, tokens }, matching] of prompts) expect(index.matching(tokens, salt)).toBe(matching);
    if (dynamo === null) return;
    const stored = [...index.counts.keys()].map((hash) => Number.parseInt(hash.slice(-8), 16));
    const [batch, ...others] = batches;
    expect(others).toEqual([]);
    dynamo.add(encoder.encode(shown(batch!)), stored, prompts);
  };
  let drawn = 0;
  let aborts = 0;
  const requests = fc.sample(anyRequest, { numRuns: 2000, seed });
  while (world.clock.now() < SIMULATED_S * 1e6) {
    const plain = requests[drawn++ % requests.length]!;
    const request = { ...plain, stream: (plain.stream + drawn) % 50, salt: plain.salt && SALT_PREFIX + plain.salt };
    world.clock.advanceTo(world.clock.now() + GAPS * request.gapUs + 1);
    const receiver = live(world, request);
    if (request.leaving.kind !== "never" && receiver !== null) aborts++;
    if (receiver !== null) recent.push({ request, receiver });
    if (recent.length > RECENT) recent.shift();
    // Receivers keep all tokens.
    if (drawn % 1000 === 0) world.receivers.length = 0;
    if (drawn % 61 === 0) world.engine.between(() => world.engine.resetPrefixCache(drawn % 2 === 0));
    if (drawn % 500 === 0) expect((await dynamo?.compare()) ?? null).toBeNull();
  }
  world.clock.drain(2_000_000);
  expect((await dynamo?.compare()) ?? null).toBeNull();
  stopWatching();
  const { preemptions } = world.engine.snapshot();
  for (const count of [...Object.values(kinds), preemptions, aborts]) expect(count).toBeGreaterThan(SIMULATED_S / 10);
  expect(steps).toBeGreaterThan(SIMULATED_S * 10);
  figure("tableSteps", steps);
  figure("tableEvents", { ...kinds, preemptions, aborts });
  if (dynamo !== null) figure("Dynamo's index", { batches: dynamo.batches, promptsByMatchingBlocks: dynamo.matches });
});
