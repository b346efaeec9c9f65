/** Runs TensorRT-LLM's policies under the engine: random histories on the debug core, all ways to plan, pauses and reuse. */
import { expect, setDefaultTimeout, spyOn, test } from "bun:test";
import fc from "fast-check";
import { Total, Word } from "../../../assembly/layout.ts";
import { Batch } from "../../../src/engine/batch.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { CAPACITY_POLICIES, CHUNKING_POLICIES } from "../../../src/engine/config/trtllm.ts";
import { Finish } from "../../../src/engine/interface/types.ts";
import type { Core } from "../../../src/engine/wasm/core.ts";
import { Replay } from "../../../src/tools/replay/replay.ts";
import { anyConfig, anyRequest, run } from "../../engine/random-requests.ts";
import {
  answerOf,
  configOf,
  promptOf,
  type RecordingReceiver,
  trtllm,
  World,
  watchPlans,
} from "../../engine/simulated-engine.ts";
import { parts } from "../../golden/trtllm/bench.ts";
import { SimulatedPage } from "../../metrics/triton/simulated-page.ts";
import { times } from "../../size.ts";

setDefaultTimeout(120_000);

const anyTrtllm: fc.Arbitrary<EngineConfig> = fc
  .record({
    config: anyConfig,
    capacitySchedulerPolicy: fc.constantFrom(...CAPACITY_POLICIES),
    contextChunkingPolicy: fc.constantFrom(...CHUNKING_POLICIES),
    enablePartialReuse: fc.boolean(),
    copyOnPartialReuse: fc.boolean(),
    enablePrefixAwareScheduling: fc.boolean(),
    cut: fc.constantFrom(0, 0, 60),
    chunked: fc.boolean(),
  })
  .map(({ config, cut, chunked, ...policy }) => {
    // Without chunks, an iteration must hold a whole prompt; with chunks, a block.
    const least = chunked ? config.blockSize : config.maxModelLen;
    const maxNumBatchedTokens = Math.max(config.maxNumBatchedTokens, least);
    return {
      ...config,
      maxNumBatchedTokens,
      enableChunkedPrefill: chunked,
      trtllm: { ...policy, maxInputLen: cut === 0 ? config.maxModelLen : cut + 150 },
    };
  });

function expectAnswer(receiver: RecordingReceiver, { maxModelLen }: EngineConfig): void {
  const { ids, finish } = answerOf(receiver.generation, maxModelLen);
  expect(receiver.callsAfterEnd).toBe(0);
  if (receiver.ended) {
    expect(receiver.ids).toEqual(ids.slice(0, receiver.ids.length));
    return;
  }
  expect([receiver.finish, receiver.ids]).toEqual([finish, ids]);
}

test("random histories: every request gets its own answer once, despite pauses, and nothing is left behind", () => {
  let pauses = 0;
  fc.assert(
    fc.property(anyTrtllm, fc.array(anyRequest, { minLength: 1, maxLength: 25 }), (config, requests) => {
      let core: Core | null = null;
      const stop = watchPlans(({ core: planned, rows, tokens }) => {
        core = planned;
        expect(rows).toBeLessThanOrEqual(config.maxNumSeqs);
        // Cached prompts count nothing, so a forward pass can exceed its limit. Trimming cannot always prevent this.
        if (!config.enablePrefixCaching) expect(tokens).toBeLessThanOrEqual(config.maxNumBatchedTokens);
      });
      const world = new World(config, { module: trtllm.debug });
      try {
        run(world, requests);
      } finally {
        stop();
      }
      for (const receiver of world.receivers) expectAnswer(receiver, config);
      expect(world.engine.live).toBe(0);
      if (core === null) return;
      const { views } = core as Core;
      expect([Word.Running, Word.Waiting, Word.SlotsUsed, Word.PagesReserved].map((at) => views.word(at))).toEqual([
        0, 0, 0, 0,
      ]);
      expect(views.word(Word.BlocksFree)).toBe(config.numGpuBlocks - 1);
      pauses += (core as Core).total(Total.Preemptions);
    }),
    { numRuns: times(400), seed: 3 },
  );
  expect(pauses).toBeGreaterThan(20);
});

/** Plans with the single calls of an iteration, which have no fast path for pure decode iterations. */
function inParts(run: () => string): string {
  const spy = spyOn(Batch.prototype, "plan").mockImplementation(function (this: Batch, nowUs: number) {
    const calls = parts(this.core);
    calls.fetch();
    calls.capacity();
    calls.microBatch();
    const durationUs = calls.execute(nowUs);
    this.lastPlan.planned(durationUs);
    return durationUs;
  });
  try {
    return run();
  } finally {
    spy.mockRestore();
  }
}

test("the fast path for pure decode iterations makes the same plans as the full path, in both builds", () => {
  fc.assert(
    fc.property(anyTrtllm, fc.array(anyRequest, { minLength: 1, maxLength: 12 }), (config, requests) => {
      const digest = (module: WebAssembly.Module) => {
        const world = new World(config, { module });
        run(world, requests);
        return `${world.digest()}${JSON.stringify(world.engine.snapshot("now"))}`;
      };
      const short = digest(trtllm.release);
      expect(inParts(() => digest(trtllm.release))).toBe(short);
      expect(digest(trtllm.debug).replace(/"coreMemoryBytes":\d+/, "")).toBe(
        short.replace(/"coreMemoryBytes":\d+/, ""),
      );
    }),
    { numRuns: times(60), seed: 11 },
  );
});

/** The pool holds three of the growing answers. */
const tight = (policy: (typeof CAPACITY_POLICIES)[number], changes: Partial<EngineConfig> = {}) =>
  configOf({
    blockSize: 16,
    numGpuBlocks: 15,
    maxModelLen: 128,
    ...changes,
    trtllm: {
      capacitySchedulerPolicy: policy,
      contextChunkingPolicy: "FIRST_COME_FIRST_SERVED",
      maxInputLen: 128,
      enablePartialReuse: true,
      copyOnPartialReuse: true,
      enablePrefixAwareScheduling: true,
    },
  });

function burst(config: EngineConfig): World {
  const world = new World(config, { module: trtllm.debug });
  for (let i = 0; i < 8; i++)
    world.submit({ promptIds: promptOf(20 + 3 * i, i), maxTokens: 50, ignoreEos: true, seed: i });
  world.clock.drain(10_000);
  return world;
}

test("MAX_UTILIZATION pauses and resumes, other policies never pause, and clients get the same tokens later", () => {
  for (const asyncScheduling of [false, true]) {
    const pauses = CAPACITY_POLICIES.map((policy) => {
      const world = burst(tight(policy, { asyncScheduling }));
      for (const receiver of world.receivers) expectAnswer(receiver, world.config);
      return world.engine.snapshot("now").preemptions;
    });
    expect(pauses.map((count) => count > 0)).toEqual([false, true, false, false]);
  }
});

test("with block reuse, a resumed request finds all its blocks, including the last", () => {
  const cached = [true, false].map((enablePrefixCaching) => {
    const world = burst(tight("MAX_UTILIZATION", { enablePrefixCaching }));
    const { preemptedQueries, preemptedHits } = world.engine.snapshot("now");
    return preemptedHits / Math.max(1, preemptedQueries);
  });
  expect(cached[0]).toBeGreaterThan(0.3);
  expect(cached[1]).toBe(0);
});

test("tokens that a pause cut off the prompt are generated again and not sent twice", () => {
  const { trtllm: policy, ...config } = tight("MAX_UTILIZATION", { numGpuBlocks: 10 });
  const world = burst({ ...config, trtllm: { ...policy!, maxInputLen: 45 } });
  for (const receiver of world.receivers) expectAnswer(receiver, world.config);
  expect(world.receivers.every(({ finish }) => finish === Finish.Length)).toBe(true);
});

test("a replay gives the same results with and without an observer of each iteration", () => {
  for (const policy of CAPACITY_POLICIES) {
    const outcome = (seen: boolean) => {
      const requests = Array.from({ length: 60 }, (_, i) => ({
        ...{ line: i + 1, arrivalUs: i * 900, promptTokens: 10 + ((i * 37) % 60), outputTokens: 5 + ((i * 13) % 50) },
        blockIds: [i % 3],
      }));
      const replay = new Replay({
        config: tight(policy),
        module: trtllm.release,
        engines: 1,
        requests: requests[Symbol.iterator](),
        pace: { kind: "open" },
        untilUs: 10_000_000,
        ...(seen ? { beforeUpdate: () => {} } : {}),
      });
      const endUs = replay.run();
      return [endUs, replay.counts, replay.fleet.engines[0]!.snapshot("now")];
    };
    expect(outcome(true)).toEqual(outcome(false));
  }
});

test("a request is refused without a trace if other requests have reserved the pages for token ids", () => {
  const world = new World(tight("GUARANTEED_NO_EVICT", { maxModelLen: 2 ** 27, numGpuBlocks: 2 ** 10 }), {
    module: trtllm.debug,
  });
  // Half of the pages for token ids are reserved for the first request.
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).not.toBeNull();
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).toBeNull();
  expect(world.refused).toBe(1);
  world.receivers[0]!.cancel();
  world.clock.drain(100);
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).not.toBeNull();
});

test("a pool with too many token ids for the core is refused; without partial reuse no ids are kept", () => {
  const large = { blockSize: 512, numGpuBlocks: 2 ** 19 };
  expect(() => new World(tight("MAX_UTILIZATION", large), { module: trtllm.release })).toThrow(
    "with partial reuse the core holds KV blocks of at most 268369920 tokens, not 268435456",
  );
  expect(
    () => new World(tight("MAX_REQUESTS", { ...large, enablePrefixCaching: false }), { module: trtllm.release }),
  ).not.toThrow();
});

test("the inflight batcher's metrics show this scheduler's state", async () => {
  // An iteration takes a fifth of the interval at which the metrics change.
  const timing = { kind: "linear", baseUs: 20_000, prefillUs: 10, decodeUs: 20 } as const;
  const house = new SimulatedPage(tight("MAX_UTILIZATION", { enablePrefixCaching: true, timing }));
  for (let i = 0; i < 12; i++) {
    house.submit({ promptIds: promptOf(20 + 3 * i, i % 5), maxTokens: 50, ignoreEos: true, seed: i });
  }
  const seen = { paused: 0, waiting: 0, context: 0, reused: 0 };
  house.advance(50_000);
  for (let turn = 0; turn < 80; turn++) {
    house.advance(100_000);
    const value = await house.values();
    const [request, block] = [
      (type: string) => value(`request_metrics{tensorrt_llm,${type}}`),
      (type: string) => value(`kv_cache_block_metrics{${type},tensorrt_llm}`),
    ];
    const batch = (type: string) => value(`inflight_batcher_metrics{${type},tensorrt_llm}`);
    expect(request("active")).toBeLessThanOrEqual(request("max"));
    expect(request("waiting")).toBe(request("active") - request("scheduled"));
    expect(request("context") + batch("generation_requests")).toBe(request("scheduled"));
    expect([block("used") + block("free"), block("tokens_per"), batch("micro_batch_id")]).toEqual([
      block("max"),
      16,
      0,
    ]);
    expect(block("fraction")).toBeCloseTo(block("used") / block("max"), 5);
    seen.paused = Math.max(seen.paused, batch("paused_requests"));
    seen.waiting = Math.max(seen.waiting, request("waiting"));
    seen.context = Math.max(seen.context, request("context"));
    expect(block("reused")).toBeGreaterThanOrEqual(seen.reused);
    seen.reused = block("reused");
  }
  expect(seen.waiting).toBeGreaterThan(0);
  expect(seen.context).toBeGreaterThan(0);
  expect(seen.reused).toBeGreaterThan(0);
  // The metrics change every 100 ms, so the pauses in between only show in the engine's own counters.
  expect(house.engine.snapshot("now").preemptions).toBeGreaterThan(0);
  expect(house.engine.live).toBe(0);
});

test("with STATIC_BATCH, the static batch family replaces the in-flight family", async () => {
  const timing = { kind: "linear", baseUs: 200_000, prefillUs: 10, decodeUs: 20 } as const;
  const config = tight("STATIC_BATCH", { timing, asyncScheduling: false });
  const house = new SimulatedPage(config);
  for (let i = 0; i < 16; i++)
    house.submit({ promptIds: promptOf(20 + 3 * i, i), maxTokens: 6, ignoreEos: true, seed: i });
  const seen = { context: 0, generation: 0 };
  for (let turn = 0; turn < 100; turn++) {
    house.advance(100_000);
    const value = await house.values();
    const rowOf = (type: string) => value(`v1_metrics{tensorrt_llm,${type}}`);
    seen.context = Math.max(seen.context, rowOf("total_context_tokens"));
    seen.generation = Math.max(seen.generation, rowOf("total_generation_tokens"));
    const begun = value("general_metrics{iteration_counter,tensorrt_llm}") > 0;
    if (begun) expect(rowOf("empty_generation_slots") + rowOf("total_generation_tokens")).toBe(config.maxNumSeqs);
    expect(() => value("inflight_batcher_metrics{generation_requests,tensorrt_llm}")).toThrow();
  }
  expect(seen.context).toBeGreaterThan(20);
  expect(seen.generation).toBeGreaterThan(1);
});
