/** Random requests with arrivals, lengths, endings, and a front end that stops or disconnects at any moment. */
import fc from "fast-check";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { StepNoise, Timing } from "../../src/engine/config/step-times.ts";
import { answers, configOf, promptOf, type RecordingReceiver, type World } from "./simulated-engine.ts";

export const anyTiming: fc.Arbitrary<Timing> = fc.oneof(
  fc.constant<Timing>({ kind: "none" }),
  fc
    .record({ itlUs: fc.integer({ min: 1, max: 3000 }), moreUs: fc.nat(9000) })
    .map(({ itlUs, moreUs }): Timing => ({ kind: "constant", ttftUs: itlUs + moreUs, itlUs })),
  fc.constant<Timing>({ kind: "linear", baseUs: 900, prefillUs: 7.3, decodeUs: 11.9 }),
  fc.constant<Timing>({ kind: "linear", baseUs: 900, prefillUs: 7.3, decodeUs: 11.9, requestOverheadUs: 4000 }),
  fc.constant<Timing>({
    kind: "table",
    name: "test",
    linearTokens: [1, 32, 64, 256],
    linearUs: [700, 800, 1000, 1900],
    prefill: { baseUs: 50, newUs: 0.3, prefixUs: 0.02, pairsUs: 0.01 },
    decode: { baseUs: 40, seqUs: 3, ctxUs: 0.05 },
    sharedBase: true,
    scale: 1.1,
    overheadUs: 150,
    requestOverheadUs: 1234.5,
  }),
);

const anyNoise: fc.Arbitrary<StepNoise> = fc.record(
  {
    jitterSigma: fc.constantFrom(0.05, 0.5),
    tail: fc.constant({ share: 0.05, alpha: 1.5 }),
    pause: fc.constantFrom({ everyUs: 10_000, forUs: 3000 }, { everyUs: 777, forUs: 1 }),
  },
  { requiredKeys: [] },
);

/** Every pool has room for one request of `maxModelLen`, as the server checks at its start. */
export const anyConfig: fc.Arbitrary<EngineConfig> = fc
  .record({
    blockSize: fc.constantFrom(1, 4, 16, 32),
    maxNumSeqs: fc.integer({ min: 1, max: 12 }),
    moreBlocks: fc.integer({ min: 1, max: 40 }),
    budget: fc.constantFrom(16, 64, 128, 300),
    enablePrefixCaching: fc.boolean(),
    asyncScheduling: fc.boolean(),
    schedulingPolicy: fc.constantFrom("fcfs" as const, "priority" as const),
    schedulerReserveFullIsl: fc.boolean(),
    longPrefillTokenThreshold: fc.constantFrom(0, 0, 24),
    prefillScheduleInterval: fc.constantFrom(1, 1, 3),
    watermark: fc.constantFrom(0, 0, 0.05),
    timing: anyTiming,
    noise: fc.oneof(fc.constant({}), anyNoise),
  })
  .map(({ moreBlocks, budget, ...drawn }) => {
    const { schedulerReserveFullIsl, longPrefillTokenThreshold, prefillScheduleInterval, watermark, ...rest } = drawn;
    const maxModelLen = 256;
    const numGpuBlocks = Math.ceil(maxModelLen / rest.blockSize) + moreBlocks;
    return configOf({
      ...rest,
      vllm: { schedulerReserveFullIsl, longPrefillTokenThreshold, prefillScheduleInterval, watermark },
      maxModelLen,
      numGpuBlocks,
      maxNumBatchedTokens: Math.max(budget, rest.maxNumSeqs),
    });
  });

/** Actions of the front end. */
type FrontEndAction =
  | { readonly kind: "never" }
  /** The client disconnects this long after the request arrived. 0: in the same turn. */
  | { readonly kind: "after"; readonly us: number }
  /** The client disconnects, or a stop string is found, after this many tokens. */
  | { readonly kind: "leaves" | "stops"; readonly tokens: number };

export interface RandomRequest {
  readonly gapUs: number;
  readonly stream: number;
  readonly prompt: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly planned: number | null;
  readonly ignoreEos: boolean;
  readonly stops: boolean;
  readonly script: number | null;
  readonly priority: number;
  readonly salt: string;
  readonly skip: boolean;
  readonly seed: number;
  readonly leaving: FrontEndAction;
}

export const anyRequest: fc.Arbitrary<RandomRequest> = fc.record({
  gapUs: fc.oneof(fc.constant(0), fc.nat(100), fc.nat(8000)),
  stream: fc.nat(3),
  prompt: fc.integer({ min: 1, max: 150 }),
  maxTokens: fc.integer({ min: 1, max: 150 }),
  minTokens: fc.oneof(fc.constant(0), fc.nat(30)),
  planned: fc.option(fc.integer({ min: 1, max: 60 })),
  ignoreEos: fc.boolean(),
  stops: fc.boolean(),
  script: fc.option(fc.integer({ min: 1, max: 140 }), { freq: 4 }),
  priority: fc.nat(3),
  salt: fc.constantFrom("", "", "a", "b"),
  skip: fc.boolean(),
  seed: fc.integer({ min: 0, max: 50 }),
  leaving: fc.oneof(
    { arbitrary: fc.constant<FrontEndAction>({ kind: "never" }), weight: 3 },
    fc.record({ kind: fc.constant("after" as const), us: fc.oneof(fc.constant(0), fc.nat(200), fc.nat(60_000)) }),
    fc.record({
      kind: fc.constantFrom("leaves" as const, "stops" as const),
      tokens: fc.integer({ min: 1, max: 40 }),
    }),
  ),
});

/** Stop tokens of requests. These ids are frequent in answers, so that some requests end at one. */
const STOPS = [...answers.ids.slice(0, 6)];

/** Submits the request now. Its front end acts as `life` says. */
export function live(world: World, request: RandomRequest): RecordingReceiver | null {
  const { leaving, prompt, stream, maxTokens, minTokens, planned, ignoreEos, stops, priority, seed } = request;
  const script =
    request.script === null
      ? undefined
      : Uint32Array.from({ length: request.script }, (_, i) => 500_000 + (seed % 1000) * 1000 + i);
  const receiver = world.submit({
    promptIds: promptOf(prompt, stream),
    maxTokens,
    minTokens: script ? Math.min(minTokens, script.length) : minTokens,
    plannedTokens: planned,
    ignoreEos,
    stopTokenIds: stops ? STOPS : [],
    seed,
    priority,
    cacheSalt: request.salt,
    skipReadingPrefixCache: request.skip,
    ...(script ? { script } : {}),
  });
  if (!receiver) return null;
  if (leaving.kind === "after") {
    const leave = () => {
      if (receiver.finish === null) receiver.cancel();
      else receiver.submission.cancel(); // too late: nothing happens
    };
    if (leaving.us === 0) leave();
    else world.clock.at(world.clock.now() + leaving.us, leave);
  } else if (leaving.kind !== "never") {
    receiver.afterwards = () => {
      if (receiver.finish !== null || receiver.ids.length !== leaving.tokens) return;
      if (leaving.kind === "leaves") receiver.cancel();
      else receiver.stopAfter(leaving.tokens);
    };
  }
  return receiver;
}

/**
 * Runs all requests to their end. With the priority policy, no two arrive at the same time, because two with equal
 * priority and arrival may preempt each other for ever (see conservation.sim.test.ts).
 */
export function run(world: World, requests: readonly RandomRequest[]): void {
  const least = world.config.schedulingPolicy === "priority" ? 1 : 0;
  for (const request of requests) {
    world.clock.advanceTo(world.clock.now() + Math.max(request.gapUs, least));
    live(world, request);
  }
  world.clock.drain(2_000_000);
}
