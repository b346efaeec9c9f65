/**
 * Tests that our own metrics keep all laws under random load, with all dialects on one page. In simulated time, with
 * disconnects, preemptions, refusals and idle phases. Then the same with each bug mode, which must break a law.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { bugs } from "../../../../src/metrics/bugs/table.ts";
import { BUG_NAMES } from "../../../../src/metrics/config/bug-names.ts";
import { checkScrapes } from "../../../../src/tools/check/index.ts";
import { figure, sampled, sized, times } from "../../../size.ts";
import { anyLoad, LEAST_S, type Load, START_S, scraped } from "./scraped-pages.ts";

setDefaultTimeout(sized("laws", { sample: 120_000, whole: 1_800_000 }));

const RUNS = sized("laws", { sample: 8, whole: 200 });

test("random load breaks no law", async () => {
  const seen = { seconds: 0, scrapes: 0, left: 0, preemptions: 0, tooLong: 0, rests: 0 };
  const property = fc.asyncProperty(anyLoad, async (load) => {
    const { scrapes, counts, preemptions, seconds } = await scraped(load);
    const clean = counts.left === 0 && counts.tooLong === 0 && counts.busy === 0;
    const { maxNumSeqs, maxModelLen } = load.options as { maxNumSeqs: number; maxModelLen: number };
    const { violated, laws, unreadable } = checkScrapes(scrapes, { clean, parameters: { maxNumSeqs, maxModelLen } });
    expect(violated.flatMap(({ violations }) => violations[0])).toEqual([]);
    expect(unreadable).toEqual([]);
    seen.seconds += seconds;
    seen.scrapes += scrapes.length;
    seen.left += counts.left;
    seen.preemptions += preemptions;
    seen.tooLong += counts.tooLong;
    seen.rests += laws.find(({ id }) => id === "G19")!.looks;
  });
  await fc.assert(property, { numRuns: times(RUNS) });
  expect(seen.seconds).toBeGreaterThan(Math.min(times(RUNS), RUNS) * LEAST_S);
  expect(Math.min(seen.left, seen.preemptions, seen.tooLong, seen.rests)).toBeGreaterThan(10);
  figure("loads", times(RUNS));
  figure("seen", seen);
});

/** Long answers for clients that wait at most four seconds, on a small KV pool. Some prompts are too long. Then an idle phase. */
const IMPATIENT: Load = {
  options: {
    maxModelLen: 2048,
    maxNumSeqs: 16,
    numGpuBlocksOverride: 160,
    timing: "linear:base=10ms,prefill=0.01ms,decode=0.1ms",
  },
  engines: 1,
  fixes: [],
  summaries: false,
  phases: [
    { seconds: 5, perSecond: 8, promptMost: 2400, outputMost: 60 },
    { seconds: 15, perSecond: 8, promptMost: 150, outputMost: 1500 },
  ],
  clients: { stopShare: 0, patienceUs: [500_000, 4_000_000], seed: 1 },
  intervalS: 4,
  seed: 3,
};
/** The last client has disconnected before the previous scrape. */
const QUIET_FROM_S = START_S + 20 + 5 + IMPATIENT.intervalS;

/** Bug modes that need several processes, or an engine that refuses requests, which a simulation does not have. */
const SHOWN = BUG_NAMES.filter((name) => name !== "worker-saw-tooth" && name !== "failures-succeed");

test.each(sampled("laws", SHOWN, 8))("bug mode %s is found in simulated time", async (name) => {
  const { scrapes } = await scraped(IMPATIENT, [name]);
  const known = scrapes.map((scrape) => ({
    ...scrape,
    rest: scrape.atS! > QUIET_FROM_S && scrape.atS! < START_S + LEAST_S,
  }));
  const laws = Object.keys(bugs[name].finds).filter((law) => bugs[name].finds[law] !== "clean, rest");
  const { violated } = checkScrapes(known, { only: laws });
  expect(violated.map(({ id }) => id).sort()).toEqual([...laws].sort());
});

test("the same load without a bug mode breaks none of these laws", async () => {
  const { scrapes, preemptions, counts } = await scraped(IMPATIENT);
  expect(Math.min(preemptions, counts.left, counts.tooLong)).toBeGreaterThan(0);
  const known = scrapes.map((scrape) => ({
    ...scrape,
    rest: scrape.atS! > QUIET_FROM_S && scrape.atS! < START_S + LEAST_S,
  }));
  expect(checkScrapes(known).violated).toEqual([]);
});
