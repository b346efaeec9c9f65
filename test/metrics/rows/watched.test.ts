/** Checks that a page of changed rows equals a page that is printed from scratch. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { PROFILES } from "../../../src/metrics/config/metrics-profiles.ts";
import { type View, views } from "../../../src/metrics/dialects.ts";
import { ensembleWidth } from "../../../src/metrics/ensemble/ensemble.ts";
import { pages } from "../../../src/metrics/page.ts";
import { Layout } from "../../../src/metrics/rows/flat.ts";
import { copiesLength, copiesReader } from "../../../src/metrics/rows/held.ts";
import type { Identity } from "../../../src/metrics/rows/identity.ts";
import type { Refresh } from "../../../src/metrics/rows/table.ts";
import { ChangeTracker } from "../../../src/metrics/rows/watched.ts";
import { times } from "../../size.ts";
import { identity, setup } from "../snapshots.ts";

// Polls depend on the time since the last poll, so pages with polls are not a function of the numbers. Here nothing
// polls.
const triton = { ...identity.triton, intervalMs: 1e15 };
const meters = ensembleWidth(triton.quantiles.length);
const shape = { ...setup.shape, engines: 2, adapters: 2, truth: true, meters };
const refreshes: readonly Refresh[] = setup.refreshes;
const length = copiesLength(shape, refreshes);

/** Few numbers change from page to page, and some return to an earlier value. */
const move = fc.tuple(
  fc.nat(length - 1),
  fc.oneof(fc.nat(3), fc.nat(2_000_000), fc.constantFrom(-0, 0.5, Number.NaN, 1e16)),
);
const steps = fc.array(
  fc.record({
    moves: fc.array(move, { maxLength: 12 }),
    view: fc.constantFrom<View>(...views),
    format: fc.constantFrom("text" as const, "openmetrics" as const),
  }),
  { minLength: 2, maxLength: 12 },
);

const servers: fc.Arbitrary<Identity> = fc
  .record({
    profile: fc.constantFrom(...PROFILES),
    showHidden: fc.boolean(),
    maxLoras: fc.constantFrom(0, 2),
    fixes: fc.constantFrom([], ["abort-counted" as const]),
    parsesTools: fc.boolean(),
  })
  .map((some) => ({ ...identity, triton, adapters: ["one", "two"], ...some }));

test("a page of changed rows equals a page from scratch", () =>
  fc.assert(
    fc.asyncProperty(servers, steps, async (server, steps) => {
      const read = copiesReader(shape, refreshes);
      const print = pages(server);
      const numbers = new Float64Array(length);
      for (const { moves, view, format } of steps) {
        for (const [at, value] of moves) numbers[at] = value;
        const anew = pages(server)(view, copiesReader(shape, refreshes)(numbers), format);
        expect(await print(view, read(numbers), format)).toBe(await anew);
      }
    }),
    { numRuns: times(60) },
  ));

test("tracked snapshots equal those of a layout, and every access is recorded", () =>
  fc.assert(
    fc.property(fc.array(move, { maxLength: 200 }), fc.array(move, { maxLength: 5 }), (moves, more) => {
      const numbers = new Float64Array(length);
      const layout = new Layout(shape);
      const watched = new ChangeTracker(shape, refreshes.length);
      const reads: number[] = [];
      for (const some of [moves, more]) {
        const before = numbers.slice();
        for (const [at, value] of some) numbers[at] = value;
        const moved = numbers.some((number, at) => !Object.is(number, before[at]));
        const { turn } = watched;
        watched.take(numbers);
        expect(watched.movedSince(turn, reads)).toBe(reads.length > 0 && moved);
        const copies = watched.watch(reads, () => structuredClone(watched.snapshots));
        expect(copies).toEqual(refreshes.map((_, i) => layout.read(numbers, i * layout.length)));
      }
    }),
    { numRuns: times(30) },
  ));

test("numbers that are written later are not shown", () => {
  const numbers = new Float64Array(length);
  const watched = new ChangeTracker(shape, refreshes.length);
  watched.take(numbers);
  numbers.fill(7);
  expect(watched.snapshots[0]!.engines[0]!.running).toBe(0);
  watched.take(numbers);
  expect(watched.snapshots[0]!.engines[0]!.running).toBe(7);
});
