/** Tests the times at which the parts of a step were written, and the times of tokens that follow from them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Engine } from "../../src/engine/engine.ts";
import type { StepFacts } from "../../src/engine/observer.ts";
import { type RunsLine, TokenTimes } from "../../src/tools/load/token-times.ts";
import { formatPage } from "../../src/truth/format.ts";
import { Page } from "../../src/truth/page.ts";
import type { StepLine } from "../../src/truth/schema.ts";
import { LateClock } from "../engine/late-clock.ts";
import { configOf, debug, EOS, generationOf } from "../engine/simulated-engine.ts";
import { times } from "../size.ts";

interface WriteTimes {
  readonly steps: readonly StepLine[];
  /** Times at which each request's receiver got its tokens, by order. */
  readonly handedUs: readonly (readonly number[])[];
  readonly rows: readonly RunsLine[];
}

/** Time also passes while a step is written. */
class WritingClock extends LateClock {
  writingUs = 0;
  constructor() {
    super(() => 0);
  }
  override now(): number {
    return super.now() + this.writingUs;
  }
}

/** Gives each of `requests` three tokens. Writing the n-th token of a step takes `costUs(n)`. */
function runSteps(requests: number, costUs: (place: number) => number): WriteTimes {
  const clock = new WritingClock();
  const steps: StepLine[] = [];
  const rows: RunsLine[] = [];
  const page = new Page();
  const keep = (facts: StepFacts) => {
    page.clear();
    page.step(0, facts);
    formatPage(page, (text) => steps.push(JSON.parse(text) as StepLine));
    clock.writingUs = 0;
    place = 0;
  };
  let place = 0;
  const engine = new Engine({
    config: configOf({ maxNumSeqs: 200, maxNumBatchedTokens: 4096, numGpuBlocks: 1000 }),
    clock,
    module: debug,
    free: false,
    eosId: EOS,
    observer: {
      step: keep,
      request: ({ order, scheduledUs, runs }) => {
        const all: [number, number, number][] = [];
        for (let at = 0; at < runs.length; at += 3) all.push([runs[at]!, runs[at + 1]!, runs[at + 2]!]);
        rows.push({ engine: 0, order, scheduledUs, runs: all });
      },
      idle() {},
    },
  });
  const handedUs: number[][] = Array.from({ length: requests }, () => []);
  for (const times of handedUs) {
    const generation = generationOf({ promptIds: new Uint32Array([1, 2]), maxTokens: 3, ignoreEos: true });
    engine.submit(generation, {
      onTokens(_ids, _at, count) {
        clock.writingUs += costUs(place++);
        for (let i = 0; i < count; i++) times.push(clock.now());
      },
    });
  }
  clock.inner.drain(100_000);
  return { steps, handedUs, rows };
}

test("a step with at least 64 tokens has the time at which each eighth was written, and a smaller step has none", () => {
  for (const [requests, parts] of [
    [63, undefined],
    [64, 7],
    [130, 7],
  ] as const) {
    const { steps } = runSteps(requests, () => 10);
    const full = steps.filter(({ tokens }) => tokens === requests);
    expect(full).toHaveLength(3);
    for (const { writtenUs, writeStartUs, writeEndUs } of full) {
      expect(writtenUs?.length).toBe(parts);
      const all = [writeStartUs!, ...(writtenUs ?? []), writeEndUs!];
      expect(all).toEqual(all.toSorted((a, b) => a - b));
      for (const [i, us] of (writtenUs ?? []).entries())
        expect(us - writeStartUs!).toBe(10 * Math.ceil((requests * (i + 1)) / 8));
    }
  }
});

test("a step whose writing takes no time has no parts", () => {
  for (const { writtenUs } of runSteps(100, () => 0).steps) expect(writtenUs).toBeUndefined();
});

test("a token's time from the rows is off by at most the unevenness within its part", () => {
  const any = fc.record({
    requests: fc.integer({ min: 64, max: 180 }),
    slow: fc.integer({ min: 0, max: 179 }),
    slowUs: fc.integer({ min: 0, max: 9000 }),
  });
  fc.assert(
    fc.property(any, ({ requests, slow, slowUs }) => {
      const { steps, handedUs, rows } = runSteps(requests, (place) => (place === slow ? slowUs : 8));
      const places = new TokenTimes();
      for (const step of steps) places.add(step);
      const part = Math.ceil(requests / 8) + 1;
      for (const [{ order }, all] of places.of(rows)) {
        // A slow write delays only the tokens of its own part.
        const near = Math.abs(order - slow) <= part;
        for (const [i, time] of all.entries())
          expect(Math.abs(time!.writtenUs - handedUs[order]![i]!)).toBeLessThanOrEqual(near ? slowUs + 8 : 8);
      }
    }),
    { numRuns: times(30) },
  );
});
