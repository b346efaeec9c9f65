/**
 * Tests the library's engine. Runs the sources with the debug core, which checks its invariants, or the package's file in
 * TEST_ENGINE.
 */
import { beforeAll, expect, test } from "bun:test";
import type * as library from "../../src/embed/bun.ts";
import type { EngineOptions } from "../../src/embed/engine-browser.ts";
import type { Run } from "../../src/embed/run.ts";
import { loadVocabulary } from "../../src/text/tokens/vocabulary.ts";

// A static import would always load the sources.
const { createEngine, Engine, latencies, VirtualClock, WallClock }: typeof library = await import(
  process.env.TEST_ENGINE ?? "../../src/embed/bun.ts"
);

const CONSTANT = "constant:ttft=200ms,itl=20ms";
const built = (name: string) => Bun.file(new URL(`../../build/${name}`, import.meta.url)).bytes();
let core: Uint8Array;
beforeAll(async () => {
  core = await built("core.debug.wasm");
});

const small = (options: EngineOptions, clock?: library.VirtualClock) =>
  createEngine({ maxModelLen: 1024, numGpuBlocksOverride: 100, ...options }, { core, clock });

test("a run on the virtual clock has tokens and times, calls its listener, and counts in the snapshot", async () => {
  const clock = new VirtualClock();
  const engine = await small({ maxNumSeqs: 8, timing: CONSTANT }, clock);
  const received: number[][] = [];
  const run = engine.submit(
    { promptTokens: 100, maxTokens: 16, ignoreEos: true },
    { onTokens: (ids) => received.push([...ids]) },
  );
  expect(run).toMatchObject({ finish: null, firstTokenUs: null, endUs: null, refused: null, tokens: [] });
  clock.drain();
  expect(run).toMatchObject({ finish: "length", firstTokenUs: 200_000, endUs: 500_000, promptTokens: 100 });
  expect(run.tokens).toHaveLength(16);
  expect(received.map((ids) => ids.length)).toEqual(Array(16).fill(1));
  expect(received.flat()).toEqual([...run.tokens]);
  expect(await run.done).toBe(run);
  const { generationTokens, promptTokens, running, blocksUsed, finished } = engine.snapshot();
  expect({ generationTokens, promptTokens, running, blocksUsed, finished }).toEqual({
    generationTokens: 16,
    promptTokens: 100,
    running: 0,
    blocksUsed: 0,
    finished: [0, 1, 0, 0, 0],
  });
});

test("step() returns the outcome of each step, and null at the end", async () => {
  const engine = await small({
    timing: "linear:base=10ms,prefill=1ms,decode=1ms",
    asyncScheduling: false,
    maxNumBatchedTokens: 1024,
    longPrefillTokenThreshold: 32,
  });
  const long = engine.submit({ promptTokens: 48, maxTokens: 2, ignoreEos: true });
  const short = engine.submit({ promptTokens: 8, maxTokens: 2, ignoreEos: true });
  const steps = [];
  for (let step = engine.step(); step; step = engine.step()) {
    steps.push({ ...step, lengths: [long.tokens.length, short.tokens.length] });
  }
  expect(steps.slice(0, 3)).toEqual([
    { plannedUs: 0, endUs: 50_000, tokens: 1, preemptions: 0, lengths: [0, 1] },
    { plannedUs: 50_000, endUs: 77_000, tokens: 2, preemptions: 0, lengths: [1, 2] },
    { plannedUs: 77_000, endUs: 88_000, tokens: 1, preemptions: 0, lengths: [2, 2] },
  ]);
  expect(steps.slice(3).every(({ tokens }) => tokens === 0)).toBe(true);
  expect(engine.live).toBe(0);
});

test("a KV pool that is too small for two runs preempts one of them, and both finish", async () => {
  const engine = await small({ maxModelLen: 256, numGpuBlocksOverride: 17, timing: CONSTANT });
  const runs = [1, 2].map(() => engine.submit({ promptTokens: 96, maxTokens: 100, ignoreEos: true }));
  let preemptions = 0;
  for (let step = engine.step(); step; step = engine.step()) preemptions += step.preemptions;
  expect(preemptions).toBeGreaterThan(0);
  expect(engine.snapshot().preemptions).toBe(preemptions);
  expect(runs.map(({ finish, tokens }) => [finish, tokens.length])).toEqual(Array(2).fill(["length", 100]));
});

test("equal prompts share blocks, but prompts of a given length and salted prompts do not", async () => {
  const engine = await small({ timing: "none" });
  const promptIds = Array.from({ length: 70 }, (_, i) => i);
  const cached = (request: Parameters<library.Engine["submit"]>[0]) => {
    const run = engine.submit({ maxTokens: 1, ...request });
    while (engine.step());
    return run.cachedTokens;
  };
  expect(cached({ promptIds })).toBe(0);
  expect(cached({ promptIds })).toBe(64);
  expect(cached({ promptIds: Uint32Array.from([...promptIds.slice(0, 40), 9, 9]) })).toBe(32);
  expect(cached({ promptIds, cacheSalt: "x" })).toBe(0);
  expect(cached({ promptIds, skipReadingPrefixCache: true })).toBe(0);
  expect(cached({ promptTokens: 70 })).toBe(0);
  expect(cached({ promptTokens: 70 })).toBe(0);
});

test("cancel() frees blocks within one step, and the listener is not called again", async () => {
  const engine = await small({ timing: CONSTANT });
  let calls = 0;
  const count = { onTokens: () => calls++ };
  const [first, second] = [1, 2].map(() =>
    engine.submit({ promptTokens: 64, maxTokens: 50, ignoreEos: true }, count),
  ) as [Run, Run];
  while (first.tokens.length < 3) engine.step();
  const before = calls;
  engine.cancel(first);
  second.cancel();
  second.cancel();
  expect(first).toMatchObject({ finish: "abort", endUs: engine.clock.now() });
  engine.step();
  expect(engine.snapshot()).toMatchObject({ blocksUsed: 0, running: 0, finished: [0, 0, 2, 0, 0] });
  expect(calls).toBe(before);
  expect((await second.done).finish).toBe("abort");
});

test("a blocked run keeps its place in the queue until its release, and others overtake it", async () => {
  const engine = await small({ timing: CONSTANT, maxNumSeqs: 1, asyncScheduling: false });
  const request = { promptTokens: 32, maxTokens: 3, ignoreEos: true };
  const [blocked, first, second] = [{ ...request, blocked: true }, request, request].map((fields) =>
    engine.submit(fields),
  ) as [Run, Run, Run];
  while (first.tokens.length < 2) engine.step();
  expect(engine.snapshot()).toMatchObject({ running: 1, waiting: 1, deferred: 1 });
  blocked.release();
  while (blocked.finish === null) engine.step();
  expect([first.finish, second.finish]).toEqual(["length", null]);
  while (engine.step());
  expect([blocked, first, second].map(({ tokens }) => tokens.length)).toEqual([3, 3, 3]);
});

test("while all runs are blocked, steps are empty and last a millisecond; a blocked run can be cancelled", async () => {
  for (const timing of [CONSTANT, "none"] as const) {
    const engine = await small({ timing, asyncScheduling: false });
    const run = engine.submit({ promptTokens: 32, maxTokens: 3, blocked: true });
    engine.step();
    const before = engine.clock.now();
    for (let i = 0; i < 5; i++) expect(engine.step()).toMatchObject({ tokens: 0 });
    expect(engine.clock.now() - before).toBe(5000);
    expect(engine.snapshot()).toMatchObject({ running: 0, waiting: 0, deferred: 1 });
    run.cancel();
    run.release();
    while (engine.step());
    expect(engine.snapshot()).toMatchObject({ deferred: 0, blocksUsed: 0, finished: [0, 0, 1, 0, 0] });
  }
});

test("a run that is released before it reaches the queue does not wait there", async () => {
  const engine = await small({ timing: CONSTANT });
  const run = engine.submit({ promptTokens: 32, maxTokens: 3, blocked: true });
  run.release();
  while (engine.step());
  expect(run).toMatchObject({ finish: "length", firstTokenUs: 200_000 });
});

test("on a wall clock without simulated time a blocked run does not make the loop spin", async () => {
  const clock = new WallClock();
  const engine = await createEngine({ maxModelLen: 1024, timing: "none" }, { core, clock });
  const run = engine.submit({ promptTokens: 32, maxTokens: 3, blocked: true });
  await Bun.sleep(50);
  expect(run.tokens).toEqual([]);
  // A turn of the event loop takes microseconds, so a loop that does not wait would run thousands of steps.
  expect(engine.snapshot().steps).toBeLessThanOrEqual(2 * (clock.now() / 1000) + 4);
  run.release();
  expect((await run.done).tokens).toHaveLength(3);
  engine.close();
  clock.close();
});

test("scripts and stop ids are followed, and unlimited answers end by themselves", async () => {
  const engine = await small({ timing: "none", meanOutputTokens: 20 });
  const scripted = engine.submit({ promptTokens: 5, script: [7, 8, 9] });
  const stopped = engine.submit({ promptTokens: 5, script: [7, 8, 9], stopTokenIds: [8] });
  const cut = engine.submit({ promptTokens: 5, script: [7, 8, 9], maxTokens: 2 });
  const free = Array.from({ length: 20 }, () => engine.submit({ promptTokens: 5 }));
  while (engine.step());
  expect(scripted).toMatchObject({ finish: "stop" });
  expect(scripted.tokens.slice(0, 3)).toEqual([7, 8, 9]);
  expect([stopped.finish, [...stopped.tokens]]).toEqual(["stop", [7, 8]]);
  expect([cut.finish, [...cut.tokens]]).toEqual(["length", [7, 8]]);
  expect(free.every(({ finish }) => finish === "stop")).toBe(true);
  expect(new Set(free.map(({ tokens }) => tokens.length)).size).toBeGreaterThan(5);
});

test("a given maxTokens is the length of the answer; without it the length is drawn like in a server", async () => {
  const engine = await small({ timing: "none", outputTokens: "constant:7" });
  const [fixed, free, least] = [{ maxTokens: 40 }, {}, { minTokens: 20 }].map((more) =>
    engine.submit({ promptTokens: 5, ...more }),
  );
  while (engine.step());
  expect([fixed, free, least].map((run) => [run!.tokens.length, run!.finish])).toEqual([
    [40, "length"],
    [7, "stop"],
    [21, "stop"],
  ]);
  const traced = small({ outputTokens: "trace:lengths.csv" });
  await expect(traced).rejects.toThrow("outputTokens: an engine takes constant:N or lognormal:mean=N,sigma=X");
});

test("equal calls return equal answers, another seed changes them, and a request's seed overrides both", async () => {
  const answers = async (seed: number, own?: number) => {
    const engine = await small({ timing: "none", seed });
    const request = { promptTokens: 9, ...(own === undefined ? {} : { seed: own }) };
    const runs = [1, 2, 3].map(() => engine.submit(request));
    while (engine.step());
    return runs.map(({ tokens }) => [...tokens]);
  };
  const first = await answers(1);
  expect(await answers(1)).toEqual(first);
  expect(await answers(2)).not.toEqual(first);
  expect(first[0]).not.toEqual(first[1]!);
  const [a, b] = [await answers(1, 5), await answers(2, 5)];
  expect(a).toEqual(b);
  expect(a[0]).toEqual(a[1]!);
});

test("ids are those of the built-in vocabulary, the end of sequence included", async () => {
  const { eosId, size } = loadVocabulary(await built("vocabulary.bin"));
  const engine = await small({ timing: "none" });
  const run = engine.submit({ promptTokens: 9 });
  while (engine.step());
  expect(run.tokens.at(-1)).toBe(eosId);
  expect(run.tokens.every((id) => id < size)).toBe(true);
});

test("a request that is too long or too late is refused with a reason", async () => {
  const engine = await small({ timing: "none" });
  expect(engine.submit({ promptTokens: 1024 }).refused).toBe("tooLong");
  expect(engine.submit({ promptTokens: 10, maxTokens: 1025 }).refused).toBe("tooLong");
  expect(engine.submit({ promptTokens: 1000, maxTokens: 1000 })).toMatchObject({ refused: null, maxTokens: 24 });
  const open = engine.submit({ promptTokens: 10 });
  engine.close();
  expect(open.finish).toBe("abort");
  const late = engine.submit({ promptTokens: 10 });
  expect((await late.done).refused).toBe("closed");
  late.cancel();
  expect(late.finish).toBeNull();
});

test.each<[object, string]>([
  [{}, "a request has promptTokens or promptIds, and not both"],
  [{ promptTokens: 1, promptIds: [1] }, "not both"],
  [{ promptIds: [] }, "promptIds: takes at least one of token ids, whole numbers from 0 to 4294967295, not []"],
  [{ promptIds: [-1] }, "promptIds: takes at least one of token ids"],
  [{ promptIds: ["a"] }, "promptIds: takes at least one of token ids"],
  [{ promptIds: new Float64Array([0.5]) }, "promptIds: takes at least one of token ids"],
  [{ promptTokens: 1.5 }, "promptTokens: takes a whole number of at least 1, not 1.5"],
  [{ promptTokens: 1, maxTokens: 0 }, "maxTokens: takes a whole number of at least 1, not 0"],
  [{ promptTokens: 1, max_tokens: 5 }, "max_tokens: no such field of a request; there are at, promptTokens,"],
  [{ promptTokens: 1, seed: [1, 2] }, "seed: takes a whole number from 0 to 4294967295, not [1,2]"],
  [{ promptTokens: 1, priority: Number.NaN }, "priority: takes a whole number of 32 bits, not NaN"],
  [{ promptTokens: 1, stopTokenIds: 5 }, "stopTokenIds: takes at most 8192 token ids"],
  [{ promptTokens: 1, stopTokenIds: Array(8193).fill(7) }, "stopTokenIds: takes at most 8192 token ids"],
  [{ promptTokens: 1, ignoreEos: "yes" }, 'ignoreEos: takes true or false, not "yes"'],
  [{ promptTokens: 1, adapter: -1 }, "adapter: takes a whole number of at least 0, not -1"],
])("submit() throws for the request %j", async (request, message) => {
  const engine = await small({ timing: "none" });
  expect(() => engine.submit(request)).toThrow(message);
});

test("requests with a later arrival start then, and latencies() computes percentiles without a listener", async () => {
  const engine = await small({ timing: CONSTANT, asyncScheduling: false });
  const runs = [0, 1_000_000, 2_000_000].map((at) =>
    engine.submit({ at, promptTokens: 32, maxTokens: 3, ignoreEos: true }),
  );
  const gone = engine.submit({ at: 3_000_000, promptTokens: 32, maxTokens: 3 });
  const released = engine.submit({ at: 1_500_000, promptTokens: 32, maxTokens: 3, ignoreEos: true, blocked: true });
  released.release();
  expect([engine.live, gone.arrivalUs, gone.finish]).toEqual([5, 3_000_000, null]);
  gone.cancel();
  expect([gone.finish, engine.live]).toEqual(["abort", 4]);
  while (engine.step());
  expect(runs.map(({ tokenTimesUs }) => tokenTimesUs)).toEqual([
    [200_000, 220_000, 240_000],
    [1_200_000, 1_220_000, 1_240_000],
    [2_200_000, 2_220_000, 2_240_000],
  ]);
  expect([released.firstTokenUs, gone.tokens]).toEqual([1_700_000, []]);
  const { ttftUs, itlUs, e2eUs } = latencies([...runs, gone]);
  expect(ttftUs).toEqual({
    count: 3,
    mean: 200_000,
    p50: 200_000,
    p90: 200_000,
    p95: 200_000,
    p99: 200_000,
    max: 200_000,
  });
  expect([itlUs.count, itlUs.p99, e2eUs.count, e2eUs.max]).toEqual([6, 20_000, 3, 240_000]);
  expect(latencies([gone]).ttftUs).toMatchObject({ count: 0, mean: null, p50: null });
  const never = engine.submit({ at: 9_000_000, promptTokens: 32 });
  engine.close();
  expect(never.finish).toBe("abort");
});

test("`using` closes an engine", async () => {
  let run: Run;
  {
    using engine = await small({ timing: CONSTANT });
    run = engine.submit({ promptTokens: 32, maxTokens: 3 });
  }
  expect(run.finish).toBe("abort");
});

test("a virtual clock advances to a time or by a duration, and refuses earlier times and NaN", () => {
  const clock = new VirtualClock();
  const received: number[] = [];
  for (const us of [10, 20, 30]) clock.at(us, () => received.push(clock.now()));
  clock.advanceBy(10);
  clock.advanceBy(5);
  expect([clock.now(), ...received]).toEqual([15, 10]);
  clock.advanceTo(20);
  expect([clock.now(), ...received]).toEqual([20, 10, 20]);
  for (const us of [Number.NaN, 19])
    expect(() => clock.advanceTo(us)).toThrow(`advanceTo: must be at least 20 us, not ${us}`);
  for (const us of [Number.NaN, -1])
    expect(() => clock.advanceBy(us)).toThrow(`advanceBy: must be at least 0 microseconds, not ${us}`);
  expect(received).toHaveLength(2);
});

test.each<[object, string]>([
  [{ maxNumSeq: 4 }, "maxNumSeq: no such option; there are maxModelLen, seed, maxNumSeqs,"],
  [{ maxNumSeqs: 0 }, "maxNumSeqs: takes a whole number from 1 to"],
  [{ enablePrefixCaching: "maybe" }, 'enablePrefixCaching: takes true or false, not "maybe"'],
  [{ timing: "constant:ttft=5" }, 'timing: "constant:ttft=5": '],
  [{ maxNumSeqs: 8, maxNumBatchedTokens: 4 }, "maxNumBatchedTokens is 4: it must be at least maxNumSeqs (8)"],
  [{ port: 1 }, "port: no such option"],
])("a wrong option is refused with a reason: %j", async (options, message) => {
  await expect(createEngine(options)).rejects.toThrow(message);
  await expect(createEngine(options)).rejects.toBeInstanceOf(TypeError);
});

test.each([22_369_622, 400_000_000, 2_147_483_647])("a pool of %p blocks is refused at once", async (blocks) => {
  const engine = createEngine({ numGpuBlocksOverride: blocks, maxNumSeqs: 1 });
  await expect(engine).rejects.toThrow(`the core holds at most 22369621 KV blocks, not ${blocks}`);
});

test("createEngine returns an Engine with the defaults of understudy serve", async () => {
  const engine = await createEngine();
  expect(engine).toBeInstanceOf(Engine);
  expect(engine.config).toMatchObject({ maxNumSeqs: 1024, maxModelLen: 131072, blockSize: 16, asyncScheduling: true });
  const run = engine.submit({ promptTokens: 100, maxTokens: 4, ignoreEos: true });
  while (engine.step());
  expect(run.tokens).toHaveLength(4);
});

test("`using` closes a clock, after which no timer fires", async () => {
  let woken = 0;
  const clocks = [new VirtualClock(), new WallClock()];
  for (const clock of clocks) {
    using closing = clock;
    closing.at(closing.now() + 1, () => woken++);
  }
  await Bun.sleep(5);
  expect(woken).toBe(0);
  expect(clocks.map((clock) => clock.nextUs())).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
});

test("on a wall clock the engine runs by itself, and cannot be stepped", async () => {
  const clock = new WallClock();
  const engine = await createEngine({ maxModelLen: 1024, timing: "constant:ttft=2ms,itl=1ms" }, { core, clock });
  expect(() => engine.step()).toThrow("only on a VirtualClock");
  const run = await engine.submit({ promptTokens: 10, maxTokens: 3, ignoreEos: true }).done;
  expect(run.tokens).toHaveLength(3);
  expect(run.firstTokenUs! - run.arrivalUs).toBeGreaterThanOrEqual(2000);
  engine.close();
  clock.close();
});
