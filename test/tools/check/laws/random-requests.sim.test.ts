/**
 * Tests that all laws hold for random operations: stop strings, scripts, priorities, disconnects at any moment, pauses that
 * abort or keep requests, cache resets. After each operation a page of all dialects is judged.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { engineConfig } from "../../../../src/embed/options.ts";
import type { EngineConfig } from "../../../../src/engine/config/engine-config.ts";
import { Ensemble } from "../../../../src/metrics/ensemble/ensemble.ts";
import { pages } from "../../../../src/metrics/page.ts";
import { copiesReader, SnapshotCopies } from "../../../../src/metrics/rows/held.ts";
import { setupOf } from "../../../../src/metrics/setup.ts";
import { checkScrapes, type Scrape } from "../../../../src/tools/check/index.ts";
import { anyConfig, anyRequest, live } from "../../../engine/random-requests.ts";
import { World } from "../../../engine/simulated-engine.ts";
import { emptySnapshot } from "../../../metrics/snapshots.ts";
import { times } from "../../../size.ts";

setDefaultTimeout(60_000);

const START_S = 1_790_000_000;
/** Delay after which TensorRT-LLM's gauges are up to date. */
const SETTLED_US = 200_000;

/** A simulated server and its page. */
function scraped(config: EngineConfig) {
  const server = { ...engineConfig({}), engine: config };
  const { identity, shape, refreshes } = setupOf(
    { ...server, metrics: { ...server.metrics, triton: { ...server.metrics.triton, cpu: false, histograms: true } } },
    START_S,
    [],
    false,
  );
  const world = new World(config, {
    more: (clock) => ({
      meters: new Ensemble([], () => clock.now(), START_S * 1e6),
      loopObservers: [{ updating: (nowUs) => held.before(nowUs) }],
    }),
  });
  const { front } = emptySnapshot();
  const rest = { ...emptySnapshot(), front: { ...front, http: { ...front.http, routes: [] } } };
  const held = new SnapshotCopies(shape, refreshes, (fresh) => ({ ...rest, engines: [world.engine.view(fresh)] }), 0);
  const read = copiesReader(shape, refreshes);
  const print = pages(identity);
  const scrapes: Scrape[] = [];
  const look = async (rest = false) => {
    const nowUs = world.clock.now();
    scrapes.push({ text: await print("all", read(held.refresh(nowUs))), atS: START_S + nowUs / 1e6, rest });
  };
  return { world, scrapes, look };
}

const anyEvent = fc.record({
  // V08 warns about requests that skip the prefix cache, because no metric counts them.
  request: anyRequest.map((request) => ({ ...request, skip: false })),
  after: fc.constantFrom("", "", "scrape", "scrape", "abort", "keep", "reset", "quiet"),
});

test("random requests, pauses and cache resets at any time break no law", async () => {
  const seen = { aborts: 0, refused: 0, preemptions: 0, scrapes: 0 };
  const property = fc.asyncProperty(anyConfig, fc.array(anyEvent, { maxLength: 30 }), async (config, events) => {
    const { world, scrapes, look } = scraped(config);
    const { clock, engine } = world;
    const pass = (us: number) => clock.advanceTo(clock.now() + us);
    await look(true);
    for (const { request, after } of events) {
      pass(Math.max(1, request.gapUs));
      live(world, request);
      if (after === "abort" || after === "keep") {
        engine.pause(after);
        pass(500);
        await look();
        engine.resume();
      }
      if (after === "reset") engine.resetPrefixCache(true);
      if (after === "quiet") pass(SETTLED_US);
      if (after !== "") await look();
    }
    clock.drain(2_000_000);
    pass(SETTLED_US);
    await look();
    pass(SETTLED_US);
    await look(true);
    const { maxNumSeqs, maxModelLen } = config;
    const { violated, unreadable } = checkScrapes(scrapes, { parameters: { maxNumSeqs, maxModelLen } });
    expect(violated.flatMap(({ violations }) => violations[0])).toEqual([]);
    expect(unreadable).toEqual([]);
    const { abortedByEngine, preemptions } = engine.snapshot();
    seen.aborts += abortedByEngine;
    seen.preemptions += preemptions;
    seen.refused += world.refused;
    seen.scrapes += scrapes.length;
  });
  await fc.assert(property, { numRuns: times(40), seed: 3 });
  expect(Math.min(seen.aborts, seen.preemptions, seen.scrapes)).toBeGreaterThan(10);
});
