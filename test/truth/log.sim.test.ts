/** Compares the truth log with the metrics, with the times at which receivers got tokens, and with itself at other speeds. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Finish, Submission } from "../../src/engine/interface/types.ts";
import type { RequestLine } from "../../src/truth/schema.ts";
import { times } from "../size.ts";
import { dueTimes, type Plan, plain, type Run, run } from "./simulated-run.ts";

const runs = (normal: number) => ({ numRuns: times(normal) });
const sum = <T>(rows: readonly T[], of: (row: T) => number) => rows.reduce((total, row) => total + of(row), 0);
const tokensOf = ({ runs }: RequestLine) => sum(runs, ([, steps, width = 1]) => steps * width);

const plans: fc.Arbitrary<Plan> = fc.record({
  seed: fc.nat(2 ** 31 - 1),
  requests: fc.integer({ min: 1, max: 60 }),
  config: fc.record({
    asyncScheduling: fc.boolean(),
    schedulingPolicy: fc.constantFrom("fcfs" as const, "priority" as const),
    enablePrefixCaching: fc.boolean(),
    maxNumScheduledTokens: fc.constantFrom(4, 64),
    timing: fc.constantFrom(
      { kind: "linear" as const, baseUs: 1000, prefillUs: 10, decodeUs: 20 },
      { kind: "constant" as const, ttftUs: 9000, itlUs: 1500 },
      { kind: "none" as const },
    ),
  }),
});

function expectTotals({ steps, requests, snapshot, end }: Run): void {
  const entered = requests.filter(({ queuedUs }) => queuedUs !== null);
  const counted = entered.filter(({ reason }) => reason !== null);
  const started = requests.filter(({ runs }) => runs.length > 0);
  expect(sum(steps, ({ tokens }) => tokens)).toBe(snapshot.generationTokens);
  expect(sum(requests, tokensOf)).toBe(snapshot.generationTokens);
  expect(sum(steps, ({ preemptions }) => preemptions)).toBe(snapshot.preemptions);
  expect(sum(started, ({ promptTokens }) => promptTokens)).toBe(snapshot.promptTokens);
  expect(sum(started, ({ cachedTokens }) => cachedTokens)).toBe(snapshot.promptTokensCached);
  expect(sum(requests, ({ cachedTokens }) => cachedTokens)).toBe(snapshot.prefixHits);
  for (const [index, reason] of (["stop", "length", "abort", "error", "repetition"] as const).entries()) {
    expect(counted.filter((row) => row.reason === reason).length).toBe(snapshot.finished[index]!);
  }
  const whole = counted.filter(({ reason }) => reason !== "abort");
  const { e2eLatency, timeToFirstToken, queueTime, generationTokens, prefillTime } = snapshot.histograms;
  const seconds = (rows: readonly RequestLine[], of: (row: RequestLine) => number) => sum(rows, of) / 1e6;
  expect(e2eLatency.count).toBe(whole.length);
  expect(seconds(whole, ({ endUs, arrivalUs }) => endUs! - arrivalUs)).toBeCloseTo(e2eLatency.sum, 9);
  expect(seconds(whole, ({ scheduledUs, queuedUs }) => scheduledUs! - queuedUs!)).toBeCloseTo(queueTime.sum, 9);
  expect(seconds(whole, ({ prefillEndUs, scheduledUs }) => prefillEndUs! - scheduledUs!)).toBeCloseTo(
    prefillTime.sum,
    9,
  );
  expect(seconds(started, ({ prefillEndUs, arrivalUs }) => prefillEndUs! - arrivalUs)).toBeCloseTo(
    timeToFirstToken.sum,
    9,
  );
  expect(sum(whole, ({ outputTokens }) => outputTokens)).toBe(generationTokens.sum);
  expect(end).toEqual({
    type: "end",
    steps: steps.length,
    requests: requests.length,
    dropped: { run: 0, step: 0, request: 0 },
  });
}

test("the log's totals equal the metrics, and its token times equal the receivers'", async () => {
  let preemptions = 0;
  let several = 0;
  let aborts = 0;
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const result = await run(plan);
      const { steps, requests, tokenTimes } = result;
      expectTotals(result);
      expect(requests.length).toBe(plan.requests);
      expect(steps.map(({ step }) => step)).toEqual(steps.map((_, i) => i + 1));
      for (const row of requests) {
        const times = tokenTimes.get(row.id)!;
        // If another request's receiver ends this request in the same step, this request's token was counted but not
        // received.
        expect(dueTimes(row, steps).slice(0, times.length)).toEqual(times);
        expect(tokensOf(row) - times.length).toBeLessThanOrEqual(1);
        expect(row.bytes).toBe(10 * times.length);
        if (times.length > 0) expect(row.prefillEndUs).toBe(times[0]!);
        expect(row.preempted.length).toBe(row.preemptions);
        for (const { us, resumedUs } of row.preempted) {
          expect(us).toBeGreaterThanOrEqual(row.scheduledUs!);
          if (resumedUs !== null) expect(resumedUs).toBeGreaterThanOrEqual(us);
        }
        preemptions += row.preemptions;
        if (row.runs.length > 1) several++;
        if (row.reason === "abort") aborts++;
      }
    }),
    runs(60),
  );
  // The plans do preempt, interrupt and abort requests.
  expect(Math.min(preemptions, several, aborts)).toBeGreaterThan(20);
});

test("a request that ended since the last abort point is still admitted, and metrics and log agree", async () => {
  const promptIds = Uint32Array.from({ length: 64 }, (_, i) => i);
  const nobody = { onTokens() {} };
  const result = await run({
    seed: 0,
    requests: 3,
    config: { maxNumActiveSeqs: 1 },
    submit: (engine, clock) => {
      engine.submit({ ...plain, id: "first", promptIds, maxTokens: 1 }, nobody);
      // Only one request may run. The preempted one waits until the other's last token, while a step is open, and ends
      // just before the next plan.
      const killer = {
        onTokens(_ids: Int32Array, _at: number, _count: number, finish: Finish | null) {
          if (finish !== null) victim.cancel();
        },
      };
      let victim: Submission;
      clock.at(50_000, () => {
        engine.submit({ ...plain, id: "killer", arrivalUs: 50_000 }, killer);
        victim = engine.submit({ ...plain, id: "victim", promptIds, arrivalUs: 50_000 }, nobody) as Submission;
      });
    },
  });
  const victim = result.requests.find(({ id }) => id === "victim")!;
  expect(victim).toMatchObject({ reason: "abort", outputTokens: 0, runs: [], cachedTokens: 60 });
  expect(victim.scheduledUs).toBe(victim.endUs);
  expectTotals(result);
});

test("the log is the same at any speed of the clock", async () => {
  await fc.assert(
    fc.asyncProperty(plans, fc.constantFrom(7, 1000, 250_000), async (plan, sliceUs) => {
      const whole = await run(plan);
      const { text } = await run(plan);
      expect(text === whole.text).toBe(true);
      const sliced = await run({ ...plan, sliceUs: Math.max(sliceUs, 100) });
      expect(sliced.text === whole.text).toBe(true);
    }),
    runs(10),
  );
});

test("stopping an engine writes a row for every request in progress", async () => {
  let open = 0;
  await fc.assert(
    fc.asyncProperty(plans, fc.integer({ min: 10_000, max: 60_000 }), async (plan, untilUs) => {
      const result = await run({ ...plan, untilUs });
      for (const { reason, endUs } of result.requests) expect(reason === null).toBe(endUs === null);
      expect(result.requests.length).toBe(result.tokenTimes.size);
      open += result.requests.filter(({ reason }) => reason === null).length;
      expectTotals(result);
    }),
    runs(20),
  );
  expect(open).toBeGreaterThan(20);
});

test("the header describes the run", async () => {
  const { header } = await run({ seed: 1, requests: 1, config: { seed: 77 } });
  expect(header).toMatchObject({ type: "header", schema: 1, file: 0, seed: 77, engines: 1, epochUs: null });
  expect(header.engine.blockSize).toBe(4);
});
