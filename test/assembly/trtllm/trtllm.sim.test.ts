/** TensorRT-LLM's policies under the engine: any history on the core that checks itself, all ways of planning, pauses and reuse. */
import { expect, setDefaultTimeout, spyOn, test } from "bun:test";
import fc from "fast-check";
import { Total, Word } from "../../../assembly/layout.ts";
import { Batch } from "../../../src/engine/batch.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { CAPACITY_POLICIES, CHUNKING_POLICIES } from "../../../src/engine/config/trtllm.ts";
import { Finish } from "../../../src/engine/interface/types.ts";
import type { Core } from "../../../src/engine/wasm/core.ts";
import { Replay } from "../../../src/tools/replay/replay.ts";
import { anyConfig, anyLife, run } from "../../engine/random-requests.ts";
import { answerOf, configOf, type Heard, promptOf, trtllm, World, watchPlans } from "../../engine/simulated-engine.ts";
import { parts } from "../../golden/trtllm/bench.ts";
import { House } from "../../metrics/triton/simulated-page.ts";
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
    // A whole prompt has to fit into one iteration, with chunks a block.
    const least = chunked ? config.blockSize : config.maxModelLen;
    const maxNumBatchedTokens = Math.max(config.maxNumBatchedTokens, least);
    return {
      ...config,
      maxNumBatchedTokens,
      enableChunkedPrefill: chunked,
      trtllm: { ...policy, maxInputLen: cut === 0 ? config.maxModelLen : cut + 150 },
    };
  });

function expectAnswer(heard: Heard, { maxModelLen }: EngineConfig): void {
  const { ids, finish } = answerOf(heard.generation, maxModelLen);
  expect(heard.callsAfterEnd).toBe(0);
  if (heard.ended) {
    expect(heard.ids).toEqual(ids.slice(0, heard.ids.length));
    return;
  }
  expect([heard.finish, heard.ids]).toEqual([finish, ids]);
}

test("any history: every request gets its own answer once, whatever is paused; nothing is left behind", () => {
  let pauses = 0;
  fc.assert(
    fc.property(anyTrtllm, fc.array(anyLife, { minLength: 1, maxLength: 25 }), (config, lives) => {
      let core: Core | null = null;
      const stop = watchPlans(({ core: planned, rows, tokens }) => {
        core = planned;
        expect(rows).toBeLessThanOrEqual(config.maxNumSeqs);
        // Cached prompts that are charged nothing can make a pass longer than its limit; trimming does what it can.
        if (!config.enablePrefixCaching) expect(tokens).toBeLessThanOrEqual(config.maxNumBatchedTokens);
      });
      const world = new World(config, { module: trtllm.debug });
      try {
        run(world, lives);
      } finally {
        stop();
      }
      for (const heard of world.heard) expectAnswer(heard, config);
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

/** Plans by the parts of an iteration, which have no short way for those that decode alone. */
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

test("plans that decode alone are made the short way: the same as the long one makes, in both builds", () => {
  fc.assert(
    fc.property(anyTrtllm, fc.array(anyLife, { minLength: 1, maxLength: 12 }), (config, lives) => {
      const digest = (module: WebAssembly.Module) => {
        const world = new World(config, { module });
        run(world, lives);
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

/** Growing answers in a pool that holds three of them. */
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

test("MAX_UTILIZATION pauses and goes on, the others never pause; clients hear the same, later", () => {
  for (const asyncScheduling of [false, true]) {
    const pauses = CAPACITY_POLICIES.map((policy) => {
      const world = burst(tight(policy, { asyncScheduling }));
      for (const heard of world.heard) expectAnswer(heard, world.config);
      return world.engine.snapshot("now").preemptions;
    });
    expect(pauses.map((count) => count > 0)).toEqual([false, true, false, false]);
  }
});

test("a paused request finds its blocks again where they are reused, its last one too", () => {
  const cached = [true, false].map((enablePrefixCaching) => {
    const world = burst(tight("MAX_UTILIZATION", { enablePrefixCaching }));
    const { preemptedQueries, preemptedHits } = world.engine.snapshot("now");
    return preemptedHits / Math.max(1, preemptedQueries);
  });
  expect(cached[0]).toBeGreaterThan(0.3);
  expect(cached[1]).toBe(0);
});

test("a pause that cuts the prompt makes tokens a second time and tells nobody", () => {
  const { trtllm: policy, ...config } = tight("MAX_UTILIZATION", { numGpuBlocks: 10 });
  const world = burst({ ...config, trtllm: { ...policy!, maxInputLen: 45 } });
  for (const heard of world.heard) expectAnswer(heard, world.config);
  expect(world.heard.every(({ finish }) => finish === Finish.Length)).toBe(true);
});

test("a replay is the same whether each iteration is looked at or not", () => {
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

test("a request whose ids would not fit beside those promised to others is refused and leaves nothing", () => {
  const world = new World(tight("GUARANTEED_NO_EVICT", { maxModelLen: 2 ** 27, numGpuBlocks: 2 ** 10 }), {
    module: trtllm.debug,
  });
  // Ids of half of all that may be kept are promised to the first one.
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).not.toBeNull();
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).toBeNull();
  expect(world.refused).toBe(1);
  world.heard[0]!.cancel();
  world.clock.drain(100);
  expect(world.submit({ maxTokens: 2 ** 26 - 256 })).not.toBeNull();
});

test("a pool whose token ids the core cannot hold is refused; without partial reuse it holds none", () => {
  const large = { blockSize: 512, numGpuBlocks: 2 ** 19 };
  expect(() => new World(tight("MAX_UTILIZATION", large), { module: trtllm.release })).toThrow(
    "with partial reuse the core holds KV blocks of at most 268369920 tokens, not 268435456",
  );
  expect(
    () => new World(tight("MAX_REQUESTS", { ...large, enablePrefixCaching: false }), { module: trtllm.release }),
  ).not.toThrow();
});

test("the inflight batcher's families are this scheduler's state", async () => {
  // Iterations as long as a fifth of the interval in which the families change.
  const timing = { kind: "linear", baseUs: 20_000, prefillUs: 10, decodeUs: 20 } as const;
  const house = new House(tight("MAX_UTILIZATION", { enablePrefixCaching: true, timing }));
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
  // Families change every 100 ms; the pauses between are in the engine's own numbers.
  expect(house.engine.snapshot("now").preemptions).toBeGreaterThan(0);
  expect(house.engine.live).toBe(0);
});

test("with STATIC_BATCH the executor's own family stands in the in-flight one's place", async () => {
  const timing = { kind: "linear", baseUs: 200_000, prefillUs: 10, decodeUs: 20 } as const;
  const config = tight("STATIC_BATCH", { timing, asyncScheduling: false });
  const house = new House(config);
  for (let i = 0; i < 16; i++)
    house.submit({ promptIds: promptOf(20 + 3 * i, i), maxTokens: 6, ignoreEos: true, seed: i });
  const seen = { context: 0, generation: 0 };
  for (let turn = 0; turn < 100; turn++) {
    house.advance(100_000);
    const value = await house.values();
    const own = (type: string) => value(`v1_metrics{tensorrt_llm,${type}}`);
    seen.context = Math.max(seen.context, own("total_context_tokens"));
    seen.generation = Math.max(seen.generation, own("total_generation_tokens"));
    const begun = value("general_metrics{iteration_counter,tensorrt_llm}") > 0;
    if (begun) expect(own("empty_generation_slots") + own("total_generation_tokens")).toBe(config.maxNumSeqs);
    expect(() => value("inflight_batcher_metrics{generation_requests,tensorrt_llm}")).toThrow();
  }
  expect(seen.context).toBeGreaterThan(20);
  expect(seen.generation).toBeGreaterThan(1);
});
