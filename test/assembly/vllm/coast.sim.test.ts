/**
 * Checks that running steps in one call of the core (assembly/vllm/coast.ts) gives the same results as running each step by
 * itself.
 */
import { expect, setDefaultTimeout, spyOn, test } from "bun:test";
import fc from "fast-check";
import { Batch } from "../../../src/engine/batch.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { Replay } from "../../../src/tools/replay/replay.ts";
import type { TraceRequest } from "../../../src/workloads/trace.ts";
import { anyConfig } from "../../engine/random-requests.ts";
import { debug, release } from "../../engine/simulated-engine.ts";
import { times } from "../../size.ts";

setDefaultTimeout(120_000);

interface Load {
  readonly gapUs: number;
  readonly prompt: number;
  readonly output: number;
  readonly first: number;
}

const anyLoad: fc.Arbitrary<Load> = fc.record({
  gapUs: fc.oneof(fc.constant(0), fc.nat(500), fc.nat(60_000)),
  prompt: fc.integer({ min: 1, max: 150 }),
  output: fc.integer({ min: 1, max: 120 }),
  first: fc.nat(2),
});

/** Their first blocks are equal, so that some requests hit the prefix cache. */
function requestsOf(loads: readonly Load[]): TraceRequest[] {
  let arrivalUs = 0;
  return loads.map(({ gapUs, prompt, output, first }, at) => {
    arrivalUs += gapUs;
    return { line: at + 1, arrivalUs, promptTokens: prompt, outputTokens: output, blockIds: [first] };
  });
}

interface Way {
  readonly config: EngineConfig;
  readonly loads: readonly Load[];
  /** Requests in a closed loop. null: each request arrives at its own time. */
  readonly concurrency: number | null;
  /** Interval between the rows of a series. null: no series. */
  readonly intervalUs: number | null;
}

/** Returns all results, at the end and at each row of the series. `seen`: an observer watches each step. */
function outcome({ config, loads, concurrency, intervalUs }: Way, module: WebAssembly.Module, seen: boolean): unknown {
  const rows: unknown[] = [];
  const replay = new Replay({
    config,
    module,
    engines: 1,
    requests: requestsOf(loads)[Symbol.iterator](),
    pace: concurrency === null ? { kind: "open" } : { kind: "closed", concurrency },
    // In some of these engines, requests preempt each other for ever.
    untilUs: config.timing.kind === "none" ? 5000 : 1_000_000,
    ...(intervalUs === null
      ? {}
      : { series: { intervalUs, onRow: (atUs, engines, counts) => rows.push([atUs, engines, { ...counts }]) } }),
    ...(seen ? { beforeUpdate: () => {} } : {}),
  });
  const endUs = replay.run();
  const [engine] = replay.fleet.engines;
  const fine = (["timeToFirstToken", "interTokenLatency", "e2eLatency"] as const).map((name) => engine!.fine(name));
  const snapshots = [engine!.snapshot("step"), engine!.snapshot("now")];
  return {
    endUs,
    nowUs: replay.nowUs,
    counts: replay.counts,
    snapshots,
    fine,
    peak: engine!.blocksPeak,
    rows,
    late: engine!.lateness(),
  };
}

test("a replay gives the same results with and without an observer of each step", () => {
  let coasted = 0;
  const { coast } = Batch.prototype;
  const spy = spyOn(Batch.prototype, "coast").mockImplementation(function (this: Batch, untilUs, leastUs) {
    const steps = coast.call(this, untilUs, leastUs);
    coasted += steps;
    return steps;
  });
  const way: fc.Arbitrary<Way> = fc.record({
    config: anyConfig,
    loads: fc.array(anyLoad, { minLength: 1, maxLength: 40, size: "max" }),
    concurrency: fc.option(fc.integer({ min: 1, max: 20 })),
    intervalUs: fc.option(fc.integer({ min: 500, max: 50_000 })),
  });
  try {
    for (const [module, runs] of [
      [debug, 20],
      [release, 40],
    ] as const) {
      coasted = 0;
      const property = fc.property(way, (drawnWay) => {
        expect(outcome(drawnWay, module, false)).toEqual(outcome(drawnWay, module, true));
      });
      fc.assert(property, { numRuns: times(runs) });
      expect(coasted).toBeGreaterThan(20 * runs);
    }
  } finally {
    spy.mockRestore();
  }
});
