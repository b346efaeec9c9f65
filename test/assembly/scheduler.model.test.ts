/** Compares the core's schedules with the model's, for random configurations and histories. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { Pause, Reason } from "../../assembly/layout.ts";
import { mix } from "../../src/base/random.ts";
import { type EngineConfig, engineConfigOf } from "../../src/engine/config/engine-config.ts";
import { times } from "../size.ts";
import { builds, EOS, Pair, type PairRequest } from "./pair.ts";

setDefaultTimeout(120_000);

const anyConfig: fc.Arbitrary<EngineConfig> = fc
  .record({
    blockSize: fc.oneof(fc.constantFrom(1, 2, 4, 4, 8, 16, 32), fc.integer({ min: 1, max: 32 })),
    /** Size of the pool as the number of requests of full length that fit. With less than 1, some requests never fit. */
    room: fc.constantFrom(0.5, 1, 1, 1.2, 1.5, 2, 4),
    maxModelLen: fc.integer({ min: 8, max: 120 }),
    maxNumSeqs: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 3, max: 8 })),
    inactive: fc.nat(2),
    budget: fc.oneof(
      fc.integer({ min: 1, max: 90 }),
      fc.integer({ min: 1, max: 16 }),
      fc.integer({ min: 40, max: 200 }),
    ),
    unscheduled: fc.constantFrom(0, 0, 5),
    enablePrefixCaching: fc.constantFrom(true, true, true, false),
    enableChunkedPrefill: fc.constantFrom(true, true, true, false),
    asyncScheduling: fc.boolean(),
    schedulingPolicy: fc.constantFrom("fcfs" as const, "priority" as const),
    threshold: fc.constantFrom(0, 0, 1, 7, 20),
    longPrefillTokenThresholdAdaptive: fc.boolean(),
    prefillScheduleInterval: fc.constantFrom(1, 1, 2, 4),
    schedulerReserveFullIsl: fc.constantFrom(true, false, false),
    watermark: fc.constantFrom(0, 0, 0, 0.05, 0.2, 0.5),
    maxLoras: fc.constantFrom(0, 0, 1, 2),
  })
  .map(({ room, inactive, budget, unscheduled, threshold, ...rest }): EngineConfig => {
    const { maxModelLen, maxNumSeqs, blockSize, enableChunkedPrefill } = rest;
    const maxNumBatchedTokens = Math.max(budget, maxNumSeqs, enableChunkedPrefill ? 0 : maxModelLen);
    return engineConfigOf({
      ...rest,
      maxNumActiveSeqs: Math.max(1, maxNumSeqs - inactive),
      maxNumBatchedTokens,
      maxNumScheduledTokens: Math.max(maxNumSeqs, maxNumBatchedTokens - unscheduled),
      numGpuBlocks: 1 + Math.max(1, Math.round((room * maxModelLen) / blockSize)),
      longPrefillTokenThreshold: Math.min(threshold, maxModelLen),
      seed: 0,
      timing: { kind: "none" },
    });
  });

type Op =
  | {
      readonly kind: "add";
      /** The prompt is new, or the tokens of an earlier request and some more. */
      readonly from: "stream" | "earlier";
      readonly pick: number;
      readonly length: number;
      readonly own: boolean;
      readonly maxTokens: number;
      readonly eosAt: number;
      readonly stopAt: number;
      readonly fed: boolean;
      readonly priority: number;
      readonly late: number;
      readonly adapter: number;
      readonly salt: string;
      readonly skip: boolean;
      readonly blocked: boolean;
    }
  | { readonly kind: "turns"; readonly count: number }
  | { readonly kind: "close"; readonly pick: number; readonly reason: Reason; readonly flush: boolean }
  | { readonly kind: "unblock"; readonly pick: number }
  | { readonly kind: "pause"; readonly state: Pause }
  | { readonly kind: "reset"; readonly force: boolean };

const anyAdd = fc.record({
  kind: fc.constant("add" as const),
  from: fc.constantFrom("stream" as const, "stream" as const, "earlier" as const),
  pick: fc.nat(40),
  length: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 119 })),
  own: fc.boolean(),
  maxTokens: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.constant(100)),
  eosAt: fc.constantFrom(0, 0, 0, 0, 1, 2, 5, 17),
  stopAt: fc.constantFrom(0, 0, 0, 0, 1, 3, 9),
  fed: fc.constantFrom(true, true, false),
  priority: fc.constantFrom(0, 0, 1, 2, -1, 7),
  late: fc.nat(3),
  adapter: fc.nat(3),
  salt: fc.constantFrom("", "", "", "a", "b"),
  skip: fc.constantFrom(false, false, false, true),
  blocked: fc.constantFrom(false, false, false, false, true),
});

const anyOp: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 10,
    arbitrary: anyAdd,
  },
  { weight: 14, arbitrary: fc.record({ kind: fc.constant("turns" as const), count: fc.integer({ min: 1, max: 15 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("close" as const),
      pick: fc.nat(40),
      reason: fc.constantFrom(Reason.Abort, Reason.Stop),
      flush: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("unblock" as const), pick: fc.nat(40) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("pause" as const),
      state: fc.constantFrom(Pause.Unpaused, Pause.Unpaused, Pause.Unpaused, Pause.PausedNew, Pause.PausedAll),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reset" as const), force: fc.boolean() }) },
);

const STOP = 7;

/** Runs a history. The pair compares core and model after every call. */
class History {
  readonly pair: Pair;
  readonly #added: PairRequest[] = [];

  constructor(
    readonly config: EngineConfig,
    module: WebAssembly.Module,
    /** Number of steps that may be open at once. */
    readonly depth: number,
  ) {
    this.pair = new Pair(config, module);
  }

  run(ops: readonly Op[]): this {
    for (const op of ops) this.#do(op);
    this.pair.pause(Pause.Unpaused);
    // Some requests are still blocked, never fit or starve each other, so the rest is aborted after a limit.
    for (let turns = 0; turns < 150 && this.pair.model.hasWork; turns++) this.#turn();
    for (const no of [...this.pair.model.requests.keys()]) this.pair.close(no, Reason.Abort);
    while (this.pair.model.open) this.pair.take();
    this.pair.flush();
    expect(this.pair.model.requests.size).toBe(0);
    expect(this.pair.model.pool.free.length).toBe(this.config.numGpuBlocks - 1);
    this.pair.reset(false);
    return this;
  }

  #do(op: Op): void {
    const { pair } = this;
    if (op.kind === "add") this.#add(op);
    else if (op.kind === "turns") for (let i = 0; i < op.count; i++) this.#turn();
    else if (op.kind === "pause") pair.pause(op.state);
    else if (op.kind === "reset") pair.reset(op.force);
    else if (op.kind === "unblock") {
      // The oldest blocked request, or any request, including ended ones.
      const blocked = [...pair.model.requests.values()].find((request) => request.blocked);
      if (blocked && op.pick % 4) pair.unblock(blocked.spec.no);
      else if (this.#added.length) pair.unblock(op.pick % this.#added.length);
    } else if (this.#added.length) {
      pair.close(op.pick % this.#added.length, op.reason);
      // Flushes like the engine: at once if no step is open.
      if (op.flush && pair.model.open === 0) pair.flush();
    }
  }

  /** Runs one boundary of the loop: updates the oldest step, then plans until `depth` steps are open. */
  #turn(): void {
    const { pair } = this;
    if (pair.model.open > 0) pair.take();
    while (pair.model.open < this.depth && pair.model.hasWork) pair.plan();
  }

  #add(op: Extract<Op, { kind: "add" }>): void {
    const no = this.#added.length;
    const earlier = op.from === "earlier" ? this.#added[op.pick % Math.max(1, no)] : undefined;
    const stream = op.pick % 3;
    const start = earlier
      ? [...earlier.prompt, ...Array.from({ length: op.maxTokens % 30 }, (_, k) => earlier.outputAt(k))]
      : Array.from({ length: op.length }, (_, i) => 1000 * (stream + 1) + i);
    if (op.own) start.push(...[1, 2, 3, 4, 5].map((i) => 500_000 + no * 10 + i));
    const prompt = start.slice(0, this.config.maxModelLen - 1);
    const seed = no * 7919 + 1;
    const drawn = (k: number) => 100 + (mix(seed, k) % 100_000);
    const fed = (k: number) => {
      if (k + 1 === op.eosAt) return EOS;
      return k + 1 === op.stopAt ? STOP : 600_000 + no * 200 + k;
    };
    const spec: PairRequest = {
      no,
      prompt,
      maxTokens: op.maxTokens,
      outputAt: op.fed ? fed : drawn,
      stopIds: op.stopAt ? [11, STOP] : [],
      priority: op.priority,
      arrivalUs: Math.max(0, no - op.late),
      adapter: op.adapter,
      salt: op.salt,
      skip: op.skip,
      blocked: op.blocked,
      fed: op.fed,
      seed,
    };
    this.#added.push(spec);
    this.pair.add(spec);
  }
}

describe.each(builds)("%s", (name, module) => {
  // Both builds come from one source. The debug build checks invariants; the release build only has to make the same
  // decisions, so it gets fewer runs.
  const runs = (most: number) => times(name === "debug core" ? most : most / 4);

  test("every call returns the same as the model", () => {
    const seen: Record<string, number> = {};
    const histories = fc.array(anyOp, { minLength: 1, maxLength: 60, size: "max" });
    // The engine has two open steps. With three, a preempted request can still have output in flight when it is to be
    // admitted again.
    const depths = fc.constantFrom(2, 2, 3);
    const property = fc.property(anyConfig, depths, histories, (config, depth, ops) => {
      const { pair } = new History(config, module, config.asyncScheduling ? depth : 1).run(ops);
      for (const [name, count] of Object.entries(pair.seen)) seen[name] = (seen[name] ?? 0) + count;
    });
    fc.assert(property, { numRuns: runs(500) });
    expect(seen.calls).toBeGreaterThan(runs(20_000));
    const dull = Object.entries(seen).filter(([, count]) => count < runs(10));
    expect(dull).toEqual([]);
  });

  test("a request preempted within the step being planned returns its tokens to the budget", () => {
    // A small budget and pool, and later requests are more urgent: the preempted request then comes before others that
    // still want tokens.
    const pressed = fc
      .tuple(anyConfig, fc.integer({ min: 1, max: 4 }), fc.integer({ min: 4, max: 8 }), fc.nat(6))
      .map(([config, blockSize, maxNumSeqs, more]): EngineConfig => {
        const { maxModelLen } = config;
        return {
          ...config,
          blockSize,
          maxNumSeqs,
          maxNumActiveSeqs: maxNumSeqs,
          maxNumBatchedTokens: maxNumSeqs + more,
          maxNumScheduledTokens: maxNumSeqs + more,
          numGpuBlocks: 1 + Math.ceil(maxModelLen / blockSize),
          enableChunkedPrefill: true,
          schedulingPolicy: "priority",
          vllm: {
            ...config.vllm,
            longPrefillTokenThreshold: 0,
            prefillScheduleInterval: 1,
            schedulerReserveFullIsl: false,
            watermark: 0,
          },
          maxLoras: 0,
        };
      });
    const crowd = fc.array(
      fc.tuple(anyAdd, fc.integer({ min: 0, max: 4 })).map(([add, count]): Op[] => [add, { kind: "turns", count }]),
      { minLength: 5, maxLength: 16, size: "max" },
    );
    let undone = 0;
    const property = fc.property(pressed, crowd, (config, list) => {
      const ops = list.map(([add, turns], i) => [
        { ...add, priority: -i, maxTokens: 60, eosAt: 0, stopAt: 0, fed: true },
        turns,
      ]);
      undone += new History(config, module, config.asyncScheduling ? 2 : 1).run(ops.flat() as Op[]).pair.seen.undone;
    });
    fc.assert(property, { numRuns: runs(100) });
    expect(undone).toBeGreaterThan(runs(50));
  });
});
