/** Compares the dynamic batcher with a plain model for random histories, and tests the settings of Triton's guides. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type BatchingRules, DynamicBatcher } from "../../../../src/servers/triton/scheduling/dynamic-batcher.ts";
import { NO_POLICY, type WaitPolicy } from "../../../../src/servers/triton/scheduling/policy-queue.ts";
import {
  type BatchOrders,
  DefaultScheduler,
  type Schedulable,
  type Scheduler,
} from "../../../../src/servers/triton/scheduling/scheduler.ts";
import { figure, seed, sized } from "../../../size.ts";
import { PlainBatcher } from "./plain-batcher.ts";

const CASES = sized("triton", { sample: 1500, whole: Number(process.env.TEST_CASES ?? 100_000) });

interface Request extends Schedulable {
  readonly id: number;
  cancelled: boolean;
}

const policy: fc.Arbitrary<WaitPolicy> = fc.record({
  action: fc.constantFrom("REJECT", "DELAY"),
  timeoutUs: fc.constantFrom(0, 50, 200),
  mayOverride: fc.boolean(),
  mostWaiting: fc.constantFrom(0, 1, 3),
});

const rules: fc.Arbitrary<BatchingRules> = fc
  .record({
    instances: fc.integer({ min: 1, max: 3 }),
    maxBatchSize: fc.integer({ min: 1, max: 8 }),
    sizes: fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 3 }),
    delayUs: fc.constantFrom(0, 30, 100),
    levels: fc.constantFrom(0, 0, 1, 3),
    policy: fc.oneof(fc.constant(NO_POLICY), policy),
    own: fc.array(policy, { maxLength: 2 }),
    looksAtEach: fc.boolean(),
  })
  .map(({ sizes, own, ...more }) => ({
    ...more,
    preferred: [
      ...new Set(
        sizes.map((size) => Math.min(size, more.maxBatchSize)).concat(sizes.length ? [] : [more.maxBatchSize]),
      ),
    ].sort((a, b) => a - b),
    defaultLevel: Math.min(2, Math.max(1, more.levels)),
    policies: new Map(own.map((one, at) => [at + 1, one])),
  }));

type Event =
  | {
      readonly kind: "comes";
      readonly size: number;
      readonly priority: number;
      readonly timeoutUs: number;
      readonly like: string;
    }
  | { readonly kind: "passes"; readonly us: number }
  | { readonly kind: "wakes" }
  | { readonly kind: "freed" }
  | { readonly kind: "cancelled"; readonly which: number };

const comes: fc.Arbitrary<Event> = fc.record({
  kind: fc.constant("comes" as const),
  size: fc.integer({ min: 1, max: 4 }),
  priority: fc.integer({ min: 0, max: 5 }),
  timeoutUs: fc.constantFrom(0, 20, 100),
  like: fc.constantFrom("a", "a", "a", "b"),
});
const event: fc.Arbitrary<Event> = fc.oneof(
  { arbitrary: comes, weight: 5 },
  { arbitrary: fc.constant({ kind: "freed" as const }), weight: 3 },
  {
    arbitrary: fc.record({
      kind: fc.constant("passes" as const),
      us: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ max: 1_200_000, min: 0 })),
    }),
    weight: 2,
  },
  { arbitrary: fc.constant({ kind: "wakes" as const }), weight: 2 },
  { arbitrary: fc.record({ kind: fc.constant("cancelled" as const), which: fc.nat(20) }), weight: 1 },
);

const shown = ({ run, rejected, cancelled, wakeUs }: BatchOrders<Request>) => ({
  run: run.map((batch) => batch.map(({ id }) => id)),
  rejected: rejected.map(({ id }) => id),
  cancelled: cancelled.map(({ id }) => id),
  wakeUs,
});

test(`${CASES} histories give the orders of the plain model, and each request is ordered once`, () => {
  let [orders, batches] = [0, 0];
  const history = (config: BatchingRules, events: readonly Event[]) => {
    const [real, plain] = [new DynamicBatcher<Request>(config), new PlainBatcher<Request>(config)];
    const all: Request[] = [];
    const open = new Set<number>();
    let [nowUs, busy] = [0, 0];
    let wakeUs: number | null = null;
    for (const one of events) {
      if (one.kind === "passes") nowUs += one.us;
      else if (one.kind === "wakes") nowUs = Math.max(nowUs, wakeUs ?? nowUs);
      else if (one.kind === "freed") {
        if (busy === 0) continue;
        busy--;
        real.freed();
        plain.freed();
      } else if (one.kind === "cancelled") {
        const request = all[one.which];
        if (request) request.cancelled = true;
      } else {
        const { size, priority, timeoutUs, like } = one;
        const batchSize = Math.min(size, config.maxBatchSize);
        const request = { id: all.length, batchSize, priority, timeoutUs, likeness: like, cancelled: false };
        all.push(request);
        const taken = real.enqueue(request, nowUs);
        expect(taken).toBe(plain.enqueue(request, nowUs));
        if (taken) open.add(request.id);
      }
      const [got, wanted] = [shown(real.orders(nowUs)), shown(plain.orders(nowUs))];
      expect(got).toEqual(wanted);
      wakeUs = got.wakeUs;
      busy += got.run.length;
      expect(busy).toBeLessThanOrEqual(config.instances);
      for (const batch of got.run) {
        batches++;
        const likes = new Set(batch.map((id) => all[id]!.likeness));
        expect(likes.size).toBe(1);
        expect(batch.reduce((sum, id) => sum + all[id]!.batchSize, 0)).toBeLessThanOrEqual(config.maxBatchSize);
      }
      for (const id of [...got.run.flat(), ...got.rejected, ...got.cancelled]) expect(open.delete(id)).toBe(true);
      expect(plain.waiting).toBe(open.size);
      orders++;
    }
  };
  fc.assert(fc.property(rules, fc.array(event, { minLength: 1, maxLength: 40, size: "max" }), history), {
    numRuns: CASES,
    seed,
  });
  figure("batcherCases", CASES);
  figure("orders", orders);
  figure("batches", batches);
});

/** Sends requests of size 1 that run for `runUs` each. Returns the batches with the times at which they began. */
function played(scheduler: Scheduler<Request>, arrivals: readonly number[], runUs: number) {
  const began: (readonly [us: number, ids: readonly number[]])[] = [];
  const due: [us: number, act: () => void][] = arrivals.map((us, id) => [
    us,
    () => scheduler.enqueue({ id, batchSize: 1, priority: 0, timeoutUs: 0, likeness: "", cancelled: false }, us),
  ]);
  while (due.length > 0) {
    due.sort(([a], [b]) => a - b);
    const [nowUs, act] = due.shift()!;
    act();
    const { run, wakeUs } = scheduler.orders(nowUs);
    for (const batch of run) {
      began.push([nowUs, batch.map(({ id }) => id)]);
      due.push([nowUs + runUs, () => scheduler.freed(0)]);
    }
    if (wakeUs !== null) due.push([wakeUs, () => {}]);
  }
  return began;
}

const of = (more: Partial<BatchingRules>) =>
  new DynamicBatcher<Request>({
    instances: 1,
    maxBatchSize: 8,
    preferred: [8],
    delayUs: 0,
    levels: 0,
    defaultLevel: 0,
    policy: NO_POLICY,
    policies: new Map(),
    ...more,
  });

test("without a delay, a free instance takes all queued requests as a batch", () => {
  const began = played(of({}), [0, 10, 20, 30], 100);
  expect(began).toEqual([
    [0, [0]],
    [100, [1, 2, 3]],
  ]);
});

test("with a delay a batch waits for a preferred size, and no longer than that", () => {
  expect(played(of({ preferred: [4], delayUs: 1000 }), [0, 10, 20, 30], 100)).toEqual([[30, [0, 1, 2, 3]]]);
  expect(played(of({ preferred: [4], delayUs: 1000 }), [0, 10], 100)).toEqual([[1000, [0, 1]]]);
});

test("more instances shorten the wait, and larger batches do, too", () => {
  const arrivals = Array.from({ length: 16 }, (_, at) => at);
  const waited = (scheduler: Scheduler<Request>) =>
    played(scheduler, arrivals, 100).reduce((sum, [us, ids]) => sum + ids.reduce((all, id) => all + us - id, 0), 0);
  const alone = waited(new DefaultScheduler<Request>(1));
  const two = waited(new DefaultScheduler<Request>(2));
  const batched = waited(of({}));
  expect(two).toBeLessThan(alone);
  expect(batched).toBeLessThan(two);
});

/** Like `played`, with arrivals, run time and result in milliseconds. */
const playedMs = (rules: Partial<BatchingRules>, arrivalsMs: readonly number[], runMs: number) =>
  played(
    of(rules),
    arrivalsMs.map((ms) => ms * 1000),
    runMs * 1000,
  ).map(([us, ids]) => [us / 1000, ids] as const);
const PAIRS = { preferred: [2], delayUs: 400_000 };

test("a request below the noted preferred size waits for its own delay instead of joining the batch", () => {
  expect(playedMs(PAIRS, [0, 10, 20, 30, 40], 300)).toEqual([
    [10, [0, 1]],
    [310, [2, 3]],
    [610, [4]],
  ]);
  // Request 4 waits for 400 ms, although the instance is free.
  expect(playedMs(PAIRS, [0, 10, 20, 30, 40], 100)).toEqual([
    [10, [0, 1]],
    [110, [2, 3]],
    [440, [4]],
  ]);
});

test("requests that reach the noted preferred size join the batch that waits", () => {
  expect(playedMs(PAIRS, [0, 10, 20, 30, 40, 50], 300)).toEqual([
    [10, [0, 1]],
    [310, [2, 3, 4]],
    [610, [5]],
  ]);
  expect(playedMs({ preferred: [2, 4], delayUs: 400_000 }, [0, 10, 20, 30, 40, 50], 300)).toEqual([
    [10, [0, 1]],
    [310, [2, 3, 4, 5]],
  ]);
});

test("a batch whose delay is over does not grow until the preferred size is reached", () => {
  expect(playedMs({ delayUs: 100_000 }, [0, 150, 300, 310], 400)).toEqual([
    [100, [0]],
    [500, [1]],
    [900, [2, 3]],
  ]);
});

test("every arrival wakes the batcher if shapes may differ, or without a delay", () => {
  expect(playedMs({ ...PAIRS, looksAtEach: true }, [0, 10, 20, 30, 40], 300)[1]).toEqual([310, [2, 3, 4]]);
  expect(playedMs({ preferred: [2] }, [0, 10, 20, 30, 40], 300)).toEqual([
    [0, [0]],
    [300, [1, 2]],
    [600, [3, 4]],
  ]);
});

test("the batcher checks its queue half a second after its last check", () => {
  expect(playedMs(PAIRS, [0, 10, 20, 30, 40], 519)[1]).toEqual([529, [2, 3]]);
  expect(playedMs(PAIRS, [0, 10, 20, 30, 40], 521)[1]).toEqual([531, [2, 3, 4]]);
});

test("batches that waited longer than the delay run together, up to the largest batch", () => {
  const pairs = { preferred: [2], delayUs: 50_000 };
  const arrivals = [0, 1, 2, 3, 4, 5, 6];
  expect(playedMs(pairs, arrivals, 300)).toEqual([
    [1, [0, 1]],
    [301, [2, 3, 4, 5, 6]],
  ]);
  expect(playedMs({ ...pairs, maxBatchSize: 3 }, arrivals, 300).map(([, ids]) => ids.length)).toEqual([2, 3, 2]);
  expect(playedMs({ preferred: [2], delayUs: 400_000 }, arrivals, 300).map(([, ids]) => ids.length)).toEqual([2, 3, 2]);
});
