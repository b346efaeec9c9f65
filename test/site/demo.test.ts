/** Checks the model of the demo: its settings in the address, its requests, and that the picture has the engine's numbers. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { type BlockList, BlockMap, FREE } from "../../scripts/site/demo/block-map.ts";
import { readSettings, type Settings, SLIDER_NAMES, SLIDERS, writeSettings } from "../../scripts/site/demo/settings.ts";
import { OPEN_MOST, Simulation } from "../../scripts/site/demo/simulation.ts";
import { arrivals } from "../../scripts/site/demo/traffic.ts";
import { times } from "../size.ts";

setDefaultTimeout(60_000);

let core: Uint8Array;
beforeAll(async () => {
  core = await Bun.file(new URL("../../build/core.wasm", import.meta.url)).bytes();
});

const sliderValues = SLIDER_NAMES.map((name) => {
  const { least, most, step } = SLIDERS[name];
  return [name, fc.integer({ min: 0, max: (most - least) / step }).map((steps) => least + steps * step)] as const;
});
const settings = fc.record({
  ...(Object.fromEntries(sliderValues) as Record<(typeof SLIDER_NAMES)[number], fc.Arbitrary<number>>),
  seed: fc.nat(2 ** 32 - 1),
});

test("settings survive the way through the address, and other parameters stay", () => {
  fc.assert(
    fc.property(settings, fc.constantFrom("", "?from=mail&load=3"), (some, query) => {
      const written = writeSettings(some, query);
      expect(readSettings(written)).toEqual(some);
      expect(written.includes("from=mail")).toBe(query !== "");
    }),
    { numRuns: times(300) },
  );
});

test("any address gives settings within the sliders' ranges", () => {
  const text = fc.oneof(fc.string(), fc.double().map(String), fc.constantFrom("", " ", "1e9", "-1", "0x10"));
  const pairs = fc.array(fc.tuple(fc.constantFrom(...SLIDER_NAMES, "seed"), text));
  // Pieces of a query in any order: names, signs, escapes that are whole or cut off, half a surrogate, and a long run of digits.
  const piece = fc.constantFrom(
    ...SLIDER_NAMES,
    ..."seed = & + ? # %20 %f %C3 %00 \ud800 e308 . -".split(" "),
    "9".repeat(400),
  );
  const query = fc.oneof(
    pairs.map((some) => `${new URLSearchParams(some)}`),
    fc.array(fc.oneof(piece, fc.string({ unit: "binary" })), { maxLength: 12 }).map((pieces) => pieces.join("")),
  );
  fc.assert(
    fc.property(query, (some) => {
      const read = readSettings(`?${some}`);
      for (const name of SLIDER_NAMES) {
        const { least, most, step } = SLIDERS[name];
        expect(read[name]).toBeWithin(least, most + 1);
        expect((read[name] - least) % step).toBe(0);
      }
      expect(Number.isInteger(read.seed) && read.seed >= 0 && read.seed < 2 ** 32).toBe(true);
      expect(readSettings(writeSettings(read, `?${some}`))).toEqual(read);
    }),
    { numRuns: times(300) },
  );
});

test("requests arrive in order, at about the chosen load, and the seed decides them", () => {
  fc.assert(
    fc.property(fc.integer({ min: 20, max: 100 }), fc.nat(), (load, seed) => {
      const source = arrivals(load, seed);
      const drawn = Array.from({ length: load * 90 }, () => source.next().value!);
      for (const [at, { atUs, promptTokens, outputTokens }] of drawn.entries()) {
        expect(atUs).toBeGreaterThan(drawn[at - 1]?.atUs ?? 0);
        expect(Math.min(promptTokens, outputTokens)).toBeGreaterThan(0);
        expect(promptTokens + outputTokens).toBeLessThan(4096);
      }
      expect(drawn.at(-1)!.atUs / 90e6).toBeWithin(0.85, 1.15);
      expect(arrivals(load, seed).next().value).toEqual(drawn[0]);
    }),
    { numRuns: times(9) },
  );
  expect(arrivals(0, 1).next().done).toBe(true);
});

test("a block has one owner, and a list has the blocks that it asked for as long as there are free ones", () => {
  const sizes = fc.array(fc.tuple(fc.nat(5), fc.nat(40)), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), sizes, (count, changes) => {
      const map = new BlockMap(count);
      const lists: BlockList[] = Array.from({ length: 6 }, () => []);
      for (const [owner, size] of changes) {
        const most = lists[owner]!.length + map.free;
        map.resize(lists[owner]!, owner, size);
        expect(lists[owner]!.length).toBe(Math.min(size, most));
        const owners = new Array(count).fill(FREE);
        for (const [at, list] of lists.entries()) for (const block of list) owners[block] = at;
        expect([...map.owners]).toEqual(owners);
        expect(map.free).toBe(owners.filter((one) => one === FREE).length);
      }
    }),
    { numRuns: times(200) },
  );
});

/** Describes the last step and all open requests. */
function stateOf({ history, open, preemptions, turnedAway }: Simulation): unknown {
  const rows = Object.values(history.columns).map((column) => column[(history.count - 1) % history.size]);
  const requests = open.map(({ order, run, isRunning, blocks }) => [
    order,
    run.tokens.length,
    isRunning,
    blocks.length,
  ]);
  return { count: history.count, rows, requests, preemptions, turnedAway };
}

test("the same settings give the same steps, however the time is cut into frames", async () => {
  const cuts = fc.array(fc.integer({ min: 1, max: 900_000 }), { minLength: 3, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(settings, cuts, async (some, slices) => {
      const [whole, cut] = await Promise.all([Simulation.create(some, core), Simulation.create(some, core)]);
      const endUs = slices.reduce((sum, slice) => sum + slice, 0);
      whole.advance(endUs);
      let untilUs = 0;
      for (const slice of slices) {
        untilUs += slice;
        let steps = 0;
        cut.advance(untilUs, () => steps++ < 7);
        cut.advance(untilUs);
      }
      expect(stateOf(cut)).toEqual(stateOf(whole));
      for (const simulation of [whole, cut]) simulation.close();
    }),
    { numRuns: times(12) },
  );
});

/** Expects that the picture's state after a step agrees with the engine's numbers. */
function expectAgreement(simulation: Simulation, { budget }: Settings): void {
  const { history, open, blocks, places } = simulation;
  const last = (name: keyof typeof history.columns) => history.value(name, history.count - 1);
  const held = open.map((request) => request.blocks.length);
  expect(held.reduce((sum, count) => sum + count, 0)).toBe(last("blocksUsed"));
  expect(blocks.owners.length - blocks.free).toBe(last("blocksUsed"));
  const running = open.filter(({ isRunning }) => isRunning);
  expect(running).toHaveLength(last("running"));
  expect(open.slice(0, running.length)).toEqual(running);
  expect(places.filter((request) => request !== undefined).sort((a, b) => a.order - b.order)).toEqual(running);
  // Requests wait some milliseconds for their tokenization before they are in the queue.
  expect(last("running") + last("waiting")).toBeWithin(open.length - 20, open.length + 1);
  expect(last("decode") + last("prefill")).toBeLessThanOrEqual(budget);
  expect(open.length).toBeLessThanOrEqual(OPEN_MOST);
  for (const { isRunning, blocks: own, run } of open) {
    if (!isRunning) expect(own).toEqual([]);
    else expect(own.length).toBeLessThanOrEqual(Math.ceil((run.promptTokens + run.tokens.length) / 16));
  }
}

test("an open request above the limit is turned away and counted", async () => {
  const simulation = await Simulation.create({ ...readSettings(""), load: 100, blocks: 300 }, core);
  simulation.advance(30e6);
  expect(simulation.turnedAway).toBeGreaterThan(0);
  expect(simulation.open.length).toBeLessThanOrEqual(OPEN_MOST);
  expect(OPEN_MOST).toBe(1000);
  simulation.close();
});

/** Advances the simulation by a step at most, unless several end within 20 ms. Returns the number of steps. */
function advanceOneStep(simulation: Simulation): number {
  const before = simulation.history.count;
  simulation.advance(simulation.nowUs + 20_000, () => simulation.history.count === before);
  return simulation.history.count - before;
}

test("after every step the picture has the engine's requests, blocks, tokens and preemptions", async () => {
  await fc.assert(
    fc.asyncProperty(settings, async (some) => {
      const simulation = await Simulation.create(some, core);
      let lost = 0;
      for (let turn = 0; turn < 300; turn++) {
        const before = simulation.open.map((request) => ({ ...request, tokens: request.run.tokens.length }));
        const preemptions = simulation.preemptions;
        if (advanceOneStep(simulation) === 0) continue;
        // Tokens come only to requests that ran at the end of the step before, unless the engine was idle then.
        const receivers = before.filter(({ run, tokens }) => run.tokens.length > tokens);
        if (before.some(({ isRunning }) => isRunning)) expect(receivers.every(({ isRunning }) => isRunning)).toBe(true);
        // A preemption is visible when its step is planned, and counted at the end of that step.
        expect(simulation.preemptions - preemptions).toBe(lost);
        const after = new Map(simulation.open.map((request) => [request.order, request.preemptions]));
        lost = before.filter((request) => (after.get(request.order) ?? 0) > request.preemptions).length;
        if (turn % 10 === 0) expectAgreement(simulation, some);
      }
      // No request is so large that it blocks the queue for ever.
      if (simulation.open.length > 20) expect(simulation.open[0]!.isRunning).toBe(true);
      simulation.close();
    }),
    { numRuns: times(12) },
  );
});
