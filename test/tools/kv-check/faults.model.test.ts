/** Tests that each fault of published events is named by its law, and that nothing unrelated is accused. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { FAULT_LAWS } from "../../../scripts/docs/kv-laws.ts";
import { KV_FAULTS, type KvFault, kvFaultPlan } from "../../../src/kv-events/fault-plan.ts";
import { KvEventFaults } from "../../../src/kv-events/faults.ts";
import { type EncodedBatch, sequenceFrame } from "../../../src/kv-events/replay.ts";
import { KvChecker, type KvReport } from "../../../src/tools/kv-check/checker.ts";
import type { KvLawId } from "../../../src/tools/kv-check/laws.ts";
import { figure, seed, sized } from "../../size.ts";
import { BlockPool, type PoolOptions, poolOptions } from "./block-pool.ts";

setDefaultTimeout(600_000);

const RUNS = sized("kv-check", { sample: 12, whole: 1000 });

/** Laws that a fault may break besides the one that names it. */
const BESIDES: Readonly<Partial<Record<KvFault, readonly KvLawId[]>>> = {
  // The engine's cache is not empty, as after a real restart.
  restarted: ["K13", "K14"],
  unfillable: ["K04"],
  "replay-cut": ["K09"],
  "wrong-parent": ["K19", "K20"],
};
/** True: the fault needs a replay. False: a replay would repair it. */
const NEEDS_REPLAY: Readonly<Partial<Record<KvFault, boolean>>> = {
  unfillable: true,
  "replay-cut": true,
  "joined-late": false,
};

interface DisturbedRun {
  readonly options: PoolOptions;
  readonly runs: readonly number[];
  readonly hasReplay: boolean;
  readonly plan: string;
}

/** Publishes prompts through the faults, and returns the report of a subscriber that joined at the start. */
function disturbed({ options, runs, hasReplay, plan }: DisturbedRun): KvReport {
  const pool = new BlockPool(options);
  for (const run of runs) pool.step({ run, tokens: 3 * options.blockSize, salt: "", skips: false });
  const faults = new KvEventFaults(kvFaultPlan(plan)!, 0);
  const kept: EncodedBatch[] = [];
  const topic = Buffer.from("");
  const wanted: number[] = [];
  const checker = new KvChecker({
    ...{ fromStart: true, numGpuBlocks: options.blocks + 1 },
    ...(hasReplay ? { onReplayWanted: (_: string, start: number) => wanted.push(start) } : {}),
  });
  const replay = (start: number) => {
    const cut = faults.replayCut();
    const batches = kept.filter(({ sequence }) => sequence >= start).slice(0, cut ?? undefined);
    for (const { sequence, payload } of batches) checker.replayed("", [topic, sequenceFrame(sequence), payload]);
    checker.replayEnded("", cut === null ? null : "the replay has no end marker after 5 s");
  };
  let delayS = 0;
  for (const [number, { frames }] of pool.messages.entries()) {
    const result = faults.disturb(number, frames[2]);
    if (result.isRestart) kept.length = 0;
    if (result.kept !== null) kept.push(result.kept);
    delayS = result.delayMs / 1000;
    for (const { sequence, payload } of result.sent) {
      checker.message([topic, sequenceFrame(sequence), payload], 1e9 + (number + 1) / 100 + delayS);
      for (const start of wanted.splice(0)) replay(start);
    }
  }
  return checker.report();
}

const disturbedRuns = fc.record({
  options: poolOptions.map((options) => ({ ...options, blocks: 4 + (options.blocks % 8) })),
  // Each prompt ends differently, so that each makes a batch.
  runs: fc.shuffledSubarray([...Array(60).keys()], { minLength: 40, maxLength: 60 }),
  hasReplay: fc.boolean(),
  at: fc.integer({ min: 4, max: 30 }),
  seed: fc.nat(1000),
});

test.each(KV_FAULTS.map((fault) => [fault]))("%s is named by its law in every run", (fault) => {
  const [law] = FAULT_LAWS[fault];
  const allowed = [law, ...(BESIDES[fault] ?? [])];
  fc.assert(
    fc.property(disturbedRuns, ({ at, seed, ...run }) => {
      const hasReplay = NEEDS_REPLAY[fault] ?? run.hasReplay;
      // The one replay comes with the first batch, so it is cut at once.
      const plan = `${fault}@${fault === "replay-cut" ? 0 : at},seed=${seed}`;
      const broken = disturbed({ ...run, hasReplay, plan }).violated.map(({ id }) => id as KvLawId);
      expect(broken).toContain(law);
      expect(broken.filter((id) => !allowed.includes(id))).toEqual([]);
    }),
    { numRuns: RUNS, seed },
  );
  figure(`named ${fault}`, RUNS);
});

test("without a fault the same runs accuse nobody", () => {
  fc.assert(
    fc.property(disturbedRuns, ({ at: _, seed, ...run }) => {
      expect(disturbed({ ...run, plan: `lost=0,seed=${seed}` }).violated).toEqual([]);
    }),
    { numRuns: 2 * RUNS, seed },
  );
});

test("a share of faults is drawn from the seed, and ranks draw differently", () => {
  const lostOf = (plan: string, rank: number) => {
    const faults = new KvEventFaults(kvFaultPlan(plan)!, rank);
    return Array.from({ length: 2000 }, (_, at) => at).filter(
      (at) => faults.disturb(at, Buffer.alloc(0)).sent.length === 0,
    );
  };
  const lost = lostOf("lost=0.1,seed=3", 0);
  expect(lost).toEqual(lostOf("seed=3,lost=0.1", 0));
  expect(lost).not.toEqual(lostOf("lost=0.1,seed=3", 1));
  expect(lost.length).toBeWithin(150, 250);
});

test.each([
  ["lost=0.01,seed=3", { seed: 3, lateMs: 2000, shares: { lost: 0.01 }, places: {} }],
  ["late@50, late-ms=500", { seed: 0, lateMs: 500, shares: {}, places: { late: 50 } }],
  ["lost", undefined],
  ["lost=2", undefined],
  ["lost@1.5", undefined],
  ["gone=0.1", undefined],
  ["joined-late=0.1", undefined],
  ["seed=-1", undefined],
  ["", undefined],
])("the plan %p is read as %p", (text, plan) => {
  expect(kvFaultPlan(text)).toEqual(plan as never);
});
